// Choices that the browser keeps. In a frame of another page, or with cookies blocked, it may keep none: choices then
// last as long as the page.

const lasting = new Map<string, string>();

export const choices = {
  /** Returns a choice; null if none was made. */
  get(key: string): string | null {
    try {
      return localStorage.getItem(key) ?? lasting.get(key) ?? null;
    } catch {
      return lasting.get(key) ?? null;
    }
  },

  /** Keeps a choice; null removes it. */
  set(key: string, value: string | null): void {
    if (value === null) lasting.delete(key);
    else lasting.set(key, value);
    try {
      if (value === null) localStorage.removeItem(key);
      else localStorage.setItem(key, value);
    } catch {
      // Denied, or full.
    }
  },
};
