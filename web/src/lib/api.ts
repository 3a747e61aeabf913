// The page's queries: to the hub or team's server that serves it, or to the session embedded in a saved page.
import type {
  Comparison,
  ContentLevel,
  Event,
  Health,
  Hits,
  IdMatches,
  Inbox,
  Iterations,
  Jumped,
  Ordered,
  PermissionAnswered,
  PermissionDecision,
  PermissionRequests,
  Sending,
  SessionPage,
  Setup,
  Spending,
  Stats,
  Tree,
} from "../model";
import { at } from "./base";
import { request } from "./panel";
import { oneLine } from "./safe";

/** One bar of a lane. The words are those of the server. */
export interface Span {
  kind: "tool" | "children" | "model" | "permission" | "retry";
  from_ms: number;
  to_ms: number;
  name: string | null;
  status: "ok" | "error" | "open" | "denied" | null;
  call_id: string | null;
  is_guess: boolean;
}

export interface Lane {
  agent_id: string;
  depth: number;
  spans: Span[];
}

export interface Step {
  agent_id: string;
  from_ms: number;
  to_ms: number;
}

export interface Timeline {
  /** The highest rev of the rows that it was derived from: the next request asks for changes after it. */
  rev: number | null;
  start_ms: number;
  end_ms: number;
  /** All lanes, or those that changed since the requested rev. */
  lanes: Lane[];
  critical_path: Step[];
  path: PathShares;
}

/** What the critical path consists of. */
export interface PathShares {
  total_ms: number;
  /** The longest first. */
  shares: { agent_id: string; what: string; ms: number }[];
  /** Of all others together. */
  rest_ms: number;
}

export interface FeedPage {
  /** In order of time. */
  events: Event[];
  /** Cursor of the previous page of results; null if there is none. */
  before: number | null;
}

export interface SessionsQuery {
  /** Words that all occur in what a list shows of a session. */
  q?: string;
  after?: string;
  recent?: boolean;
  /** Only this session; supported by a team's server only. */
  session?: string;
  limit?: number;
}

export interface FeedQuery {
  agent?: string;
  /** The id of a tool call: only its events. */
  call?: string;
  kind?: Event["kind"];
  before?: number;
  limit?: number;
  /** Long texts are cut. */
  brief?: boolean;
}

/** Which days and sessions statistics cover. */
export interface StatsQuery {
  since?: number | undefined;
  until?: number | undefined;
  project?: string | undefined;
  harness?: string | undefined;
}

export interface SearchQuery {
  q: string;
  kind?: string | undefined;
  tool?: string | undefined;
  project?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
  failed?: boolean | undefined;
  limit?: number | undefined;
}

/** A session, or one of its agents with all below it. */
export interface Compared {
  session: string;
  agent: string | null;
}

export type Form = "trace" | "html" | "csv" | "perfetto" | "otlp";

export interface Api {
  /** Whether a server serves the page: only a server has several sessions. */
  readonly isServed: boolean;
  /** Whether that is a team's server: it has rows of many machines, but cannot do what needs the session's machine. */
  readonly isTeam: boolean;
  sessions(query: SessionsQuery): Promise<SessionPage>;
  tree(session: string, at?: number): Promise<Tree>;
  timeline(session: string, since?: number): Promise<Timeline>;
  feed(session: string, query: FeedQuery): Promise<FeedPage>;
  /** Read from the session's sources. */
  spending(session: string): Promise<Spending>;
  search(query: SearchQuery, signal?: AbortSignal): Promise<Hits>;
  stats(query: StatsQuery): Promise<Stats>;
  compare(a: Compared, b: Compared): Promise<Comparison>;
  iterations(): Promise<Iterations>;
  /** Subagents of all sessions whose id, type and description have all words, the newest first. */
  agents(words: string, limit: number): Promise<IdMatches>;
  setup(): Promise<Setup>;
  /** What this machine sends to its team, with an example at a level; at that of the settings if it is undefined. */
  sending(level: ContentLevel | undefined): Promise<Sending>;
  /** How the hub runs, and how far it has read. */
  health(): Promise<Health>;
  /** What needs the user, and what ended since the user looked. */
  inbox(): Promise<Inbox>;
  /** Dismisses facts of a session: they do not need the user any more. */
  dismiss(session: string, facts: string[]): Promise<void>;
  /** Marks everything that ended up to a time as seen. */
  markSeen(until: number): Promise<void>;
  /** Permission requests that can be answered. They are held because somebody looks: the page may ask only while it is seen. */
  permissions(): Promise<PermissionRequests>;
  answerPermission(id: string, decision: PermissionDecision): Promise<PermissionAnswered>;
  /** Goes to the terminal of a session, on the machine of the hub. */
  jump(session: string): Promise<Jumped>;
  stop(session: string, agent: string): Promise<Ordered>;
  exported(session: string, form: Form): string;
}

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

type Given = Record<string, string | number | boolean | undefined>;

const address = (path: string, given: Given = {}): string => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  return at(text === "" ? path : `${path}?${text}`);
};

const of = (session: string): string => `/api/v1/sessions/${encodeURIComponent(session)}`;

async function answered<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json()) as T;
  const said = (await response.json().catch(() => ({}))) as { error?: string };
  // The message may quote names from untrusted input.
  throw new Refused(response.status, oneLine(said.error) || `the server answers ${response.status}`);
}

export const get = async <T>(path: string, given?: Given, signal?: AbortSignal): Promise<T> =>
  answered(await request(address(path, given), signal ? { signal } : {}));

/** Exchanges the sign-in code of an address for the cookie that authorizes this browser. */
export async function signIn(code: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  const answer = await request(at("/api/v1/sign-in"), { method: "POST", headers, body: JSON.stringify({ code }) });
  if (!answer.ok) await answered(answer);
}

const posted = (path: string, body: object, given: Given = {}): Promise<Response> =>
  request(address(path, given), { method: "POST", headers: { "content-type": "application/json", "x-subscope": "1" }, body: JSON.stringify(body) });

/** Refuses an answer that is an error; the others have no body. */
async function kept(response: Response): Promise<void> {
  if (!response.ok) await answered(response);
}

const served: Api = {
  isServed: true,
  isTeam: false,
  sessions: (query) => get("/api/v1/sessions", { ...query }),
  tree: (session, at) => get(`${of(session)}/tree`, { at }),
  timeline: (session, since) => get(`${of(session)}/timeline`, { since }),
  feed: (session, query) => get(`${of(session)}/feed`, { ...query }),
  spending: (session) => get(`${of(session)}/spending`),
  search: (query, signal) => get("/api/v1/search", { ...query }, signal),
  stats: (query) => get("/api/v1/stats", { ...query }),
  compare: (a, b) => {
    const agents = { agent_a: a.agent ?? undefined, agent_b: b.agent ?? undefined };
    return get("/api/v1/compare", { a: a.session, b: b.session, ...agents });
  },
  iterations: () => get("/api/v1/iterations"),
  agents: (words, limit) => get("/api/v1/names", { q: words, limit }),
  setup: () => get("/api/v1/setup"),
  sending: (level) => get("/api/v1/sending", { level }),
  stop: async (session, agent) => answered(await posted(`/api/v1/agents/${encodeURIComponent(agent)}/stop`, {}, { session })),
  jump: async (session) => answered(await posted(`${of(session)}/jump`, {})),
  permissions: () => get("/api/v1/permissions", { looking: true }),
  answerPermission: async (id, decision) => answered(await posted(`/api/v1/permissions/${encodeURIComponent(id)}/answer`, decision)),
  health: () => get("/healthz"),
  inbox: () => get("/api/v1/inbox"),
  dismiss: async (session, facts) => kept(await posted(`${of(session)}/dismiss`, { facts })),
  markSeen: async (until) => kept(await posted("/api/v1/seen", { until_ms: until })),
  exported: (session, form) => address(`${of(session)}/export`, { as: form }),
};

const onlyThere = (what: string) => (): Promise<never> => Promise.reject(new Refused(404, `${what} only on the session's machine`));

const team: Api = {
  ...served,
  isTeam: true,
  feed: onlyThere("events are"),
  spending: onlyThere("what was spent when is known"),
  compare: onlyThere("sessions are compared"),
  iterations: onlyThere("iterations are"),
  setup: onlyThere("settings are"),
  sending: onlyThere("what is sent is known"),
  permissions: onlyThere("permissions are asked for"),
  answerPermission: onlyThere("permissions are given"),
  jump: onlyThere("terminals are"),
  stop: onlyThere("agents are stopped"),
  health: onlyThere("how far files are read is known"),
  inbox: onlyThere("what needs its user is kept"),
  dismiss: onlyThere("what needs its user is dismissed"),
  markSeen: onlyThere("what its user has seen is kept"),
  exported: () => "",
};

/** Data embedded in a saved page. */
interface Saved {
  tree: Tree;
  timeline: Timeline | null;
  spending: Spending | null;
  events: Event[];
}

const nowhere = (): Promise<never> => Promise.reject(new Refused(404, "this saved page has one session only"));

function saved({ tree, timeline, spending, events }: Saved): Api {
  const own = (event: Event, agent?: string): boolean =>
    agent === undefined || event.actor_id === (agent === "root" ? "agent:root" : `subagent:${agent}`);
  return {
    isServed: false,
    isTeam: false,
    sessions: nowhere,
    tree: () => Promise.resolve(tree),
    timeline: () => (timeline ? Promise.resolve(timeline) : nowhere()),
    feed: (_, { agent, call, kind }) => {
      const isAsked = (event: Event): boolean =>
        own(event, agent) && (kind === undefined || event.kind === kind) && (call === undefined || event.data["tool_use_id"] === call);
      return Promise.resolve({ events: events.filter(isAsked), before: null });
    },
    spending: () => (spending ? Promise.resolve(spending) : nowhere()),
    search: nowhere,
    stats: nowhere,
    compare: nowhere,
    iterations: nowhere,
    agents: nowhere,
    setup: nowhere,
    sending: nowhere,
    permissions: nowhere,
    answerPermission: nowhere,
    jump: nowhere,
    stop: nowhere,
    health: nowhere,
    inbox: nowhere,
    dismiss: nowhere,
    markSeen: nowhere,
    exported: () => "",
  };
}

const carried = document.getElementById("subscope-saved")?.textContent;

/** The session embedded in this page; null if a server serves it. */
export const carriedTree: Tree | null = carried ? (JSON.parse(carried) as Saved).tree : null;

/** The mark that a team's server puts into its document. */
const isTeam = document.documentElement.dataset["server"] === "team";

export const api: Api = carried ? saved(JSON.parse(carried) as Saved) : isTeam ? team : served;
