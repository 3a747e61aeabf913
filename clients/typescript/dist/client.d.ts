/** Queries of a hub, and its live feed. */
import type { Health, Hits, Ordered, SessionPage, Stats, Tree } from "./model.js";
/** A hub refused a request, or did not answer. */
export declare class HubError extends Error {
    name: string;
}
export interface ClientOptions {
    /** Token of the hub, if it asks for one. */
    token?: string;
}
/** A message of the live feed. */
export interface LiveMessage {
    name: "event" | "snapshot" | "change" | "caught-up" | "missed" | "reset" | (string & {});
    data: Record<string, unknown>;
}
/** A hub at an address, as `subscope serve` prints it. */
export declare class Client {
    #private;
    constructor(address: string, options?: ClientOptions);
    /** Returns the version, mode and address of the hub. */
    health(): Promise<Health>;
    /** Returns a page of sessions, the newest first; `next` of a page is `after` of the following one. */
    sessions(query?: {
        limit?: number;
        after?: string;
        q?: string;
        live?: boolean;
    }): Promise<SessionPage>;
    /** Returns the agents of a session. */
    tree(session: string): Promise<Tree>;
    /** Finds words in prompts, messages, thoughts, tool arguments and results. */
    search(q: string, query?: {
        session?: string;
        limit?: number;
    }): Promise<Hits>;
    /** Returns statistics over all sessions. */
    stats(): Promise<Stats>;
    /** Asks one subagent to stop. */
    stop(agent: string, session?: string): Promise<Ordered>;
    /**
     * Yields everything that happens. `after` is the `seq` of the last event that was seen. The iteration ends when the
     * hub ends, or `signal` is aborted.
     */
    live(options?: {
        after?: number;
        signal?: AbortSignal;
    }): AsyncGenerator<LiveMessage>;
}
