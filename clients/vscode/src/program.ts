// Finds the program subscope, and the folder in which its hub has its socket.

import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";

export type Environment = Readonly<Record<string, string | undefined>>;

/** Where installers put programs: an editor that was started from a desktop often has a shorter PATH than a shell. */
const FOLDERS = (home: string): string[] => [join(home, ".local/bin"), join(home, ".cargo/bin"), "/opt/homebrew/bin", "/usr/local/bin"];

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

const withHome = (path: string, home: string): string => (path.startsWith("~/") ? join(home, path.slice(2)) : path);

/**
 * Returns the path of the program: that of the settings and no other if they name one, else the first one in `PATH` and the
 * usual folders. Null if there is none.
 */
export async function findProgram(named: string, environment: Environment, home: string, folders = FOLDERS(home)): Promise<string | null> {
  const inPath = (environment["PATH"] ?? "").split(delimiter).filter(isAbsolute);
  const places = named === "" ? [...inPath, ...folders].map((folder) => join(folder, "subscope")) : [withHome(named, home)];
  for (const place of places) if (await isProgram(place)) return place;
  return null;
}

/** Returns the data folder by the rule of the program (`docs/src/store.md`). */
export function dataFolder(named: string, environment: Environment, home: string): string {
  if (named !== "") return withHome(named, home);
  const own = environment["SUBSCOPE_DATA_DIR"];
  if (own) return own;
  const base = environment["XDG_DATA_HOME"];
  return join(base && isAbsolute(base) ? base : join(home, ".local/share"), "subscope");
}
