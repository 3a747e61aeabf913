// Goes to the terminal of a session: one of this window, else where the hub goes (tmux, kitty, WezTerm).

import * as vscode from "vscode";

import type { Jumped } from "../../../web/src/model";
import { withAncestors } from "./ancestors";
import type { Hub } from "./hub";
import { inert } from "./words";

/** Goes there, or says why not. A session in a terminal of this window is shown there. */
export async function jump(hub: Hub, session: string): Promise<Jumped> {
  const jumped = await hub.post<Jumped>(`/api/v1/sessions/${encodeURIComponent(session)}/jump`);
  if (jumped.outcome === "went" || jumped.process === null) return jumped;
  const terminal = await terminalOf(jumped.process);
  if (!terminal) return jumped;
  terminal.show();
  return { ...jumped, outcome: "went", terminal: terminal.name, command: null, says: `went to the terminal ${terminal.name} of this window` };
}

/** Returns the terminal of this window whose process is above another one. */
async function terminalOf(process: number): Promise<vscode.Terminal | undefined> {
  const above = await withAncestors(process);
  const own = await Promise.all(vscode.window.terminals.map(async (terminal) => ({ terminal, process: await terminal.processId })));
  return own.find((one) => one.process !== undefined && above.includes(one.process))?.terminal;
}

/** The same for a person, who may let a terminal of this window attach to the session or resume it. */
export async function jumpAndSay(hub: Hub, session: string): Promise<void> {
  const { outcome, command, says } = await jump(hub, session);
  if (outcome === "went") {
    vscode.window.setStatusBarMessage(`subscope: ${inert(says)}`, 5000);
    return;
  }
  // A control character would reach the shell's line editor, and end the line before the person has read it.
  const isPlain = command !== null && !/\p{Cc}/u.test(command);
  const offer = !isPlain ? undefined : outcome === "not_running" ? "Resume in a Terminal" : "Attach in a Terminal";
  const chosen = await vscode.window.showInformationMessage(`subscope: ${inert(says)}.`, ...(offer === undefined ? [] : [offer]));
  if (chosen === undefined || !isPlain) return;
  const terminal = vscode.window.createTerminal({ name: "subscope" });
  terminal.show();
  // Not executed: the person reads the command first.
  terminal.sendText(command, false);
}
