/** Publish subagent events to a subscope hub, query it, and follow its live feed. */

export { Client, HubError, type ClientOptions, type LiveMessage } from "./client.js";
export { ADDRESS, PublishError, Publisher, Run, StopRequested, type PublisherOptions } from "./publish.js";
export type * from "./model.js";
