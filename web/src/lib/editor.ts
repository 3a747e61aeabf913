// Opens files of calls in the user's editor. Paths come from agents: they are encoded; paths with hidden characters get no
// link.
import type { ToolCall } from "../model";
import { api } from "./api";
import { kindOfTool } from "./lanes";
import { panel } from "./panel";
import { fileIn } from "./payload";
import { visible } from "./safe";
import { setup } from "./setup.svelte";

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
  if (panel === null) return location.assign(url);
  const [, path, line] = /^#file(.*):(\d+)$/.exec(url) ?? [];
  if (path !== undefined && line !== undefined) panel.openFile(decodeURIComponent(path), Number(line));
}

/** Whether a click with ctrl on a call looks for its file: it has an id and a tool for files, and an editor is set. */
export const mayHaveFile = (call: ToolCall | null): call is ToolCall & { id: string } =>
  call !== null && call.id !== null && Boolean(setup.editor) && ["read", "edit"].includes(kindOfTool(call.name));

/** Opens the file of a call, whose arguments are fetched; false where it has none. */
export async function openFileOf(session: string, cwd: string | null, agent: string, call: string): Promise<boolean> {
  const { events } = await api.feed(session, { agent, call, kind: "tool.pre", limit: 1 });
  const file = fileIn(events[0]?.data["input"]);
  const url = file ? editorUrl(setup.editor, cwd, file.path, file.line) : "";
  if (url !== "") openEditor(url);
  return url !== "";
}
