// Permission requests and questions that can be answered here. The hub holds them only while this page asks for them, so it does while it is
// seen.
import type { PermissionDecision, PermissionRequest, PermissionRequests } from "../model";
import { api, Refused } from "./api";
import { Polled } from "./polled.svelte";
import { visible } from "./safe";

/** Interval of requests while answers are taken. The hub counts a page as looking for ten seconds. */
const PACE_MS = 1000;
/** The same while they are not: the hub reads its settings when it starts. */
const OFF_MS = 60_000;
/** The same while it is not known. */
const UNKNOWN_MS = 5000;

class Permissions {
  #isSeen = $state(false);
  #polled: Polled<PermissionRequests> | undefined;

  start(): void {
    if (!api.isServed) return;
    const look = (): void => void (this.#isSeen = document.visibilityState === "visible");
    document.addEventListener("visibilitychange", look);
    look();
    $effect.root(() => {
      const pace = (answer: PermissionRequests | null): number => (answer === null ? UNKNOWN_MS : answer.enabled ? PACE_MS : OFF_MS);
      this.#polled = new Polled(() => (this.#isSeen ? "look" : null), api.permissions, pace);
    });
  }

  /** All that wait for an answer, the oldest first. */
  get requests(): PermissionRequest[] {
    return this.#polled?.answer?.requests ?? [];
  }

  of(session: string, agent: string): PermissionRequest[] {
    return this.requests.filter((one) => one.session_id === session && one.agent_id === agent);
  }

  /** Answers a request, once. Returns what to say of it, and whether it waits for an answer no longer. */
  async decide(id: string, decision: PermissionDecision): Promise<{ says: string; isOver: boolean }> {
    try {
      await api.answerPermission(id, decision);
      const done = decision.answers === undefined ? "allowed" : "answered";
      return { says: decision.behavior === "deny" ? "denied" : done, isOver: true };
    } catch (error) {
      const status = error instanceof Refused ? error.status : 0;
      if (status === 404) return { says: "it was answered in its terminal, or its time is over", isOver: true };
      return { says: error instanceof Error ? error.message : String(error), isOver: status === 409 };
    }
  }
}

/** The whole call: each argument with its name, and nothing hidden. */
export function callOf({ arguments: json }: PermissionRequest): string {
  let input: unknown;
  try {
    input = JSON.parse(json);
  } catch {
    return visible(json);
  }
  if (typeof input !== "object" || input === null || Array.isArray(input)) return visible(json);
  const text = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
  return visible(Object.entries(input).map(([name, value]) => `${name}: ${text(value)}`).join("\n"));
}

export const permissions = new Permissions();
