//! `subscope mcp agent`: serves an agent command as an MCP tool.

use subscope_client::publish::Publisher;
use subscope_mcp::{AgentServer, AgentSpec, serve};
use subscope_render::{Charset, safe};

use super::runtime;
use crate::{
    command::publish::{PARENT_VARIABLE, with_spool, working_folder},
    hub_connection,
    prelude::*,
};

/// Environment variable with the depth of the processes of a run.
const DEPTH: &str = "SUBSCOPE_DEPTH";

pub(super) fn run(args: &AgentArgs, context: &Context) -> Result<(), CliError> {
    let publisher = Publisher::from_env().map_err(|error| CliError::caused(ErrorKind::Usage, error))?;
    let publisher = with_spool(publisher, args.on_publish_failure, context)?;
    let (parent_run_id, parent_depth) = parent_run(context);
    let spec = AgentSpec {
        name: args.name.clone(),
        description: args.description.clone(),
        dialect: args.dialect.0,
        timeout: args.timeout,
        final_answer: args.final_answer,
        command: args.command.clone(),
        parent_run_id,
        parent_depth,
        cwd: working_folder(context),
        publisher,
        now_ms: context.clock,
        warn: |text| output::complain(&format!("warning: {}\n", safe::line(text, Charset::Unicode))),
        version: hub_connection::VERSION,
    };
    let runtime = runtime()?;
    let served = runtime.block_on(serve(|gone| AgentServer::new(spec, gone)));
    // Abandon tasks that still wait for stdin, which the client may never close.
    runtime.shutdown_background();
    Ok(served?)
}

/// Returns parent run and its depth from the environment; nothing and 0 outside of an agent's run.
fn parent_run(context: &Context) -> (Option<String>, u32) {
    let parent = context.environment.text(PARENT_VARIABLE).filter(|run| !run.trim().is_empty());
    let depth = context.environment.text(DEPTH).and_then(|depth| depth.trim().parse().ok());
    // A parent without a depth counts as depth 1.
    let depth = depth.unwrap_or(u32::from(parent.is_some()));
    (parent, depth)
}
