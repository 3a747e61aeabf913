// The search: a list of passages that follows what is typed.

import * as vscode from "vscode";

import { ago } from "../../../web/src/lib/format";
import type { Hits, SearchHit } from "../../../web/src/model";
import { type Hub, HubError } from "./hub";
import { addressOf } from "./tree";
import { inert } from "./words";

/** Delay from the last key to the question, and most hits. */
const [SETTLED_MS, MOST] = [200, 50];

interface Found extends vscode.QuickPickItem {
  hit: SearchHit | null;
}

function itemOf(hit: SearchHit, now: number): Found {
  const when = hit.at_ms === null ? "time unknown" : `${ago(now - hit.at_ms)} ago`;
  return {
    hit,
    label: inert(hit.snippet),
    // Below the label, which takes the whole line.
    detail: [hit.kind, hit.tool, hit.failed ? "failed" : null, when, hit.agent, hit.session_title ?? hit.session_id].filter((part) => part).map((part) => inert(part ?? "")).join(" · "),
    // The hub has searched: the editor must not filter again.
    alwaysShow: true,
  };
}

const note = (label: string): Found => ({ hit: null, label, alwaysShow: true });

/** Returns what is listed for words. */
export async function found(hub: Hub, words: string, signal: AbortSignal): Promise<{ title: string; items: Found[] }> {
  try {
    const { hits, total, total_floor, is_indexing, unsearched = [] } = await hub.get<Hits>("/api/v1/search", { q: words, limit: MOST }, signal);
    const counted = `${hits.length} of ${total}${total_floor ? " or more" : ""}`;
    const away = unsearched.length > 0 ? `; not all texts of ${inert(unsearched.join(", "))} are here` : "";
    const title = `Search: ${counted}${is_indexing ? "; texts are still being read" : ""}${away}`;
    return { title, items: hits.length > 0 ? hits.map((hit) => itemOf(hit, Date.now())) : [note("Nothing found")] };
  } catch (error) {
    if (error instanceof HubError && error.status === 404) return { title: "Search", items: [note("The hub has no full-text index")] };
    return { title: "Search", items: [note(inert(error instanceof Error ? error.message : String(error)))] };
  }
}

/** Asks for words; shows a chosen passage with `show`, given its address in the page. */
export function search(hub: Hub, show: (address: string) => void): void {
  const list = vscode.window.createQuickPick<Found>();
  list.title = "Search";
  list.placeholder = 'Words that all occur in one passage; "a phrase"; begin*';
  let [alarm, stop] = [undefined as NodeJS.Timeout | undefined, new AbortController()];
  const ask = async (words: string): Promise<void> => {
    stop = new AbortController();
    const { signal } = stop;
    list.busy = true;
    const { title, items } = await found(hub, words, signal);
    if (signal.aborted) return;
    [list.title, list.items, list.busy] = [title, items, false];
  };
  list.onDidChangeValue((value) => {
    clearTimeout(alarm);
    stop.abort();
    const words = value.trim();
    if (words === "") [list.title, list.items, list.busy] = ["Search", [], false];
    else alarm = setTimeout(() => void ask(words), SETTLED_MS);
  });
  list.onDidAccept(() => {
    const hit = list.selectedItems[0]?.hit;
    if (!hit) return;
    list.hide();
    show(addressOf(hit.session_id, hit.agent_id === "" ? null : hit.agent_id));
  });
  list.onDidHide(() => {
    clearTimeout(alarm);
    stop.abort();
    list.dispose();
  });
  list.show();
}
