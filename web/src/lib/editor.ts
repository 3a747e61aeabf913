// Opens files of calls in the user's editor. Paths come from agents: they are encoded; paths with hidden characters get no
// link.
import { api } from "./api";
import { fileIn } from "./payload";
import { visible } from "./safe";

/** The URL that opens a file; empty where none is known. `form` has `{path}`, and maybe `{line}`. */
export function editorUrl(form: string | null | undefined, cwd: string | null, path: string, line: number): string {
  const absolute = path.startsWith("/") || cwd === null ? path : `${cwd.replace(/\/+$/, "")}/${path}`;
  if (!form || !absolute.startsWith("/") || visible(absolute) !== absolute || /[\n\t]/.test(absolute)) return "";
  let encoded: string;
  try {
    encoded = absolute.split("/").map(encodeURIComponent).join("/");
  } catch {
    // An unpaired surrogate: not a file name.
    return "";
  }
  // Avoid a double slash if the form has one before `{path}`.
  const place = form.indexOf("{path}");
  const own = form[place - 1] === "/" ? encoded.slice(1) : encoded;
  return form.replaceAll("{path}", () => own).replaceAll("{line}", String(Math.max(1, Math.trunc(line))));
}

/** Opens a URL that an editor answers. */
export function openEditor(url: string): void {
  location.assign(url);
}

/** The URL that opens the file of a call, whose arguments are fetched; empty where it has none. */
export async function editorUrlOf(form: string, cwd: string | null, session: string, agent: string, call: string): Promise<string> {
  const { events } = await api.feed(session, { agent, kind: "tool.pre", limit: 50_000, brief: true });
  const begin = events.find(({ data }) => data["tool_use_id"] === call);
  const file = fileIn(begin?.data["input"]);
  return file ? editorUrl(form, cwd, file.path, file.line) : "";
}
