//! `subscope mcp agent`: serves an agent command as an MCP tool.

use std::sync::{Mutex, PoisonError};

use subscope_client::publish::Publisher;
use subscope_mcp::{AgentServer, AgentSpec, IsStopRequested, serve};
use subscope_model::{AgentId, Flag, SessionId};
use subscope_query::Queries as _;
use subscope_render::{Charset, safe};
use subscope_run::session_of_caller;

use super::runtime;
use crate::{
    command::{
        harness_homes::homes,
        publish::{PARENT_VARIABLE, with_spool, working_folder},
    },
    hub_connection::{self, HubConnection, StartPolicy},
    prelude::*,
};

/// Environment variable with the depth of the processes of a run.
const DEPTH: &str = "SUBSCOPE_DEPTH";

pub(super) fn run(args: &AgentArgs, context: &Context) -> Result<(), CliError> {
    let publisher = Publisher::from_env().map_err(|error| CliError::caused(ErrorKind::Usage, error))?;
    let publisher = with_spool(publisher, args.on_publish_failure, context)?;
    let (parent_run_id, parent_depth) = parent_run(context);
    let homes = homes(context);
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
        session_of_caller: Box::new(move || session_of_caller(&homes)),
        is_stop_requested: stop_requests(&publisher, context)?,
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

/// Returns the function that asks the running hub whether a user wants a run to stop. Without a hub no user can.
fn stop_requests(publisher: &Publisher, context: &Context) -> Result<IsStopRequested, CliError> {
    if !publisher.is_on() {
        return Ok(Box::new(|_, _, _| false));
    }
    let connection = Mutex::new((HubConnection::new(StartPolicy::Never, context)?, None));
    Ok(Box::new(move |session, run, began_ms| {
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let (hub, client) = &mut *connection;
        let Some(mut connected) = client.take().or_else(|| hub.hub().ok()) else { return false };
        let (session, run) = (session.map(SessionId::from), AgentId::from(run));
        let mut find = |session| connected.agent(session, &run);
        let found = match session.as_ref().map(|session| find(Some(session))) {
            Some(Ok(None)) | None => find(None),
            Some(found) => found,
        };
        let Ok(found) = found else { return false };
        *client = Some(connected);
        // Another session may have a run of this id.
        found.is_some_and(|found| {
            found.agent.has(Flag::Stopping) && found.agent.started_at_ms == Some(began_ms)
        })
    }))
}

/// Returns parent run and its depth from the environment; nothing and 0 outside of an agent's run.
fn parent_run(context: &Context) -> (Option<String>, u32) {
    let parent = context.environment.text(PARENT_VARIABLE).filter(|run| !run.trim().is_empty());
    let depth = context.environment.text(DEPTH).and_then(|depth| depth.trim().parse().ok());
    // A parent without a depth counts as depth 1.
    let depth = depth.unwrap_or(u32::from(parent.is_some()));
    (parent, depth)
}
