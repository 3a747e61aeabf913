//! `subscope diff`: compares two sessions, or two agents with what they started.

use std::slice;

use subscope_model::{Compared, Comparison, Problem, Tree};
use subscope_render::render_comparison;

use super::{
    target::{ReadOptions, load},
    tree::find_agent,
};
use crate::prelude::*;

pub(crate) fn run(args: &DiffArgs, context: &Context) -> Result<(), CliError> {
    if args.a == "-" && args.b == "-" {
        return Err(CliError::usage("stdin is one session").hint("name a file for the other"));
    }
    let (a, mut problems) = read_tree(&args.a, context)?;
    let (b, more) = read_tree(&args.b, context)?;
    problems.extend(more);
    let comparison =
        Comparison::of(compared(&a, args.agent_a.as_deref())?, compared(&b, args.agent_b.as_deref())?);
    if args.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&render_comparison(&comparison, &context.style(args.width.map(usize::from))))?;
    }
    context.report(&problems)
}

/// Returns what is compared of a session: all of it, or the agent whose id begins with a prefix.
fn compared<'t>(tree: &'t Tree, agent: Option<&str>) -> Result<Compared<'t>, CliError> {
    let agent = agent.map(|prefix| find_agent(tree, prefix)).transpose()?;
    Ok(agent.and_then(|id| Compared::agent(tree, &id)).unwrap_or_else(|| Compared::session(tree)))
}

/// Reads the tree of one session, with its problems.
fn read_tree(target: &TargetArg, context: &Context) -> Result<(Tree, Vec<Problem>), CliError> {
    let loaded = load(slice::from_ref(target), &ReadOptions::ROWS, context)?;
    let problems = loaded.problems();
    Ok((loaded.tree, problems))
}
