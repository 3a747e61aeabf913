//! `subscope show`: prints one agent in full, with the outputs of its calls.

use schemars::JsonSchema;
use serde::Serialize;
use subscope_model::{Agent, AgentName, SessionId};
use subscope_render::{Detail, TreeOptions, render_tree};

use crate::{
    command::{
        target::{ReadOptions, agents_lost, load_session},
        tree::find_agent,
    },
    prelude::*,
};

/// Schema of `--json`.
const SCHEMA: &str = "subscope.agent-row/1";

/// Output of `--json`: the agent's row in the tree, with its session.
#[derive(Serialize, JsonSchema)]
pub(in crate::command) struct ShownAgent<'a> {
    schema: &'static str,
    session_id: &'a SessionId,
    #[serde(flatten)]
    row: Option<&'a Agent>,
}

pub(crate) fn run(args: &ShowArgs, context: &Context) -> Result<(), CliError> {
    let mut backend = Backend::open(Needs::Rows, context)?;
    let (session, agent) = match args.agent.split_once('/') {
        Some((session, agent)) => (backend.session(session)?, agent.to_owned()),
        None => {
            let found = backend.queries().names(&args.agent, 2)?.agents;
            let AgentName { session_id, agent_id, .. } = one_agent(&found, &args.agent)?;
            (session_id, agent_id.as_str().to_owned())
        }
    };
    let tree = backend.queries().tree(&session)?;
    let tree = tree.ok_or_else(|| agents_lost(&session))?;
    let agent = find_agent(&tree, &agent)?;
    if args.json {
        let row = tree.agents.iter().find(|row| row.id == agent);
        return output::print_json(&ShownAgent { schema: SCHEMA, session_id: &session, row });
    }
    let detail = args.detail.unwrap_or(Detail::Full);
    let tree = match detail {
        Detail::Full => {
            let mut loaded = load_session(&session, &ReadOptions::OUTPUTS, context)?;
            loaded.inline_outputs();
            loaded.tree
        }
        Detail::Off | Detail::Minimal | Detail::Moderate => tree,
    };
    output::print(&render_tree(&tree, &TreeOptions { agent: Some(agent), ..context.tree_options(detail) }))
}

/// Returns the only agent that was found.
pub(in crate::command) fn one_agent(found: &[AgentName], prefix: &str) -> Result<AgentName, CliError> {
    match found {
        [one] => Ok(one.clone()),
        [] => Err(CliError::failed(format!("no agent's id begins with {prefix:?}"))
            .hint("SESSION/root names a session's main agent")),
        _ => Err(CliError::usage(format!("{prefix:?} is the beginning of several agents' ids"))
            .hint("give more of the id, or SESSION/AGENT")),
    }
}
