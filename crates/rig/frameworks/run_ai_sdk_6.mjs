// Vercel AI SDK 6: agents in tools, its own instrumentation.

import { openai } from '@ai-sdk/openai'
import { NodeSDK } from '@opentelemetry/sdk-node'
import { ToolLoopAgent, tool } from 'ai'
import { z } from 'zod'

const sdk = new NodeSDK()
sdk.start()

const agent = (name, tools) =>
  new ToolLoopAgent({
    model: openai.chat('gpt-4o'),
    instructions: `You are ${name}.`,
    tools,
    experimental_telemetry: { isEnabled: true, functionId: name },
  })
const ask = (other) =>
  tool({
    inputSchema: z.object({ task: z.string() }),
    execute: async ({ task }) => (await other.generate({ prompt: task })).text,
  })
const lookup = tool({
  inputSchema: z.object({ key: z.string() }),
  execute: async ({ key }) => {
    throw new Error(`no such key: ${key}`)
  },
})
const add = tool({
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => a + b,
})

const gamma = agent('gamma', { add })
const alpha = agent('alpha', { ask_gamma: ask(gamma) })
const beta = agent('beta', { lookup })
const main = agent('main', { ask_alpha: ask(alpha), ask_beta: ask(beta) })
console.log((await main.generate({ prompt: process.argv[2] })).text)
await sdk.shutdown()
