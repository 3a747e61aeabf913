/** See home.mjs. */
export declare class Home {
  constructor(program: string);
  readonly folder: string;
  readonly project: string;
  readonly data: string;
  readonly environment: NodeJS.ProcessEnv;
  record(): void;
  start(): Promise<void>;
  stop(): Promise<void>;
  remove(): Promise<void>;
  asks(title?: string, session?: string): Promise<void>;
  fails(session?: string): Promise<void>;
  works(scenario?: string): Promise<string>;
}
export declare function until<T>(what: string, holds: () => T | Promise<T>, ms?: number): Promise<T>;
