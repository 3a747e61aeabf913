// Where the server's root is for this browser: a proxy may put a path before all addresses. The page's script knows its own.
import { panel } from "./panel";

const found = /^(.*)\/assets\/[^/]*$/.exec(new URL(import.meta.url).pathname);

/** The path before all addresses of the server, without a slash at the end; mostly empty. */
export const base = panel === null && location.protocol.startsWith("http") ? (found?.[1] ?? "") : "";

/** Returns the address of a path of the server. */
export const at = (path: string): string => base + path;
