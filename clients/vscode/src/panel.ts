// The page of subscope in a panel. It has no network: its requests come here as messages, and go to the hub over its socket.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join } from "node:path";

import * as vscode from "vscode";

import type { FromPage, ToPage } from "../../../web/src/lib/panel_messages";
import { documentOf } from "./document";
import type { Hub } from "./hub";
import { jump } from "./jump";
import { allowed } from "./routes";

/** Most requests that are under way at once. */
const MOST = 64;

/** Most characters of an address that is kept. */
const MOST_ADDRESS = 4096;

/** Headers of the hub's answers that the page reads. */
const HEADERS = ["content-type", "content-disposition"];

/** The type of the panel, by which the editor finds who restores it. */
export const PANEL_TYPE = "subscope.page";

/** What the page may use. */
const options = (page: vscode.Uri): vscode.WebviewOptions => ({ enableScripts: true, localResourceRoots: [page] });

/** Reads the address that a page has had the editor keep; null if there is none. */
export function keptAddress(state: unknown): string | null {
  const address = typeof state === "object" && state !== null && "address" in state ? state.address : null;
  return typeof address === "string" && address.startsWith("/") && address.length <= MOST_ADDRESS ? address : null;
}

export class Panel {
  readonly #panel: vscode.WebviewPanel;
  /** Requests under way, by the page's number. */
  #open = new Map<number, AbortController>();
  #isReady = false;
  /** What is to be shown once the page takes messages. */
  #wanted: string | null = null;

  constructor(
    extension: vscode.Uri,
    private readonly hub: () => Hub,
    ended: () => void,
    /** A panel of before the window was loaded anew. */
    restored?: vscode.WebviewPanel,
  ) {
    const page = vscode.Uri.joinPath(extension, "page");
    this.#panel =
      restored ??
      vscode.window.createWebviewPanel(PANEL_TYPE, "subscope", vscode.ViewColumn.Active, {
        ...options(page),
        // The page keeps its view and its feed; VS Code's own find works in it.
        retainContextWhenHidden: true,
        enableFindWidget: true,
      });
    this.#panel.webview.options = options(page);
    this.#panel.iconPath = vscode.Uri.joinPath(page, "assets/icon.svg");
    const { webview } = this.#panel;
    webview.onDidReceiveMessage((message: FromPage) => this.#received(message));
    this.#panel.onDidDispose(() => {
      for (const request of this.#open.values()) request.abort();
      ended();
    });
    const index = readFileSync(join(page.fsPath, "index.html"), "utf8");
    const address = (file: string): string => webview.asWebviewUri(vscode.Uri.joinPath(page, file)).toString();
    webview.html = documentOf(index, address, webview.cspSource, randomBytes(16).toString("base64"));
  }

  /** Brings the panel to the front, and shows a view if an address of the page is given. */
  show(address: string | null): void {
    this.#panel.reveal();
    this.go(address);
  }

  /** Shows a view if an address of the page is given. */
  go(address: string | null): void {
    if (address === null) return;
    this.#wanted = address;
    if (this.#isReady) this.#go();
  }

  dispose(): void {
    this.#panel.dispose();
  }

  #go(): void {
    if (this.#wanted !== null) this.#post({ type: "go", address: this.#wanted });
    this.#wanted = null;
  }

  #post(message: ToPage): Thenable<boolean> {
    return this.#panel.webview.postMessage(message);
  }

  #received(message: FromPage): void {
    switch (message.type) {
      case "ready":
        this.#isReady = true;
        return this.#go();
      case "request":
        return void this.#request(message);
      case "cancel":
        return this.#open.get(message.id)?.abort();
      case "open-file":
        return void openFile(message.path, message.line);
      case "save":
        return void save(message.name, message.bytes);
    }
  }

  async #request(message: FromPage & { type: "request" }): Promise<void> {
    const { id } = message;
    const request = allowed(message);
    const stop = new AbortController();
    try {
      if (request === null) throw new Error("this panel does not send such a request");
      if (this.#open.size >= MOST) throw new Error("too many requests at once");
      this.#open.set(id, stop);
      if (request.method === "POST" && request.what === "jump" && request.id !== null) {
        // A terminal of this window is known here alone.
        const jumped = await jump(this.hub(), request.id);
        void this.#post({ type: "head", id, status: 200, headers: { "content-type": "application/json" } });
        void this.#post({ type: "chunk", id, bytes: new TextEncoder().encode(JSON.stringify(jumped)) });
      } else {
        const answer = await this.hub().open(request.address, { ...request, signal: stop.signal });
        const headers = HEADERS.flatMap((name) => (typeof answer.headers[name] === "string" ? [[name, answer.headers[name]]] : []));
        void this.#post({ type: "head", id, status: answer.statusCode ?? 502, headers: Object.fromEntries(headers) as Record<string, string> });
        // One part at a time: a page that reads slowly delays the hub, and not this process's memory.
        for await (const bytes of answer as AsyncIterable<Buffer>) await this.#post({ type: "chunk", id, bytes: new Uint8Array(bytes) });
      }
      void this.#post({ type: "end", id });
    } catch (error) {
      if (!stop.signal.aborted) void this.#post({ type: "error", id, message: error instanceof Error ? error.message : String(error) });
    } finally {
      this.#open.delete(id);
    }
  }
}

/** Shows a file that an agent has named, if it is one. */
async function openFile(path: unknown, line: unknown): Promise<void> {
  if (typeof path !== "string" || !path.startsWith("/") || typeof line !== "number") return;
  const file = vscode.Uri.file(path);
  try {
    const { type } = await vscode.workspace.fs.stat(file);
    if ((type & vscode.FileType.File) === 0) throw new Error("it is no file");
    const place = new vscode.Position(Math.max(0, Math.trunc(line) - 1), 0);
    await vscode.window.showTextDocument(file, { selection: new vscode.Range(place, place), viewColumn: vscode.ViewColumn.Beside });
  } catch (error) {
    vscode.window.setStatusBarMessage(`subscope: ${basename(path).replaceAll("$(", "$ (")} cannot be opened: ${error instanceof Error ? error.message : String(error)}`, 8000);
  }
}

/** Keeps an export where the person says. */
async function save(name: unknown, bytes: unknown): Promise<void> {
  if (typeof name !== "string" || !(bytes instanceof Uint8Array)) return;
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri ?? vscode.Uri.file(homedir());
  const own = name.replaceAll(/[^\w.-]/g, "_").slice(0, 100);
  const chosen = await vscode.window.showSaveDialog({ defaultUri: vscode.Uri.joinPath(folder, own) });
  if (chosen) await vscode.workspace.fs.writeFile(chosen, bytes);
}
