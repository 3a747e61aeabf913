//! `subscope show`: prints one agent in full.

use subscope_model::AgentName;
use subscope_render::{Detail, TreeOptions, render_tree};

use crate::{
    args::ShowArgs,
    command::tree::find_agent,
    context::Context,
    error::{CliError, ErrorKind},
    hub_connection::{Backend, Needs},
    output,
};

/// Runs the command.
pub(crate) fn run(args: &ShowArgs, context: &Context) -> Result<(), CliError> {
    let mut backend = Backend::open(Needs::Rows, context)?;
    let (session, agent) = match args.agent.split_once('/') {
        Some((session, agent)) => (backend.session(session)?, agent.to_owned()),
        None => {
            let found = backend.names(&args.agent, 2)?.agents;
            let AgentName { session_id, agent_id } = one_agent(&found, &args.agent)?;
            (session_id, agent_id.as_str().to_owned())
        }
    };
    let tree = backend.tree(&session)?;
    let tree = tree.ok_or_else(|| CliError::new(ErrorKind::Failed, "the session is gone"))?;
    let agent = find_agent(&tree, &agent)?;
    if args.json {
        let row = tree.agents.iter().find(|row| row.id == agent);
        return output::print_json(&row);
    }
    let detail = args.detail.unwrap_or(Detail::Full);
    output::print(&render_tree(
        &tree,
        &TreeOptions {
            detail,
            flat: false,
            most: None,
            style: context.style(None),
            now: Some(context.now_ms()),
            agent: Some(agent),
            offset_minutes: context.offset_minutes(),
        },
    ))
}

fn one_agent(found: &[AgentName], prefix: &str) -> Result<AgentName, CliError> {
    match found {
        [one] => Ok(one.clone()),
        [] => Err(CliError::new(ErrorKind::Failed, format!("no agent's id begins with {prefix:?}"))
            .hint("SESSION/root names a session's main thread")),
        _ => Err(CliError::new(
            ErrorKind::Usage,
            format!("{prefix:?} is the beginning of several agents' ids"),
        )
        .hint("give more of the id, or SESSION/AGENT")),
    }
}
