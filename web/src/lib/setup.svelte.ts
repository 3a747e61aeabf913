// The configuration of the hub, as far as the page shows it.
import type { Setup } from "../model";
import { api } from "./api";
import { panel } from "./panel";
import { visible } from "./safe";

/** The form of links to files in an editor's panel, which opens them itself: an address that leads nowhere in the document. */
const PANEL_EDITOR = "#file{path}:{line}";

class HubSetup {
  /** Null until the hub has answered. */
  state: Setup | null = $state.raw(null);

  /** The time zone whose days are counted; undefined for that of this browser. */
  get zone(): string | undefined {
    return isZone(this.state?.time_zone) ? this.state?.time_zone : undefined;
  }

  /** URL that opens a file, with `{path}` and maybe `{line}`; null if files are not opened. */
  get editor(): string | null {
    return panel === null ? (this.state?.editor ?? null) : PANEL_EDITOR;
  }

  async refresh(): Promise<void> {
    try {
      this.state = await api.setup();
    } catch {
      // The hub does not answer: the status bar says so.
    }
  }

  /** The command that resumes a session, in its folder; empty where none is known, or the words could do something else. */
  resume(id: string, cwd: string | null, harness: string | null): string {
    const command = this.state?.resume[harness ?? ""];
    const isPlain = (text: string): boolean => visible(text) === text && !/[\n\t]/.test(text);
    if (!command || !isPlain(id) || (cwd !== null && !isPlain(cwd))) return "";
    return `${cwd === null ? "" : `cd ${quoted(cwd)} && `}${command} ${quoted(id)}`;
  }
}

/** Whether the browser knows a zone by this name: rules in the form of POSIX have none. */
function isZone(name: string | undefined): boolean {
  try {
    return !!name && !!new Intl.DateTimeFormat("en", { timeZone: name });
  } catch {
    return false;
  }
}

/** One word of a shell. */
const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) && !text.startsWith("-") ? text : `'${text.replaceAll("'", "'\\''")}'`);

export const setup = new HubSetup();
