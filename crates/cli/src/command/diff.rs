//! `subscope diff`: two sessions side by side.

use std::slice;

use subscope_fold::FactDetail;
use subscope_model::{Comparison, Problem, Tree};
use subscope_render::render_comparison;

use super::target::{Reading, load};
use crate::{
    args::{DiffArgs, value::Target},
    context::Context,
    error::{CliError, Kind},
    output,
};

/// Runs the command.
pub(crate) fn run(args: &DiffArgs, context: &Context) -> Result<(), CliError> {
    if args.a == "-" && args.b == "-" {
        return Err(CliError::new(Kind::Usage, "stdin is one session").hint("name a file for the other"));
    }
    let (a, mut problems) = tree(&args.a, context)?;
    let (b, more) = tree(&args.b, context)?;
    problems.extend(more);
    let comparison = Comparison::of(&a, &b);
    if args.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&render_comparison(&comparison, &context.style(args.width.map(usize::from))))?;
    }
    context.report(&problems)
}

/// Returns the tree of one session.
fn tree(target: &Target, context: &Context) -> Result<(Tree, Vec<Problem>), CliError> {
    let reading = Reading { keep: FactDetail::Rows, events: false, at: None, dialect: None };
    let loaded = load(slice::from_ref(target), &reading, context)?;
    let problems = loaded.problems();
    Ok((loaded.tree, problems))
}
