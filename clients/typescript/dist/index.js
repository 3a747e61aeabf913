/** Publish subagent events to a subscope hub, query it, and follow its live feed. */
export { Client, HubError } from "./client.js";
export { ADDRESS, PublishError, Publisher, Run, StopRequested } from "./publish.js";
