// The requests that the page in the panel may send to the hub: no other method or path leaves the panel.

/** Paths by method; `*` stands for one part, such as an id. */
const ALLOWED = new Map<string, string[]>([
  ["GET", [
    "/healthz",
    "/api/v1/compare",
    "/api/v1/inbox",
    "/api/v1/iterations",
    "/api/v1/live",
    "/api/v1/names",
    "/api/v1/permissions",
    "/api/v1/search",
    "/api/v1/sending",
    "/api/v1/sessions",
    "/api/v1/sessions/*/export",
    "/api/v1/sessions/*/feed",
    "/api/v1/sessions/*/spending",
    "/api/v1/sessions/*/timeline",
    "/api/v1/sessions/*/tree",
    "/api/v1/setup",
    "/api/v1/stats",
  ]],
  ["POST", [
    "/api/v1/agents/*/stop",
    "/api/v1/permissions/*/answer",
    "/api/v1/seen",
    "/api/v1/sessions/*/dismiss",
    "/api/v1/sessions/*/jump",
  ]],
]);

/** Most characters of an address, and most bytes of a body: the page's are far shorter. */
const [LONGEST_ADDRESS, LARGEST_BODY] = [8192, 1 << 20];

/** Headers that the page may set. The extension adds no other that the hub trusts. */
const HEADERS = ["content-type", "last-event-id", "x-subscope"];

export interface Allowed {
  method: string;
  address: string;
  /** The id in the path, decoded; null where it has none. */
  id: string | null;
  /** The last part of the path. */
  what: string;
  headers: Record<string, string>;
  body: string | null;
}

/** Returns a request of the page, reduced to what may be sent; null if it may not be. */
export function allowed(given: { method: unknown; address: unknown; headers: unknown; body: unknown }): Allowed | null {
  const { method, address, headers, body } = given;
  if (typeof method !== "string" || typeof address !== "string" || address.length > LONGEST_ADDRESS) return null;
  // Only printable ASCII: what is sent is what was checked.
  if (!/^\/[\x21-\x7e]*$/.test(address) || address.includes("#")) return null;
  if (body !== null && (typeof body !== "string" || Buffer.byteLength(body) > LARGEST_BODY)) return null;
  const [path = ""] = address.split("?", 1);
  const parts = path.split("/");
  const pattern = (ALLOWED.get(method) ?? []).find((one) => {
    const wanted = one.split("/");
    return wanted.length === parts.length && wanted.every((part, at) => (part === "*" ? isName(parts[at]) : part === parts[at]));
  });
  if (pattern === undefined) return null;
  const star = pattern.split("/").indexOf("*");
  return {
    method,
    address,
    id: star < 0 ? null : decodeURIComponent(parts[star] ?? ""),
    what: parts.at(-1) ?? "",
    headers: Object.fromEntries(Object.entries(headers ?? {}).filter(([name, value]) => HEADERS.includes(name) && typeof value === "string" && /^[\x20-\x7e]*$/.test(value))) as Record<string, string>,
    body,
  };
}

/** Whether a part of a path is one encoded name, and no step to another folder. */
function isName(part: string | undefined): boolean {
  if (part === undefined || part === "") return false;
  try {
    return ![".", ".."].includes(decodeURIComponent(part));
  } catch {
    return false;
  }
}
