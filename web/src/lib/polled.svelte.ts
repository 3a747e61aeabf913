// Answers of a server that are requested again and again.
import { untrack } from "svelte";

/** The latest answer to a query: requested at once, at an interval, and when the query changes. */
export class Polled<Answer> {
  answer = $state.raw<Answer | null>(null);
  /** The message of the latest request if it failed; the answer before it stays. */
  error = $state("");

  /** `query` identifies what `ask` requests, or is null where nothing is to be requested; an answer to an earlier query is dropped. */
  constructor(query: () => string | null, ask: () => Promise<Answer>, intervalMs: number) {
    // Derived: what the query is made of may change, as the clock does, without another query.
    const key = $derived(query());
    $effect(() => {
      if (key === null) {
        this.answer = null;
        return undefined;
      }
      let isCurrent = true;
      const poll = (): void => {
        ask().then(
          (answer) => isCurrent && ([this.answer, this.error] = [answer, ""]),
          (failure: unknown) => isCurrent && (this.error = failure instanceof Error ? failure.message : String(failure)),
        );
      };
      untrack(poll);
      const timer = setInterval(poll, intervalMs);
      return () => {
        isCurrent = false;
        clearInterval(timer);
      };
    });
  }
}
