// Opens files of calls in the user's editor. Paths come from agents: they are encoded; paths with hidden characters get no
// link.
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
