// Desktop notifications, if the user has turned them on: for agents that need a person, for failures and for ends of runs.
import type { Event } from "../model";
import { choices } from "./choices";
import { panel } from "./panel";
import { commandOf } from "./payload";
import { store } from "./store.svelte";
import { agentOf } from "./story";
import { oneLine } from "./safe";
import { router } from "./route.svelte";
import { budgetWords, requestWords, sessionTitle, title } from "./words";

const KEPT = "subscope-notifications";

/** An event that is older than this when it arrives gives no notification. */
const FRESH_MS = 60_000;

/** Longest delay between an event and the rows that belong to it. */
const SETTLED_MS = 500;

class Notices {
  isOn = $state(false);
  /** Whether the user turned them on and the browser denies this page the permission. */
  isBlocked = $state(false);
  readonly isPossible = panel === null && "Notification" in globalThis;

  start(): void {
    if (!this.isPossible) return;
    this.isOn = choices.get(KEPT) === "on" && Notification.permission === "granted";
    store.watch((event) => this.#notify(event));
  }

  async toggle(): Promise<void> {
    const wanted = !this.isOn;
    this.isOn = wanted && (await Notification.requestPermission()) === "granted";
    this.isBlocked = wanted && !this.isOn;
    choices.set(KEPT, this.isOn ? "on" : "off");
  }

  #notify(event: Event): void {
    if (!this.isOn || event.at_ms === null || Date.now() - event.at_ms > FRESH_MS) return;
    const words = this.#words(event);
    // The row of a new agent arrives after its events: wait for it.
    if (words !== "") setTimeout(() => this.#show(event, words), SETTLED_MS);
  }

  #show(event: Event, words: string): void {
    const shown = store.get(event.session_id);
    const agent = shown?.agents.find((one) => one.id === agentOf(event));
    const of = shown ? sessionTitle(shown) : "subscope";
    const body = agent && event.kind !== "budget" ? `${title(agent)} ${words}` : words;
    const notice = new Notification(of, { body, tag: event.id });
    notice.onclick = () => {
      window.focus();
      // The budget of a day belongs to no session.
      if (event.session_id === "") router.go({ name: "home" });
      else router.go({ name: "session", session: event.session_id, agent: agentOf(event) });
      notice.close();
    };
  }

  #words(event: Event): string {
    const { kind, data } = event;
    switch (kind) {
      case "stall":
        return `is stalled: waits for ${oneLine(String(data["waiting_for"] ?? "something"))}`;
      case "budget":
        return budgetWords(event);
      case "permission.request":
        return `${requestWords(event)}: ${oneLine(`${String(data["tool_name"] ?? "")} ${commandOf(data["input"])}`).slice(0, 200)}`;
      case "subagent.stop":
        return data["status"] === "failed" ? `failed: ${oneLine(String(data["error"] ?? "")).slice(0, 120)}` : "";
      case "run.end":
        return "the run has ended";
      default:
        return "";
    }
  }
}

export const notices = new Notices();
