//! `subscope search`: searches the full text.

use subscope_render::table::render_hits;
use subscope_store::words;

use crate::prelude::*;

pub(crate) fn run(args: &SearchArgs, context: &Context) -> Result<(), CliError> {
    if args.query.iter().all(|word| words(word).is_empty()) {
        return Err(CliError::usage("there is no word in the query"));
    }
    let mut backend = Backend::open(Needs::Texts, context)?;
    let session = args.session.as_deref().map(|prefix| backend.session(prefix)).transpose()?;
    let found = backend.search(&args.query, session, args.limit)?;
    if found.is_indexing {
        context.info("the full text is still being read; this is what is there by now");
    }
    if args.json {
        return output::print_json(&found);
    }
    if found.hits.is_empty() {
        return Err(CliError::failed("nothing has all these words"));
    }
    output::print(&render_hits(&found.hits, context.now_ms(), &context.style(None)))
}
