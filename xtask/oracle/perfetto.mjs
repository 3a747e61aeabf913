// Asks Perfetto's own trace processor about traces that subscope wrote.
//
// usage: node perfetto.mjs ENGINE_FOLDER SUBSCOPE FOLDER RECORDING…; prints a line that begins with WRONG for each thing that
// is not as it should be. The engine is the UI's worker (engine_bundle.js and trace_processor.wasm), which answers requests
// of protos/perfetto/trace_processor/trace_processor.proto.

import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import vm from "node:vm"

const [engineFolder, subscope, folder, ...recordings] = process.argv.slice(2)
// It says what it does on its console.
const say = console.log
console.log = console.warn = console.error = () => {}
const environment = { HOME: join(folder, "home"), PATH: process.env.PATH, SUBSCOPE_NO_AUTOSTART: "1" }

function run(...words) {
  return spawnSync(subscope, words, { env: environment, maxBuffer: 1 << 30 })
}

function wrong(what, why) {
  say(`WRONG ${what}: ${why}`)
}

/** Encodes a field of a protobuf message: a number as a varint, bytes or a text with their length. */
function field(number, value) {
  const varint = (rest) => {
    const bytes = []
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
    return [...bytes, rest]
  }
  if (typeof value === "number") return Buffer.from([...varint(number * 8), ...varint(value)])
  const bytes = Buffer.from(value)
  return Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes])
}

/** Reads a varint; returns it as a signed 64-bit number, and where it ends. */
function varintAt(bytes, at) {
  let value = 0n
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++]
    value |= BigInt(byte & 127) << shift
    if (byte < 128) return [Number(BigInt.asIntN(64, value)), at]
  }
}

function* fieldsOf(bytes) {
  for (let at = 0; at < bytes.length; ) {
    let key
    ;[key, at] = varintAt(bytes, at)
    const number = key >> 3
    if ((key & 7) === 0) {
      let value
      ;[value, at] = varintAt(bytes, at)
      yield [number, value]
    } else if ((key & 7) === 2) {
      let length
      ;[length, at] = varintAt(bytes, at)
      yield [number, bytes.subarray(at, at + length)]
      at += length
    } else {
      throw new Error(`wire type ${key & 7}`)
    }
  }
}

/** Reads a batch of cells of a query's result into rows. */
function cellsOf(batch, columns, rows) {
  let types = []
  const [varints, strings] = [[], []]
  let floats = Buffer.alloc(0)
  for (const [number, value] of fieldsOf(batch)) {
    if (number === 1) types = [...value]
    if (number === 2) for (let at = 0; at < value.length; ) (([cell, next]) => (varints.push(cell), (at = next)))(varintAt(value, at))
    if (number === 3) floats = value
    if (number === 5) strings.push(...Buffer.from(value).toString().split("\0"))
  }
  let float = 0
  types.forEach((type, place) => {
    const column = place % columns.length
    if (column === 0) rows.push({})
    const cell = { 1: () => null, 2: () => varints.shift(), 3: () => Buffer.from(floats).readDoubleLE(8 * float++), 4: () => strings.shift() }
    rows.at(-1)[columns[column]] = (cell[type] ?? (() => undefined))()
  })
}

// Compiling the engine takes longer than all queries of a trace: it is compiled once, and each trace has its own instance.
const { Module } = WebAssembly
const compiled = new Map()
WebAssembly.Module = function (bytes) {
  const key = bytes.byteLength
  if (!compiled.has(key)) compiled.set(key, new Module(bytes))
  return compiled.get(key)
}
const engine = new vm.Script(readFileSync(join(engineFolder, "engine_bundle.js"), "utf8"))

/** A trace processor with one trace. */
class TraceProcessor {
  #port
  #replies = []
  #sequence = 0

  constructor(trace) {
    const self = { location: { href: "file:///engine_bundle.js" } }
    class XMLHttpRequest {
      open(_method, url) {
        this.url = url
      }
      send() {
        const bytes = readFileSync(join(engineFolder, this.url.split("/").pop()))
        this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)
        this.status = 200
      }
    }
    // The engine is a worker of a browser: it runs in this realm, so that its arrays are ours.
    Object.assign(globalThis, { self, XMLHttpRequest, location: self.location, WorkerGlobalScope: class {} })
    process.type = "renderer"
    engine.runInThisContext()
    this.ready = (async () => {
      this.#port = { postMessage: (reply) => this.#replies.push(Buffer.from(reply)) }
      // The module is instantiated in steps of its own.
      await new Promise((resolve) => setTimeout(resolve, 50))
      self.onmessage({ data: this.#port })
      this.#request(1, field(101, trace))
      this.#request(2)
    })()
  }

  /** Sends a request; returns the fields of its replies. */
  #request(kind, args = Buffer.alloc(0)) {
    const message = Buffer.concat([field(1, this.#sequence++), field(2, kind), args])
    this.#replies = []
    this.#port.onmessage({ data: new Uint8Array(field(1, message)) })
    const streams = this.#replies.flatMap((reply) => [...fieldsOf(reply)].filter(([number]) => number === 1))
    return streams.flatMap(([, rpc]) => [...fieldsOf(rpc)])
  }

  query(sql) {
    const [columns, rows] = [[], []]
    for (const [number, result] of this.#request(3, field(103, field(1, sql)))) {
      if (number !== 203) continue
      for (const [number, value] of fieldsOf(result)) {
        if (number === 1) columns.push(Buffer.from(value).toString())
        if (number === 2) throw new Error(Buffer.from(value).toString())
        if (number === 3) cellsOf(value, columns, rows)
      }
    }
    return rows
  }
}

/** What a tree has that a trace must have. */
function expected(tree) {
  const withTimes = tree.agents.filter((agent) => agent.intervals.length > 0)
  const intervals = withTimes.reduce((sum, agent) => sum + agent.intervals.length, 0)
  // A call without a time is at that of the one before it: one of an agent without any time has no place.
  // The trace processor makes a track when something is on it.
  let [calls, tracks] = [0, 0]
  for (const agent of tree.agents) {
    const first = agent.tools.findIndex((call) => call.started_at_ms !== null)
    if (agent.intervals.length > 0) calls += agent.tools.length
    else if (first >= 0) calls += agent.tools.length - first
    if (agent.intervals.length > 0 || first >= 0) tracks += 1
  }
  const placed = new Set()
  for (const agent of tree.agents) agent.tools.forEach((call) => placed.add(call.id))
  const spawns = withTimes.filter((agent) => agent.spawned_by !== null && placed.has(agent.spawned_by)).length
  return { slices: intervals + calls, intervals, calls, spawns, tracks }
}

let [count, slices, flows] = [0, 0, 0]
for (const recording of recordings) {
  const shown = run("tree", recording, "--json")
  // A part of a recording, or several sessions in one file.
  if (shown.status !== 0) continue
  const path = join(folder, "trace.pftrace")
  if (run("export", recording, "--as", "perfetto", "-o", path).status !== 0) {
    wrong(recording, "not exported")
    continue
  }
  const tree = JSON.parse(shown.stdout)
  const processor = new TraceProcessor(readFileSync(path))
  await processor.ready
  const one = (sql) => processor.query(sql)[0].n
  const found = {
    slices: one("select count(*) n from slice"),
    intervals: one("select count(*) n from slice where extract_arg(arg_set_id, 'debug.tool_use_id') is null and extract_arg(arg_set_id, 'debug.basis') is null"),
    calls: one("select count(*) n from slice where extract_arg(arg_set_id, 'debug.basis') is not null"),
    spawns: one("select count(*) n from flow"),
    tracks: one("select count(*) n from track where name != 'parallel calls' and name != 'agents at work' and parent_id is not null"),
  }
  const waits = one("select count(*) n from slice where dur = 0 and name in ('stall', 'permission', 'retry') and arg_set_id is null or extract_arg(arg_set_id, 'debug.detail') is not null and extract_arg(arg_set_id, 'debug.basis') is null and extract_arg(arg_set_id, 'debug.agent_id') is null")
  found.slices -= waits
  found.intervals -= waits
  const should = expected(tree)
  for (const key of Object.keys(should)) {
    if (found[key] !== should[key]) wrong(recording, `${key}: ${found[key]}, should be ${should[key]}`)
  }
  for (const row of processor.query("select name, value, severity from stats where severity in ('error', 'data_loss') and value != 0")) {
    wrong(recording, `stats: ${JSON.stringify(row)}`)
  }
  const outside = one("select count(*) n from slice child join slice parent on child.parent_id = parent.id where child.ts < parent.ts or child.ts + child.dur > parent.ts + parent.dur")
  if (outside > 0) wrong(recording, `${outside} slices outside the one that they are in`)
  const unfinished = one("select count(*) n from slice where dur < 0")
  if (unfinished > 0) wrong(recording, `${unfinished} slices without an end`)
  const ids = processor.query("select extract_arg(arg_set_id, 'debug.tool_use_id') id from slice where extract_arg(arg_set_id, 'debug.tool_use_id') is not null")
  const known = new Set(tree.agents.flatMap((agent) => agent.tools.map((call) => call.id)))
  if (!ids.every((row) => known.has(row.id))) wrong(recording, "a call that is not in the tree")
  count += 1
  slices += found.slices
  flows += found.spawns
}
say(`${count} traces with ${slices} slices and ${flows} flows`)
if (count < 200) wrong("recordings", `${count} of ${recordings.length}`)
