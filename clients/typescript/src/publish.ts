/** Publishes what the subagents of an agent do. */

import type { PublishedEvent, PublishedEventKind, PublishedFields } from "./model.js";

/** Environment variable with the address of the hub. */
export const ADDRESS = "CPE_SUBAGENT_LOGGING_ADDRESS";

/** An event could not be delivered; its run must end. */
export class PublishError extends Error {
  override name = "PublishError";
}

/** A person asked the run to stop; end it with the status `stopped`. */
export class StopRequested extends Error {
  override name = "StopRequested";
}

export interface PublisherOptions {
  /** Token of the hub, if it asks for one. */
  token?: string;
  /** Milliseconds for one delivery. Default: 5000. */
  timeoutMs?: number;
}

declare const process: { env: Record<string, string | undefined> } | undefined;

const text = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value ?? null));
const message = (error: unknown) => (error instanceof Error ? error.message || error.name : String(error));

/** Publishes events to an address of this machine; to none, it does nothing. */
export class Publisher {
  readonly #address: string | undefined;
  readonly #options: PublisherOptions;

  constructor(address: string | undefined, options: PublisherOptions = {}) {
    this.#address = address?.replace(/\/+$/, "") || undefined;
    this.#options = options;
  }

  /** Returns a publisher to the address in `CPE_SUBAGENT_LOGGING_ADDRESS`. */
  static fromEnv(options: PublisherOptions = {}): Publisher {
    return new Publisher(typeof process === "undefined" ? undefined : process.env[ADDRESS], options);
  }

  /**
   * Publishes one event. Throws PublishError if it cannot be delivered (a warning for `subagent_end`), and StopRequested
   * if a person asked the run to stop.
   */
  async publish(
    type: PublishedEventKind,
    subagentName: string,
    subagentRunId: string,
    fields: PublishedFields = {},
  ): Promise<void> {
    if (!this.#address) return;
    const event: PublishedEvent = {
      subagentName,
      subagentRunId,
      timestamp: Date.now(),
      type,
      eventId: crypto.randomUUID(),
      ...fields,
    };
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (this.#options.token) headers["authorization"] = `Bearer ${this.#options.token}`;
    let isStopped: boolean;
    try {
      const answer = await fetch(`${this.#address}/subagent-events`, {
        method: "POST",
        headers,
        body: JSON.stringify(event),
        signal: AbortSignal.timeout(this.#options.timeoutMs ?? 5000),
      });
      const said = await answer.text();
      if (!answer.ok) throw new Error(`${answer.status}: ${said}`);
      isStopped = Boolean((JSON.parse(said || "{}") as { stop?: boolean }).stop);
    } catch (error) {
      const why = error instanceof Error && error.cause ? message(error.cause) : message(error);
      const what = `${type} of run ${subagentRunId} could not be delivered: ${why}`;
      if (type !== "subagent_end") throw new PublishError(what, { cause: error });
      console.error("warning:", what);
      return;
    }
    if (isStopped && type !== "subagent_end") throw new StopRequested(`a person asked run ${subagentRunId} to stop`);
  }

  /** Runs a subagent: its start and its end are published; an exception is its error. */
  async run<T>(
    name: string,
    prompt: string,
    work: (run: Run) => Promise<T>,
    fields: PublishedFields = {},
  ): Promise<T | undefined> {
    const run = new Run(this, name);
    await this.publish("subagent_start", name, run.id, { payload: prompt, ...fields });
    try {
      const result = await work(run);
      await this.publish("subagent_end", name, run.id, result === undefined ? {} : { result: text(result) });
      return result;
    } catch (error) {
      const isStopped = error instanceof StopRequested;
      await this.publish("subagent_end", name, run.id, isStopped ? { status: "stopped" } : { payload: message(error) });
      if (isStopped) return undefined;
      throw error;
    }
  }
}

/** A run of a subagent. */
export class Run {
  /** Id of the run; `parentRunId` of runs that it starts. */
  readonly id: string = crypto.randomUUID();
  readonly #publisher: Publisher;

  constructor(
    publisher: Publisher,
    readonly name: string,
  ) {
    this.#publisher = publisher;
  }

  /** Publishes a thought. */
  thought(payload: string): Promise<void> {
    return this.#publisher.publish("thought_trace", this.name, this.id, { payload });
  }

  /** Calls a tool: the call and its result are published; an exception is its error. */
  async call<T>(toolName: string, argument: unknown, work: () => Promise<T>): Promise<T> {
    const call = { toolName, toolCallId: crypto.randomUUID() };
    await this.#publisher.publish("tool_call", this.name, this.id, { ...call, payload: text(argument) });
    let result: T;
    try {
      result = await work();
    } catch (error) {
      if (!(error instanceof StopRequested || error instanceof PublishError)) {
        const failed = { ...call, payload: message(error), isError: true };
        await this.#publisher.publish("tool_result", this.name, this.id, failed);
      }
      throw error;
    }
    await this.#publisher.publish("tool_result", this.name, this.id, { ...call, payload: text(result) });
    return result;
  }
}
