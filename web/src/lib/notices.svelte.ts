// Desktop notifications, if a person asked for them: of what needs somebody, or is over.
import type { Event } from "../model";
import { agentOf, store } from "./store.svelte";
import { oneLine } from "./safe";
import { title } from "./words";

const KEPT = "subscope-notifications";

/** What is older than this when it comes was not just now. */
const FRESH_MS = 60_000;

class Notices {
  isOn = $state(false);
  readonly isPossible = "Notification" in globalThis;

  start(): void {
    if (!this.isPossible) return;
    this.isOn = localStorage.getItem(KEPT) === "on" && Notification.permission === "granted";
    store.watch((event) => this.#told(event));
  }

  async toggle(): Promise<void> {
    const wanted = !this.isOn;
    this.isOn = wanted && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(KEPT, this.isOn ? "on" : "off");
  }

  #told(event: Event): void {
    if (!this.isOn || event.at_ms === null || Date.now() - event.at_ms > FRESH_MS) return;
    const words = this.#words(event);
    if (words === "") return;
    const agent = store.get(event.session_id)?.agents.find((one) => one.id === agentOf(event));
    new Notification(agent ? title(agent) : "subscope", { body: words, tag: event.id });
  }

  #words({ kind, data }: Event): string {
    switch (kind) {
      case "stall":
        return `is stalled: waits for ${oneLine(String(data["waiting_for"] ?? "something"))}`;
      case "permission.request":
        return `asks for permission: ${oneLine(String(data["tool_name"] ?? ""))}`;
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
