// All keyboard shortcuts in one table, which is also the content of the help (`?`).
export interface Key {
  keys: string[];
  does: string;
  where: "everywhere" | "session";
}

export const KEYS: Key[] = [
  { keys: ["?"], does: "shows the keys", where: "everywhere" },
  { keys: ["/"], does: "searches everything", where: "everywhere" },
  { keys: ["ctrl-K", ":"], does: "goes to a session or an agent, or does something", where: "everywhere" },
  { keys: ["f"], does: "finds a session in the list", where: "everywhere" },
  { keys: ["["], does: "hides the list of sessions, or shows it", where: "everywhere" },
  { keys: ["h"], does: "shows what is live", where: "everywhere" },
  { keys: ["u"], does: "marks all that ended as read", where: "everywhere" },
  { keys: ["d"], does: "dismisses what a session needs, on its row in Needs you", where: "everywhere" },
  { keys: ["j", "ArrowDown"], does: "goes to the next row", where: "everywhere" },
  { keys: ["k", "ArrowUp"], does: "goes to the previous row", where: "everywhere" },
  { keys: ["ArrowRight", "ArrowLeft"], does: "unfolds, folds what is below the row: agents, then calls", where: "everywhere" },
  { keys: ["Enter"], does: "opens the row", where: "everywhere" },
  { keys: ["Escape"], does: "closes what is open", where: "everywhere" },
  { keys: ["1", "2", "3", "4", "5"], does: "tree and waterfall, feed, summary, changed files, conversation", where: "session" },
  { keys: ["+", "=", "-", "0"], does: "zooms in, zooms out, shows everything", where: "session" },
  { keys: [",", "."], does: "moves what is zoomed", where: "session" },
  { keys: ["zR", "zM"], does: "unfolds all agents and their calls, folds all", where: "session" },
  { keys: ["c"], does: "dims what is not on the critical path", where: "session" },
  { keys: ["b"], does: "shows the figures of an agent with all below it, or its own", where: "session" },
  { keys: [" "], does: "replays the session, or pauses", where: "session" },
  { keys: ["p", "]"], does: "goes to the previous, the next moment at which something began or ended", where: "session" },
  { keys: ["{", "}"], does: "goes back, forward by a tenth of the session", where: "session" },
  { keys: ["<", ">"], does: "replays slower, faster", where: "session" },
  { keys: ["L"], does: "back to now", where: "session" },
  { keys: ["t"], does: "opens all calls of the agent with their full outputs, or folds them", where: "session" },
  { keys: ["J"], does: "goes to the terminal in which the session runs", where: "session" },
  { keys: ["s"], does: "stops the agent that is open (asks first)", where: "session" },
];

const NAMES: Record<string, string> = { " ": "space", ArrowDown: "↓", ArrowUp: "↑", ArrowRight: "→", ArrowLeft: "←", Escape: "esc", Enter: "enter" };

export const keyName = (key: string): string => NAMES[key] ?? key;

/** Unfolds what is below the row that has the focus, the first that is folded first; or folds it, the last that is unfolded first. */
export function fold(isOpen: boolean): boolean {
  const all = [...(document.activeElement?.parentElement?.querySelectorAll<HTMLElement>(":scope > button.fold") ?? [])];
  const button = (isOpen ? all : all.reverse()).find(({ ariaExpanded }) => ariaExpanded === String(!isOpen));
  button?.click();
  return button !== undefined;
}

/** Moves the focus among rows; those that are seen are in the page. */
export function step(by: 1 | -1): void {
  const current = document.activeElement;
  const area = current?.closest("main, .sidebar") ?? document.querySelector("main") ?? document;
  const rows = [...area.querySelectorAll<HTMLElement>("[data-nav]")];
  const at = rows.findIndex((row) => row === current);
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}
