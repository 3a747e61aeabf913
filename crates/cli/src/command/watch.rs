//! `subscope watch`: follows sessions live and prints what happens, block by block.

pub(super) mod live;
mod session;

use std::{any::Any, io::Cursor, path::PathBuf, time::Duration};

use subscope_hub::{Driver, FileTailDriver, Hub, MemoryStore, StreamDriver};
use subscope_model::{AgentId, EventKind, Feed, FeedItem, Update};

use super::{
    document::{self, Lines},
    event_printer::{EventFormat, EventPrinter},
    stop,
    target::{
        ResolvedTarget, open_store_for_reading, resolve, roots, sessions_in_files_alone, sessions_of_parts,
        shown, sources_of,
    },
};
use crate::prelude::*;

/// Longest wait for an update; the granularity of heartbeats.
const WAIT: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &WatchArgs, context: &Context) -> Result<(), CliError> {
    let mut followed =
        if args.targets.is_empty() { follow_all(args, context)? } else { follow_targets(args, context)? };
    // With a TARGET all of its events are shown; without one, events from now on.
    let format = EventFormat { is_json: args.json, full: args.full, shows_past: !args.targets.is_empty() };
    let mut printer = EventPrinter::new(format, None, context);
    loop {
        match followed.feed.next(WAIT) {
            FeedItem::Update(update) => {
                let stall = args.stall_kill.then(|| stalled(&update)).flatten();
                printer.apply(update)?;
                if let Some((session, agent)) = stall {
                    match stop::request_stop(Some(&session), &agent, context) {
                        Ok(_) => context.info(&format!("subagent {agent} is stalled: it is asked to stop")),
                        Err(error) => context.warn(&format!("subagent {agent} is stalled: {error}")),
                    }
                }
            }
            FeedItem::Idle => {}
            FeedItem::Closed => break,
        }
        printer.print_heartbeat_if_due()?;
    }
    printer.finish()
}

/// Returns session and id of the subagent that an update reports as stalled.
fn stalled(update: &Update) -> Option<(String, String)> {
    let Update::Event(event) = update else { return None };
    let agent = event.text("agent_id").filter(|_| event.kind == EventKind::Stall)?;
    (agent != AgentId::ROOT).then(|| (event.session_id.to_string(), agent.to_owned()))
}

pub(super) struct FollowedFeed {
    pub(super) feed: Box<dyn Feed>,
    /// The feed's hub, if it runs in this process: dropping it ends the feed.
    pub(super) hub: Option<Box<dyn Any>>,
}

/// Follows every live session.
fn follow_all(args: &WatchArgs, context: &Context) -> Result<FollowedFeed, CliError> {
    let roots = roots(context);
    context.info(&format!("following live sessions below {} (Ctrl-C ends)", shown(&roots)));
    // The hub applies one set of limits and prices for all clients: different ones need a hub in this process.
    if args.silence.has_limits() || args.prices.is_some() {
        return in_process(Box::new(FileTailDriver::roots(roots)?), context);
    }
    live::follow_all(&|| (), context)
}

/// Follows TARGETs: files, sessions in files and pipes in this process; a session without files through the hub.
fn follow_targets(args: &WatchArgs, context: &Context) -> Result<FollowedFeed, CliError> {
    let (mut paths, mut documents, mut without_files, mut has_stdin) =
        (Vec::new(), Vec::new(), Vec::new(), false);
    let mut parts: Vec<(PathBuf, String)> = Vec::new();
    for target in resolve(&args.targets, context)? {
        match target {
            ResolvedTarget::Path(path) | ResolvedTarget::FinishedFile(path) => paths.push(path),
            ResolvedTarget::Stdin => has_stdin = true,
            ResolvedTarget::Part(path, word) => parts.push((path, word)),
            ResolvedTarget::Document(path, kind) => documents.push((path, kind)),
            ResolvedTarget::Session(session) => {
                let sources = sources_of(&session, open_store_for_reading(context)?.as_ref(), context)?;
                match sources.growing() {
                    files if files.is_empty() => without_files.push((session, sources)),
                    files => paths.extend(files),
                }
            }
        }
    }
    if !parts.is_empty() {
        if parts.len() < args.targets.len() {
            return Err(sessions_in_files_alone());
        }
        let sessions = sessions_of_parts(&parts, args.dialect)?;
        paths = parts.into_iter().map(|(path, _)| path).collect();
        paths.dedup();
        let followed = in_process(Box::new(FileTailDriver::targets(paths, args.dialect)?), context)?;
        return Ok(session::only(sessions, followed));
    }
    let alone = |what: &str| CliError::usage(format!("{what} is followed alone"));
    if let Some((path, kind)) = documents.pop() {
        if has_stdin || !(paths.is_empty() && documents.is_empty() && without_files.is_empty()) {
            return Err(alone("a document").hint("`subscope tree` merges it with others"));
        }
        let Lines { bytes, dialect, problems, .. } = document::read(&path, kind)?;
        context.report(&problems)?;
        return in_process(Box::new(StreamDriver::start(Cursor::new(bytes), dialect)?), context);
    }
    match (without_files.pop(), has_stdin) {
        (Some((session, sources)), false) if paths.is_empty() && without_files.is_empty() => {
            if args.silence.has_limits() || args.prices.is_some() {
                context.warn("this session is known to the hub only, so the hub's limits and prices apply");
            }
            session::follow(session, &sources, context)
        }
        (Some(_), _) => Err(alone("a session without a transcript").hint("name it in a command of its own")),
        (None, true) if !paths.is_empty() => Err(alone("-").hint("`subscope tree` merges stdin with files")),
        (None, true) => {
            let stream = StreamDriver::start(std::io::stdin(), args.dialect);
            in_process(Box::new(stream?), context)
        }
        (None, false) => in_process(Box::new(FileTailDriver::targets(paths, args.dialect)?), context),
    }
}

/// Follows a driver with a hub in this process that stores nothing.
fn in_process(driver: Box<dyn Driver>, context: &Context) -> Result<FollowedFeed, CliError> {
    let hub = Hub::start(driver, Box::new(MemoryStore::new()), context.hub_options()?)?;
    Ok(FollowedFeed { feed: Box::new(hub.subscribe()), hub: Some(Box::new(hub)) })
}
