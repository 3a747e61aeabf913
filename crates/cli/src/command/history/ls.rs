//! `subscope ls`: lists sessions.

use subscope_render::table::render_sessions;

use crate::prelude::*;

pub(crate) fn run(args: &LsArgs, context: &Context) -> Result<(), CliError> {
    if args.iterations {
        return super::iterations::run(args, context);
    }
    let page = Backend::open(Needs::Rows, context)?.sessions(args.limit, args.live)?;
    if args.json {
        return output::print_json(&page);
    }
    if page.sessions.is_empty() && args.limit > 0 {
        context.info(if args.live { "nothing is at work" } else { "no sessions yet" });
        return Ok(());
    }
    output::print(&render_sessions(&page.sessions, context.now_ms(), &context.style(None)))?;
    if page.next.is_some() {
        context.info("more with -n");
    }
    Ok(())
}
