//! `subscope tree`: prints the agent tree of a session.

use subscope_model::{Agent, AgentId, Millis, Tree};
use subscope_render::{Detail, TreeOptions, render_tree};

use super::target::{ReadOptions, load_each};
use crate::{prelude::*, team_server};

pub(crate) fn run(args: &TreeArgs, context: &Context) -> Result<(), CliError> {
    if team_server::asked(context)?.is_some() {
        return print_of_team(args, context);
    }
    let at = args.at.map(|moment| moment.resolve(context.now_ms(), context.zone()));
    let shows_outputs =
        !args.json && !args.flat && context.settings().subagent_tracing_detail == Detail::Full;
    let reading = if shows_outputs { ReadOptions::OUTPUTS } else { ReadOptions::ROWS };
    let reading = ReadOptions { at, dialect: args.dialect, ..reading };
    let (trees, problems, now) = load_each(&args.targets, &reading, context)?;
    if trees.len() > 1 && args.agent.is_some() {
        let message = format!("the targets are {} sessions, and --agent is of one", trees.len());
        return Err(CliError::usage(message).hint("name one session's transcript or folder"));
    }
    for (number, tree) in trees.into_iter().enumerate() {
        if number > 0 && !args.json {
            output::print("\n")?;
        }
        print_tree(tree, now, args, context)?;
    }
    context.report(&problems)
}

/// Prints trees that a team's server has; TARGETs are ids of sessions, prefixes of them, or `last`.
fn print_of_team(args: &TreeArgs, context: &Context) -> Result<(), CliError> {
    if args.at.is_some() || args.dialect.is_some() {
        return Err(CliError::usage(
            "--at and --dialect need the transcript, which is on the session's machine only",
        ));
    }
    let mut backend = Backend::open(Needs::Rows, context)?;
    for (number, target) in args.targets.iter().enumerate() {
        let session = backend.session(&target.to_string_lossy())?;
        let tree = backend.queries().tree(&session)?;
        let tree =
            tree.ok_or_else(|| CliError::failed(format!("the tree of {session} is no longer kept")))?;
        if number > 0 && !args.json {
            output::print("\n")?;
        }
        print_tree(tree, context.now_ms(), args, context)?;
    }
    Ok(())
}

fn print_tree(mut tree: Tree, now: Millis, args: &TreeArgs, context: &Context) -> Result<(), CliError> {
    let agent = args.agent.as_deref().map(|prefix| find_agent(&tree, prefix)).transpose()?;
    if args.json {
        if let Some(agent) = &agent {
            keep_subtree(&mut tree, agent);
        }
        if args.flat {
            flatten(&mut tree);
        }
        output::print_json(&tree)?;
    } else if context.settings().subagent_tracing_detail != Detail::Off {
        let detail = context.settings().subagent_tracing_detail;
        let options = TreeOptions {
            flat: args.flat,
            style: context.style(args.width.map(usize::from)),
            now: Some(now),
            agent,
            ..context.tree_options(if args.flat { Detail::Minimal } else { detail })
        };
        output::print(&render_tree(&tree, &options))?;
    }
    Ok(())
}

/// Returns the one agent with an id prefix; an exact id wins.
pub(crate) fn find_agent(tree: &Tree, prefix: &str) -> Result<AgentId, CliError> {
    let exact = tree.agents.iter().find(|row| row.id.as_str() == prefix);
    let mut begin = tree.agents.iter().filter(|row| row.id.starts_with(prefix));
    match (exact, begin.next(), begin.next()) {
        (Some(row), ..) | (None, Some(row), None) => Ok(row.id.clone()),
        (None, Some(_), Some(_)) => {
            let message = format!("{prefix:?} is the beginning of several agents' ids");
            Err(CliError::usage(message).hint("give more of the id"))
        }
        (None, None, _) => Err(CliError::failed(format!("no agent's id begins with {prefix:?}"))),
    }
}

/// Retains an agent and its descendants, which are contiguous in pre-order.
fn keep_subtree(tree: &mut Tree, agent: &AgentId) {
    let Some(start) = tree.agents.iter().position(|row| row.id == *agent) else { return };
    let depth = tree.agents.get(start).map_or(0, |row| row.depth);
    let is_below = |row: &&Agent| row.depth > depth && row.parent_id.is_some();
    let below = tree.agents.iter().skip(start + 1).take_while(is_below).count();
    tree.agents = tree.agents.drain(start..=start + below).collect();
}

/// Makes every subagent a child of the root, keeping the order.
fn flatten(tree: &mut Tree) {
    for row in tree.agents.iter_mut().filter(|row| !row.id.is_root()) {
        row.depth = 1;
        row.parent_id = row.parent_id.as_ref().map(|_| AgentId::from(AgentId::ROOT));
    }
}
