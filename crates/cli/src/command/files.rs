//! `subscope files`: lists the files that the agents of a session changed.

use std::slice;

use subscope_model::ChangedFiles;
use subscope_render::render_changed_files;

use super::target::{ReadOptions, load};
use crate::prelude::*;

pub(crate) fn run(args: &FilesArgs, context: &Context) -> Result<(), CliError> {
    let loaded = load(slice::from_ref(&args.target), &ReadOptions::ROWS, context)?;
    if args.json {
        output::print_json(&ChangedFiles::of(&loaded.tree))?;
    } else {
        let text = render_changed_files(&loaded.tree, &context.style(args.width.map(usize::from)));
        if text.is_empty() {
            context.info("no call that names its file changed one; what commands changed is not known");
        }
        output::print(&text)?;
    }
    context.report(&loaded.problems())
}
