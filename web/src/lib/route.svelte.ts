// The route: the address holds the state of the view, so that a link restores it. In a saved page (a file) and in
// an editor's panel it is in the fragment after `#`.

import { carriedTree } from "./api";
import { at, base } from "./base";
import { panel } from "./panel";

export type View = "waterfall" | "feed" | "summary" | "files" | "conversation";

export type Name = "home" | "session" | "search" | "stats" | "compare" | "iterations" | "sending" | "people" | "cost" | "unknown";

/** Whether the address of this page is not the page's own: a file, or the document of an editor's panel. */
const isInFragment = carriedTree !== null || panel !== null;

export interface Route {
  name: Name;
  session: string;
  agent: string | null;
  view: View;
  /** The moment that is replayed; null for now. */
  t: number | null;
  /** Whether it plays from its beginning as soon as it is there. */
  play: boolean;
  /** The stretch of time on show, in milliseconds since 1970. */
  zoom: [number, number] | null;
  /** What is searched for. */
  q: string;
  /** The call that is pointed at. */
  call: string | null;
  /** Options of a single view: filters of a search, the two sides of a comparison. */
  more: Readonly<Record<string, string>>;
  /** The path of an address that leads nowhere. */
  path: string;
}

/** Views with choices of their own. */
const LISTS: Name[] = ["search", "stats", "compare", "iterations", "sending", "people", "cost"];

const COMMON = ["view", "t", "z", "q", "call"];

const VIEWS: View[] = ["waterfall", "feed", "summary", "files", "conversation"];

const HOME: Route = {
  name: "home", session: "", agent: null, view: "waterfall", t: null, play: false, zoom: null, q: "", call: null, more: {}, path: "",
};

/** Reads an address: a path with its query. */
export function parse(path: string, query: string): Route {
  const given = new URLSearchParams(query);
  const parts = path.split("/").filter((part) => part !== "").map(decoded);
  const number = (text: string | null): number | null =>
    text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
  const [from, to] = (given.get("z") ?? "").split("-").map(number);
  const view = VIEWS.find((name) => name === given.get("view")) ?? "waterfall";
  const zoom: [number, number] | null =
    typeof from === "number" && typeof to === "number" && from < to ? [from, to] : null;
  const common = { view, zoom, q: given.get("q") ?? "", call: given.get("call") };
  const more = Object.fromEntries([...given].filter(([name, value]) => !COMMON.includes(name) && value !== ""));
  const list = LISTS.find((name) => name === parts[0]);
  if (list && parts.length === 1) return { ...HOME, ...common, name: list, more };
  if (parts.length === 0) return { ...HOME, ...common, more };
  if (parts[0] !== "s" || parts[1] === undefined) return { ...HOME, name: "unknown", path };
  const agent = parts[2] === "a" ? (parts[3] ?? null) : null;
  return { ...HOME, ...common, name: "session", session: parts[1], agent, t: number(given.get("t")), play: given.get("play") === "1" };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Writes an address. */
export function href(to: Partial<Route>): string {
  const route = { ...HOME, ...to };
  const query = new URLSearchParams();
  if (route.view !== "waterfall") query.set("view", route.view);
  if (route.t !== null) query.set("t", String(Math.round(route.t)));
  if (route.play) query.set("play", "1");
  if (route.zoom) query.set("z", route.zoom.map(Math.round).join("-"));
  if (route.q !== "") query.set("q", route.q);
  if (route.call !== null) query.set("call", route.call);
  for (const [name, value] of Object.entries(route.more)) if (value !== "") query.set(name, value);
  const text = query.toString();
  const address = text === "" ? pathOf(route) : `${pathOf(route)}?${text}`;
  return isInFragment ? `#${address}` : at(address);
}

function pathOf({ name, session, agent, path }: Route): string {
  switch (name) {
    case "home":
      return "/";
    case "session":
      return `/s/${encodeURIComponent(session)}${agent === null ? "" : `/a/${encodeURIComponent(agent)}`}`;
    case "unknown":
      return path;
    default:
      return `/${name}`;
  }
}

/** A saved page has exactly one session. */
const own = (route: Route): Route =>
  carriedTree === null ? route : { ...route, name: "session", session: carriedTree.session.id, t: null, play: false };

/** Reads the address of this page, or of a link on it. */
function read({ pathname, search, hash }: Pick<Location, "pathname" | "search" | "hash">): Route {
  if (!isInFragment) return parse(pathname.slice(base.length), search);
  const [path = "", query] = hash.slice(1).split("?", 2);
  return own(parse(path, query ?? ""));
}

/** Whether a link leads to a route of this page. */
const isInside = (link: HTMLAnchorElement): boolean =>
  isInFragment
    ? (link.getAttribute("href") ?? "").startsWith("#/")
    : link.origin === location.origin && link.pathname.startsWith(`${base}/`);

/** Minimum interval of writes of the address: a write costs much of a frame, and browsers limit their number. */
const WRITE_MS = 500;

class Router {
  route: Route = $state.raw(HOME);
  /** Number of this page's history entries before the current one. */
  #depth = 0;
  #writtenAt = 0;
  /** Timer of the next write of the address; undefined if the address is up to date. */
  #alarm: ReturnType<typeof setTimeout> | undefined;

  start(): void {
    this.route = read(location);
    addEventListener("popstate", () => {
      this.#forget();
      this.#depth = Math.max(0, this.#depth - 1);
      this.route = read(location);
      this.#keep();
    });
    addEventListener("pagehide", () => this.#write());
    // In a panel, before the editor: it takes every click on a link for its own.
    document.addEventListener("click", (event) => this.#follow(event), panel !== null);
    panel?.start((address) => this.go(read({ pathname: "", search: "", hash: `#${address}` })));
  }

  /** Navigates to another view and adds a history entry. */
  go(to: Partial<Route>): void {
    this.#write();
    this.route = own({ ...HOME, ...to });
    history.pushState(null, "", href(this.route));
    this.#depth += 1;
    this.#keep();
  }

  /** In a panel, has the editor keep the address. */
  #keep(): void {
    panel?.keep(href(this.route).slice(1));
  }

  /** Goes back in the history, or to the start if there is no earlier entry. */
  back(): void {
    this.#write();
    if (this.#depth > 0) history.back();
    else this.go({ name: "home" });
  }

  /** Sets options of the current view (an empty value removes one) without a history entry. */
  choose(more: Record<string, string>): void {
    const all = Object.entries({ ...this.route.more, ...more });
    this.adjust({ more: Object.fromEntries(all.filter(([, value]) => value !== "")) });
  }

  /** Changes fields of the route without a history entry. */
  adjust(to: Partial<Route>): void {
    this.route = own({ ...this.route, ...to });
    this.#alarm ??= setTimeout(() => this.#write(), Math.max(0, this.#writtenAt + WRITE_MS - performance.now()));
  }

  /** Writes the route to the address, if a write is due. */
  #write(): void {
    if (this.#alarm === undefined) return;
    this.#forget();
    this.#writtenAt = performance.now();
    history.replaceState(null, "", href(this.route));
    this.#keep();
  }

  #forget(): void {
    clearTimeout(this.#alarm);
    this.#alarm = undefined;
  }

  #follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || !isInside(link) || link.target !== "") return;
    if (link.hasAttribute("download") || link.rel === "external") return;
    event.preventDefault();
    this.go(read(link));
  }
}

export const router = new Router();
