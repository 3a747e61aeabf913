/** Publishes what the subagents of an agent do. */
import type { PublishedEventKind, PublishedFields } from "./model.js";
/** Environment variable with the address of the hub. */
export declare const ADDRESS = "CPE_SUBAGENT_LOGGING_ADDRESS";
/** An event could not be delivered; its run must end. */
export declare class PublishError extends Error {
    name: string;
}
/** A person asked the run to stop; end it with the status `stopped`. */
export declare class StopRequested extends Error {
    name: string;
}
export interface PublisherOptions {
    /** Token of the hub, if it asks for one. */
    token?: string;
    /** Milliseconds for one delivery. Default: 5000. */
    timeoutMs?: number;
}
/** Publishes events to an address of this machine; to none, it does nothing. */
export declare class Publisher {
    #private;
    constructor(address: string | undefined, options?: PublisherOptions);
    /** Returns a publisher to the address in `CPE_SUBAGENT_LOGGING_ADDRESS`. */
    static fromEnv(options?: PublisherOptions): Publisher;
    /**
     * Publishes one event. Throws PublishError if it cannot be delivered (a warning for `subagent_end`), and StopRequested
     * if a person asked the run to stop.
     */
    publish(type: PublishedEventKind, subagentName: string, subagentRunId: string, fields?: PublishedFields): Promise<void>;
    /** Runs a subagent: its start and its end are published; an exception is its error. */
    run<T>(name: string, prompt: string, work: (run: Run) => Promise<T>, fields?: PublishedFields): Promise<T | undefined>;
}
/** A run of a subagent. */
export declare class Run {
    #private;
    readonly name: string;
    /** Id of the run; `parentRunId` of runs that it starts. */
    readonly id: string;
    constructor(publisher: Publisher, name: string);
    /** Publishes a thought. */
    thought(payload: string): Promise<void>;
    /** Calls a tool: the call and its result are published; an exception is its error. */
    call<T>(toolName: string, argument: unknown, work: () => Promise<T>): Promise<T>;
}
