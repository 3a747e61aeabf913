// The palette: whether it is open, and what is chosen in it.
import { api, type Compared } from "./api";
import { oneLine } from "./safe";

/** How long what was done is said. */
const SAID_MS = 4000;

/** Something that the palette can do. */
export interface Command {
  name: string;
  /** The key that does the same. */
  key?: string;
  run: () => unknown;
}

class Palette {
  isOpen = $state(false);
  /** What a session is chosen to be compared with; null where one is chosen to be shown. */
  comparing: Compared | null = $state.raw(null);

  /** What has just been done, in words; empty after a moment. */
  said = $state("");
  #alarm: ReturnType<typeof setTimeout> | undefined;

  /** Puts a text on the clipboard, and says so. */
  async copy(text: string, what: string): Promise<void> {
    this.say(await navigator.clipboard.writeText(text).then(() => `${what} copied`, () => `the browser does not let this page copy: ${text}`));
  }

  /** Goes to the terminal of a session, or copies the command that leads there. */
  async goToTerminal(session: string): Promise<void> {
    try {
      const { says, command } = await api.jump(session);
      if (command === null) this.say(oneLine(says));
      else await this.copy(command, `${oneLine(says)}: command`);
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error));
    }
  }

  say(words: string): void {
    this.said = words;
    clearTimeout(this.#alarm);
    this.#alarm = setTimeout(() => (this.said = ""), SAID_MS);
  }

  open(comparing: Compared | null = null): void {
    this.comparing = comparing;
    this.isOpen = true;
  }
}

export const palette = new Palette();
