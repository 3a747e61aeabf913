// Defers work until the browser has painted the response to an input.

/** Calls `work` once the next frame has been painted, and `delayMs` after that. Returns a function that cancels it. */
export function afterFrame(work: () => void, delayMs: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Callbacks of a frame run before it is painted; a task that they queue runs after it.
  const frame = requestAnimationFrame(() => (timer = setTimeout(work, delayMs)));
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}
