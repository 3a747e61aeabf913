/** Queries of a hub, and its live feed. */
/** A hub refused a request, or did not answer. */
export class HubError extends Error {
    name = "HubError";
}
/** A hub at an address, as `subscope serve` prints it. */
export class Client {
    #address;
    #options;
    constructor(address, options = {}) {
        this.#address = address.replace(/\/+$/, "");
        this.#options = options;
    }
    async #open(path, query = {}, init = {}) {
        const words = new URLSearchParams();
        for (const [key, value] of Object.entries(query))
            if (value !== undefined)
                words.set(key, String(value));
        const headers = new Headers(init.headers);
        if (this.#options.token)
            headers.set("authorization", `Bearer ${this.#options.token}`);
        const url = this.#address + path + (words.size > 0 ? `?${words}` : "");
        let answer;
        try {
            answer = await fetch(url, { ...init, headers });
        }
        catch (error) {
            throw new HubError(`${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
        }
        if (!answer.ok)
            throw new HubError(`${path}: ${answer.status}: ${(await answer.text()).slice(0, 4096)}`);
        return answer;
    }
    async #get(path, query = {}) {
        return (await (await this.#open(path, query)).json());
    }
    /** Returns the version, mode and address of the hub. */
    health() {
        return this.#get("/healthz");
    }
    /** Returns a page of sessions, the newest first; `next` of a page is `after` of the following one. */
    sessions(query = {}) {
        return this.#get("/api/v1/sessions", query);
    }
    /** Returns the agents of a session. */
    tree(session) {
        return this.#get(`/api/v1/sessions/${encodeURIComponent(session)}/tree`);
    }
    /** Finds words in prompts, messages, thoughts, tool arguments and results. */
    search(q, query = {}) {
        return this.#get("/api/v1/search", { q, ...query });
    }
    /** Returns statistics over all sessions. */
    stats() {
        return this.#get("/api/v1/stats");
    }
    /** Asks one subagent to stop. */
    async stop(agent, session) {
        const answer = await this.#open(`/api/v1/agents/${encodeURIComponent(agent)}/stop`, session ? { session } : {}, {
            method: "POST",
            headers: { "content-type": "application/json", "x-subscope": "1" },
            body: "{}",
        });
        return (await answer.json());
    }
    /**
     * Yields everything that happens. `after` is the `seq` of the last event that was seen. The iteration ends when the
     * hub ends, or `signal` is aborted.
     */
    async *live(options = {}) {
        const headers = {};
        if (options.after !== undefined)
            headers["last-event-id"] = String(options.after);
        const init = options.signal ? { headers, signal: options.signal } : { headers };
        const answer = await this.#open("/api/v1/live", {}, init);
        const decoder = new TextDecoder();
        let rest = "";
        let name = "message";
        let lines = [];
        for await (const bytes of answer.body ?? []) {
            const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n");
            rest = parts.pop() ?? "";
            for (const part of parts) {
                const line = part.replace(/\r$/, "");
                if (line === "") {
                    if (lines.length > 0)
                        yield { name, data: JSON.parse(lines.join("\n")) };
                    name = "message";
                    lines = [];
                }
                else if (line.startsWith("event:")) {
                    name = line.slice(6).trim();
                }
                else if (line.startsWith("data:")) {
                    lines.push(line.slice(5).replace(/^ /, ""));
                }
            }
        }
    }
}
