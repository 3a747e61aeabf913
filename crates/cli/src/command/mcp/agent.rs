//! `subscope mcp agent`: serves an agent command as an MCP tool.

use subscope_client::publish::Publisher;
use subscope_mcp::{AgentServer, AgentSpec, FinalAnswer, serve};
use subscope_render::{Charset, safe};

use super::runtime;
use crate::{
    args::{AgentArgs, FinalAnswerChoice},
    command::{
        history::failed,
        publish::{with_spool, working_folder},
    },
    context::Context,
    error::{CliError, ErrorKind},
    hub_connection, output,
};

/// Environment variables of the processes of a run.
const PARENT_RUN_ID: &str = "SUBSCOPE_PARENT_RUN_ID";
const DEPTH: &str = "SUBSCOPE_DEPTH";

/// Runs the command.
pub(super) fn run(args: &AgentArgs, context: &Context) -> Result<(), CliError> {
    let publisher = Publisher::from_env().map_err(|error| CliError::caused(ErrorKind::Usage, error))?;
    let publisher = with_spool(publisher, args.on_publish_failure, context)?;
    let (parent_run_id, parent_depth) = parent_run(context);
    let spec = AgentSpec {
        name: args.name.clone(),
        description: args.description.clone(),
        dialect: args.dialect.0,
        timeout: args.timeout,
        final_answer: match args.final_answer {
            FinalAnswerChoice::Required => FinalAnswer::Required,
            FinalAnswerChoice::Optional => FinalAnswer::Optional,
        },
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
    served.map_err(failed)
}

/// Returns parent run and its depth from the environment; nothing and 0 outside of an agent's run.
fn parent_run(context: &Context) -> (Option<String>, u32) {
    let parent = context.environment.text(PARENT_RUN_ID).filter(|run| !run.trim().is_empty());
    let depth = context.environment.text(DEPTH).and_then(|depth| depth.trim().parse().ok());
    // A parent without a depth counts as depth 1.
    let depth = depth.unwrap_or(u32::from(parent.is_some()));
    (parent, depth)
}
