//! `subscope diff`: compares two sessions.

use std::slice;

use subscope_model::{Comparison, Problem, Tree};
use subscope_render::render_comparison;

use super::target::{ReadOptions, load};
use crate::prelude::*;

pub(crate) fn run(args: &DiffArgs, context: &Context) -> Result<(), CliError> {
    if args.a == "-" && args.b == "-" {
        return Err(CliError::usage("stdin is one session").hint("name a file for the other"));
    }
    let (a, mut problems) = read_tree(&args.a, context)?;
    let (b, more) = read_tree(&args.b, context)?;
    problems.extend(more);
    let comparison = Comparison::of(&a, &b);
    if args.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&render_comparison(&comparison, &context.style(args.width.map(usize::from))))?;
    }
    context.report(&problems)
}

/// Reads the tree of one session, with its problems.
fn read_tree(target: &TargetArg, context: &Context) -> Result<(Tree, Vec<Problem>), CliError> {
    let loaded = load(slice::from_ref(target), &ReadOptions::ROWS, context)?;
    let problems = loaded.problems();
    Ok((loaded.tree, problems))
}
