// subscope in VS Code: what the subagents of coding agents do, in the status bar, a tree and a panel.
//
// It runs where the agents run (`extensionKind: workspace`) and asks the hub there over its socket: no port is opened or
// forwarded. It brings no program and starts none by itself, unless the settings say so.

import { homedir } from "node:os";

import * as vscode from "vscode";

import { Hub } from "./hub";
import { jumpAndSay } from "./jump";
import { Monitor, type View } from "./monitor";
import { keptAddress, Panel, PANEL_TYPE } from "./panel";
import { dataFolder, findProgram } from "./program";
import { search } from "./search";
import { startHub } from "./start";
import { addressOf, groupsOf, type Node, SessionTree } from "./tree";
import { inert, sessionRow, statusLine } from "./words";

const INSTALLING = "https://github.com/subscope/subscope#install";

function setting(name: "path" | "dataFolder"): string {
  return vscode.workspace.getConfiguration("subscope").get<string>(name, "").trim();
}

const isOn = (name: "startHub" | "statusBar"): boolean => vscode.workspace.getConfiguration("subscope").get<boolean>(name, name === "statusBar");

class Extension implements vscode.Disposable {
  readonly #item = vscode.window.createStatusBarItem("subscope.state", vscode.StatusBarAlignment.Left, 0);
  readonly #log = vscode.window.createOutputChannel("subscope", { log: true });
  readonly #tree = new SessionTree(() => this.#monitor.hub);
  readonly #treeView = vscode.window.createTreeView("subscope.sessions", { treeDataProvider: this.#tree, showCollapseAll: true });
  #monitor: Monitor;
  #panel: Panel | undefined;
  #program: string | null = null;
  /** The last line of the log: one that repeats is written once. */
  #said = "";

  constructor(private readonly context: vscode.ExtensionContext) {
    this.#item.name = "subscope";
    this.#monitor = this.#follow();
  }

  /** Looks for the program and connects to the hub. */
  async start(): Promise<void> {
    await this.#look();
    if (isOn("startHub") && this.#program !== null) await this.#startHub().catch((error: unknown) => this.#log.warn(String(error)));
    void this.#monitor.run();
  }

  dispose(): void {
    this.#monitor.dispose();
    this.#panel?.dispose();
    for (const one of [this.#item, this.#treeView, this.#tree, this.#log]) one.dispose();
  }

  #follow(): Monitor {
    const hub = new Hub(dataFolder(setting("dataFolder"), process.env, homedir()));
    return new Monitor(hub, (view) => void this.#show(view), (line) => this.#say(line));
  }

  #say(line: string): void {
    if (line !== this.#said) this.#log.info(line);
    this.#said = line;
  }

  async #look(): Promise<void> {
    this.#program = await findProgram(setting("path"), process.env, homedir());
  }

  async #show(view: View): Promise<void> {
    // It may have been installed meanwhile.
    if (view.state === "no hub" && this.#program === null) await this.#look();
    const isInstalled = this.#program !== null;
    const { text, tooltip, worst } = statusLine(view, isInstalled);
    this.#item.text = `$(type-hierarchy-sub) ${text}`;
    this.#item.tooltip = tooltip;
    this.#item.accessibilityInformation = { label: tooltip };
    this.#item.backgroundColor = worst === "waits" ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
    this.#item.command = view.state === "no hub" && !isInstalled ? "subscope.install" : "subscope.show";
    if (isOn("statusBar")) this.#item.show();
    else this.#item.hide();
    this.#tree.show(view);
    this.#treeView.message = this.#tree.message ?? "";
    const certain = view.state === "live" ? view.snapshot.inbox.waits + view.snapshot.inbox.trouble : 0;
    this.#treeView.badge = certain > 0 ? { value: certain, tooltip } : undefined;
    await vscode.commands.executeCommand("setContext", "subscope.state", view.state === "no hub" && !isInstalled ? "missing" : view.state);
  }

  /** The settings have changed: another program or another hub. */
  async configured(): Promise<void> {
    this.#monitor.dispose();
    this.#monitor = this.#follow();
    await this.#look();
    void this.#monitor.run();
  }

  refresh(): void {
    this.#monitor.refresh();
  }

  open(address: unknown): void {
    (this.#panel ?? this.#made()).show(typeof address === "string" ? address : null);
  }

  /** Fills a panel again that was open before the window was loaded anew, with the view that it had. */
  restore(panel: vscode.WebviewPanel, state: unknown): void {
    // There is one page.
    if (this.#panel !== undefined) return panel.dispose();
    this.#made(panel).go(keptAddress(state));
  }

  #made(restored?: vscode.WebviewPanel): Panel {
    const made = new Panel(this.context.extensionUri, () => this.#monitor.hub, () => (this.#panel = undefined), restored);
    this.#panel = made;
    return made;
  }

  openNode(node: Node | undefined): void {
    if (node?.kind === "session") this.open(addressOf(node.session.id, null));
    else if (node?.kind === "agent") this.open(addressOf(node.session, node.agent.id));
  }

  search(): void {
    search(this.#monitor.hub, (address) => this.open(address));
  }

  async jump(node: Node | undefined): Promise<void> {
    const session = node?.kind === "session" ? node.session.id : await this.#chosen();
    if (session !== undefined) await jumpAndSay(this.#monitor.hub, session);
  }

  /** Lets a person choose a session, in the order of the tree. */
  async #chosen(): Promise<string | undefined> {
    const nodes = groupsOf(this.#monitor.view).flatMap((group) => (group.kind === "group" ? group.nodes : []));
    const now = Date.now();
    const items = nodes.flatMap((node) => {
      if (node.kind !== "session") return [];
      const { label, description } = sessionRow(node.session, now);
      return [{ label: inert(label), description: inert(description), id: node.session.id }];
    });
    if (items.length === 0) throw new Error("no session is known now");
    return (await vscode.window.showQuickPick(items, { title: "Go to the terminal of a session", matchOnDescription: true }))?.id;
  }

  async startHub(): Promise<void> {
    await this.#startHub();
    this.#monitor.refresh();
  }

  /** Returns the program, or says that there is none. */
  async #found(): Promise<string> {
    await this.#look();
    if (this.#program === null) throw new Error("the program is not installed on this machine, or not where this extension looks for it");
    return this.#program;
  }

  /** Starts the hub as every command does that needs one. */
  async #startHub(): Promise<void> {
    const program = await this.#found();
    await startHub(program, setting("dataFolder") === "" ? [] : ["--store", this.#store()], this.#monitor.hub, process.env);
  }

  #store = (): string => dataFolder(setting("dataFolder"), process.env, homedir());

  /** Runs a command of the program in a terminal, where a person sees what it does. */
  async inTerminal(...words: string[]): Promise<void> {
    const program = await this.#found();
    const store = setting("dataFolder") === "" ? [] : ["--store", this.#store()];
    const terminal = vscode.window.createTerminal({ name: "subscope" });
    terminal.show();
    terminal.sendText([program, ...store, ...words].map(quoted).join(" "));
  }

  showLog(): void {
    this.#log.show();
  }
}

/** One word of a shell. */
const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const extension = new Extension(context);
  const command = (name: string, run: (argument: unknown) => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`subscope.${name}`, async (argument: unknown) => {
      try {
        await run(argument);
      } catch (error) {
        void vscode.window.showErrorMessage(`subscope: ${inert(error instanceof Error ? error.message : String(error))}`);
      }
    });
  context.subscriptions.push(
    extension,
    command("open", (address) => extension.open(address)),
    command("openSession", (node) => extension.openNode(node as Node | undefined)),
    command("search", () => extension.search()),
    command("jump", (node) => extension.jump(node as Node | undefined)),
    command("show", () => vscode.commands.executeCommand("subscope.sessions.focus")),
    command("refresh", () => extension.refresh()),
    command("startHub", () => extension.startHub()),
    command("hooksInstall", () => extension.inTerminal("hooks", "install")),
    command("hooksRemove", () => extension.inTerminal("hooks", "remove")),
    command("hooksStatus", () => extension.inTerminal("hooks", "status")),
    command("install", () => vscode.env.openExternal(vscode.Uri.parse(INSTALLING))),
    command("settings", () => vscode.commands.executeCommand("workbench.action.openSettings", "@ext:subscope.subscope")),
    command("showLog", () => extension.showLog()),
    vscode.window.registerWebviewPanelSerializer(PANEL_TYPE, {
      deserializeWebviewPanel: (panel, state: unknown) => Promise.resolve(extension.restore(panel, state)),
    }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("subscope")) void extension.configured();
    }),
  );
  await extension.start();
}
