// Mastra: agents in tools, its own exporter.

import { createOpenAI } from '@ai-sdk/openai'
import { Agent } from '@mastra/core/agent'
import { Mastra } from '@mastra/core'
import { createTool } from '@mastra/core/tools'
import { Observability } from '@mastra/observability'
import { OtelExporter } from '@mastra/otel-exporter'
import { z } from 'zod'

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL })
// This exporter reads none of the standard variables.
const exporter = new OtelExporter({
  provider: {
    custom: {
      endpoint: `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces`,
      protocol: process.env.OTEL_EXPORTER_OTLP_PROTOCOL,
    },
  },
  timeout: 5000,
  batchSize: 1,
})

const agent = (name, tools) =>
  new Agent({ id: name, name, instructions: `You are ${name}.`, model: openai.chat('gpt-4o'), tools })
const ask = (id) =>
  createTool({
    id: `ask_${id}`,
    description: `Asks ${id}.`,
    inputSchema: z.object({ task: z.string() }),
    execute: async ({ task }, context) =>
      (await mastra.getAgent(id).generate(task, { tracingContext: context?.tracingContext })).text,
  })
const lookup = createTool({
  id: 'lookup',
  description: 'Looks up a key.',
  inputSchema: z.object({ key: z.string() }),
  execute: async ({ key }) => {
    throw new Error(`no such key: ${key}`)
  },
})
const add = createTool({
  id: 'add',
  description: 'Adds two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => a + b,
})

const mastra = new Mastra({
  agents: {
    gamma: agent('gamma', { add }),
    alpha: agent('alpha', { ask_gamma: ask('gamma') }),
    beta: agent('beta', { lookup }),
    main: agent('main', { ask_alpha: ask('alpha'), ask_beta: ask('beta') }),
  },
  observability: new Observability({ configs: { otel: { serviceName: 'app', exporters: [exporter] } } }),
})
console.log((await mastra.getAgent('main').generate(process.argv[2])).text)
await mastra.shutdown()
