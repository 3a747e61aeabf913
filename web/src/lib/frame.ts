// Defers work until the browser has painted the response to an input.

/** Calls `work` once the next frame has been painted. Returns what cancels it. */
export function afterFrame(work: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Callbacks of a frame run before it is painted, a task that they queue runs after it.
  const frame = requestAnimationFrame(() => (timer = setTimeout(work)));
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}
