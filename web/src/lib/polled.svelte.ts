// Answers of a server that are requested again and again.
import { untrack } from "svelte";

/** Time from an answer to the next request, in milliseconds. */
type Pace<Answer> = number | ((answer: Answer | null) => number);

/** The latest answer to a query: requested at once, again some time after each answer, and when the query changes. */
export class Polled<Answer> {
  answer = $state.raw<Answer | null>(null);
  /** The message of the latest request if it failed; the answer before it stays. */
  error = $state("");

  /** `query` identifies what `ask` requests, or is null where nothing is to be requested; an answer to an earlier query is dropped. */
  constructor(query: () => string | null, ask: () => Promise<Answer>, pace: Pace<Answer>) {
    // Derived: what the query is made of may change, as the clock does, without another query.
    const key = $derived(query());
    $effect(() => {
      if (key === null) {
        this.answer = null;
        return undefined;
      }
      let isCurrent = true;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const poll = async (): Promise<void> => {
        try {
          const answer = await ask();
          if (isCurrent) [this.answer, this.error] = [answer, ""];
        } catch (failure) {
          if (isCurrent) this.error = failure instanceof Error ? failure.message : String(failure);
        }
        if (isCurrent) timer = setTimeout(() => void poll(), typeof pace === "number" ? pace : pace(this.answer));
      };
      untrack(() => void poll());
      return () => {
        isCurrent = false;
        clearTimeout(timer);
      };
    });
  }
}
