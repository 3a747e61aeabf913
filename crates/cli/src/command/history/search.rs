//! `subscope search`: searches the full text.

use subscope_render::table::{Found as HitRow, render_hits};
use subscope_store::words;

use crate::{
    args::SearchArgs,
    context::Context,
    error::{CliError, ErrorKind},
    hub_connection::{Backend, Needs},
    output,
};

/// Runs the command.
pub(crate) fn run(args: &SearchArgs, context: &Context) -> Result<(), CliError> {
    if args.query.iter().all(|word| words(word).is_empty()) {
        return Err(CliError::new(ErrorKind::Usage, "there is no word in the query"));
    }
    let mut backend = Backend::open(Needs::Texts, context)?;
    let session = args.session.as_deref().map(|prefix| backend.session(prefix)).transpose()?;
    let found = backend.search(&args.query, session, args.limit)?;
    if args.json {
        return output::print_json(&found);
    }
    let hits = found.hits;
    if hits.is_empty() {
        return Err(CliError::new(ErrorKind::Failed, "nothing has all these words"));
    }
    let now = context.now_ms();
    let shown: Vec<HitRow<'_>> = hits
        .iter()
        .map(|hit| HitRow {
            session: &hit.session_id,
            agent: &hit.agent,
            kind: &hit.kind,
            age_ms: hit.at_ms.map(|at| now - at),
            snippet: &hit.snippet,
        })
        .collect();
    output::print(&render_hits(&shown, &context.style(None)))
}
