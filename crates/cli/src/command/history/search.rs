//! `subscope search`.

use serde::Serialize;
use subscope_hub::search::{Found, HITS_SCHEMA, search};
use subscope_render::table::{Found as Shown, render_hits};
use subscope_store::words;

use super::{Needs, archive, failed, find_session, up_to_date};
use crate::{
    args::SearchArgs,
    context::Context,
    error::{CliError, Kind},
    output,
};

#[derive(Serialize)]
struct Hits<'a> {
    schema: &'static str,
    hits: &'a [Found],
}

/// Runs the command.
pub(crate) fn run(args: &SearchArgs, context: &Context) -> Result<(), CliError> {
    if args.query.iter().all(|word| words(word).is_empty()) {
        return Err(CliError::new(Kind::Usage, "there is no word in the query"));
    }
    let (store, texts) = up_to_date(Needs::Texts, context)?;
    let texts = texts.ok_or_else(|| CliError::new(Kind::Failed, "there is no full text"))?;
    let session = args.session.as_deref().map(|prefix| find_session(&store, prefix)).transpose()?;
    let hits =
        search(&store, &texts, &archive(context)?, &args.query, session, args.limit).map_err(failed)?;
    if args.json {
        return output::print_json(&Hits { schema: HITS_SCHEMA, hits: &hits });
    }
    if hits.is_empty() {
        return Err(CliError::new(Kind::Failed, "nothing has all these words"));
    }
    let now = context.now_ms();
    let shown: Vec<Shown<'_>> = hits
        .iter()
        .map(|hit| Shown {
            session: &hit.session_id,
            agent: &hit.agent,
            kind: hit.kind,
            age_ms: hit.at_ms.map(|at| now - at),
            snippet: &hit.snippet,
        })
        .collect();
    output::print(&render_hits(&shown, &context.style(None)))
}
