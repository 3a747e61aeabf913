// Messages between the page in an editor's panel and the editor's extension (`clients/vscode`), which asks the hub.

/** What the page sends. */
export type FromPage =
  /** The page takes messages from now on. */
  | { type: "ready" }
  /** A request to the hub; `id` names it in what follows. */
  | { type: "request"; id: number; method: string; address: string; headers: Record<string, string>; body: string | null }
  /** Nobody waits for the answer any more. */
  | { type: "cancel"; id: number }
  /** A person clicked on a file: its absolute path and its line (1-based). */
  | { type: "open-file"; path: string; line: number }
  /** A person wants to keep a file. */
  | { type: "save"; name: string; bytes: Uint8Array };

/** What the extension sends. */
export type ToPage =
  | { type: "head"; id: number; status: number; headers: Record<string, string> }
  | { type: "chunk"; id: number; bytes: Uint8Array }
  | { type: "end"; id: number }
  /** There is no answer, or its rest does not come. */
  | { type: "error"; id: number; message: string }
  /** Shows a view: the path and query of an address of the page. */
  | { type: "go"; address: string };
