//! `subscope mcp`: MCP servers on stdin and stdout.

#[cfg_attr(windows, path = "agent_absent.rs")]
mod agent;
mod query;

use tokio::runtime::{Builder, Runtime};

use crate::prelude::*;

/// Threads of a server, which is idle nearly all of the time.
const WORKERS: usize = 2;

/// Runs the server until the client disconnects or a signal arrives.
pub(crate) fn run(args: &McpArgs, context: &Context) -> Result<(), CliError> {
    match &args.server {
        McpServer::Agent(args) => agent::run(args, context),
        McpServer::Query(args) => query::run(*args, context),
    }
}

fn runtime() -> Result<Runtime, CliError> {
    Ok(Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?)
}
