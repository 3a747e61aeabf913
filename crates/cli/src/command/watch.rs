//! `subscope watch`: follows sessions live and prints what happens, block by block.

pub(super) mod live;
mod session;

use std::time::Duration;

use subscope_hub::{Driver, FileTailDriver, Hub, HubOptions, Memory, StreamDriver};
use subscope_model::{AgentId, EventKind, Feed, FeedItem, Update};

use super::{
    event_printer::{Form, Out, Showing},
    stop,
    target::{Named, kept_rows, limits, resolve, roots, shown, sources_of},
};
use crate::{
    args::WatchArgs,
    context::Context,
    error::{CliError, Kind},
};

/// How long one wait for an update lasts: the grain of heartbeats.
const WAIT: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(args: &WatchArgs, context: &Context) -> Result<(), CliError> {
    let mut followed =
        if args.targets.is_empty() { everything(args, context)? } else { targets(args, context)? };
    // With a TARGET everything it holds is shown; without one, what happens from now on.
    let form = Form { is_json: args.json, full: args.full, shows_past: !args.targets.is_empty() };
    let mut watch = Showing::new(form, Out::Stdout, context);
    loop {
        match followed.feed.next(WAIT) {
            FeedItem::Update(update) => {
                let stall = args.stall_kill.then(|| stalled(&update)).flatten();
                watch.take(update)?;
                if let Some((session, agent)) = stall {
                    match stop::order(Some(&session), &agent, context) {
                        Ok(_) => context.say(&format!("subagent {agent} is stalled: it is asked to stop")),
                        Err(error) => context.warn(&format!("subagent {agent} is stalled: {error}")),
                    }
                }
            }
            FeedItem::Idle => {}
            FeedItem::Closed => break,
        }
        watch.beat()?;
    }
    watch.finish()
}

/// The subagent that an update says is stalled, with its session.
fn stalled(update: &Update) -> Option<(String, String)> {
    let Update::Event(event) = update else { return None };
    let agent = event.text("agent_id").filter(|_| event.kind == EventKind::Stall)?;
    (agent != AgentId::ROOT).then(|| (event.session_id.to_string(), agent.to_owned()))
}

/// What is followed, and what has to live as long.
pub(super) struct Followed {
    pub(super) feed: Box<dyn Feed>,
    pub(super) _keeps: live::Keeps,
}

/// Follows every live session.
fn everything(args: &WatchArgs, context: &Context) -> Result<Followed, CliError> {
    let roots = roots(context);
    context.say(&format!("following live sessions below {} (Ctrl-C ends)", shown(&roots)));
    // The hub concludes for everybody: other limits or prices need one of one's own.
    if args.silence.has_limits() || args.prices.is_some() {
        return in_process(Box::new(FileTailDriver::roots(roots)?), context);
    }
    live::everything(&|| (), context)
}

/// Follows what TARGETs name: files and pipes in this process; a session of which no file stands as the hub tells of it.
fn targets(args: &WatchArgs, context: &Context) -> Result<Followed, CliError> {
    let (mut paths, mut told, mut has_stdin) = (Vec::new(), Vec::new(), false);
    for target in resolve(&args.targets, context)? {
        match target {
            Named::Path(path) | Named::Printed(path) => paths.push(path),
            Named::Stdin => has_stdin = true,
            Named::Session(session) => {
                let sources = sources_of(&session, kept_rows(context)?.as_ref(), context)?;
                match sources.growing() {
                    files if files.is_empty() => told.push((session, sources)),
                    files => paths.extend(files),
                }
            }
        }
    }
    let alone = |what: &str| CliError::new(Kind::Usage, format!("{what} is followed alone"));
    match (told.pop(), has_stdin) {
        (Some((session, sources)), false) if paths.is_empty() && told.is_empty() => {
            if args.silence.has_limits() || args.prices.is_some() {
                context.warn("limits and prices are those of the hub that tells of it");
            }
            session::follow(session, &sources, context)
        }
        (Some(_), _) => Err(alone("a session without a transcript").hint("name it in a command of its own")),
        (None, true) if !paths.is_empty() => Err(alone("-").hint("`subscope tree` merges stdin with files")),
        (None, true) => {
            let piped = StreamDriver::start(std::io::stdin(), args.dialect);
            in_process(Box::new(piped.map_err(|error| CliError::caused(Kind::Failed, error))?), context)
        }
        (None, false) => in_process(Box::new(FileTailDriver::targets(paths, args.dialect)?), context),
    }
}

/// Follows something in this process and keeps nothing of it.
fn in_process(driver: Box<dyn Driver>, context: &Context) -> Result<Followed, CliError> {
    let options = HubOptions {
        prices: context.prices()?.table.clone(),
        limits: limits(context),
        ..HubOptions::default()
    };
    let hub = Hub::start(driver, Box::new(Memory::new()), options)
        .map_err(|error| CliError::caused(Kind::Failed, error))?;
    Ok(Followed { feed: Box::new(hub.subscribe()), _keeps: live::Keeps::Hub(hub) })
}
