// Answers of a server that are requested again and again.
import { untrack } from "svelte";

/** The latest answer to a query: requested at once, at an interval, and when the query changes. */
export class Polled<Answer> {
  answer = $state.raw<Answer | null>(null);
  /** The message of the latest request if it failed; the answer before it stays. */
  error = $state("");

  /** `query` identifies what `ask` requests; an answer to an earlier query is dropped. */
  constructor(query: () => string, ask: () => Promise<Answer>, intervalMs: number) {
    $effect(() => {
      query();
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
