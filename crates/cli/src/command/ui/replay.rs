//! `subscope replay`: replays a session in the terminal UI, or prints its changes as lines.

use std::{thread, time::Duration};

use subscope_hub::RowsSource;
use subscope_model::{Millis, Update};
use subscope_tui::{Playback, plain::Plain};

use super::{QueryHandler, UiThread};
use crate::{
    command::{
        demo,
        target::{ReadOptions, load, texts_are_gone},
    },
    prelude::*,
};

/// Interval of reading the session when changes are printed.
const STEP_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &ReplayArgs, context: &mut Context) -> Result<(), CliError> {
    if args.targets.iter().any(|target| target == "-") {
        let error = CliError::usage("stdin cannot be played back: it is read once");
        return Err(error.hint("keep it in a file, and name that"));
    }
    let loaded = load(&args.targets, &ReadOptions::ROWS, context)?;
    if loaded.source != RowsSource::Sources {
        return Err(texts_are_gone(&loaded.tree.session));
    }
    let tree = loaded.tree;
    let (Some(from), Some(to)) = (tree.session.started_at_ms, tree.session.ended_at_ms) else {
        return Err(CliError::failed(format!(
            "session {} cannot be replayed: none of its events has a time",
            tree.session.id
        )));
    };
    let mut handler = QueryHandler::of_targets(tree.session.id.clone(), args.targets.clone());
    if args.plain || !context.terminal.is_terminal {
        return print_lines(&handler, &tree.session.id, (from, to), args.speed, context);
    }
    context.verbosity = Verbosity::Quiet;
    let playback = Playback { tree, speed: args.speed, is_halted: args.step };
    UiThread::start(None, Some(playback), context)?.serve(&mut handler, context).map(drop)
}

/// Replays the recording of `subscope demo`, from temporary files that exist as long as it is shown.
pub(super) fn demo(context: &mut Context) -> Result<(), CliError> {
    let folder = tempfile::tempdir()?;
    let target = demo::write_recording(folder.path())?.into_os_string();
    run(&ReplayArgs { targets: vec![target], speed: 1.0, step: false, plain: false }, context)
}

/// Prints changes as lines, at the replay's speed.
fn print_lines(
    handler: &QueryHandler,
    session: &subscope_model::SessionId,
    (from, to): (Millis, Millis),
    speed: f64,
    context: &Context,
) -> Result<(), CliError> {
    let mut plain = Plain::new(context.style(None), context.offset_minutes());
    // Start from an empty state, so that every row is printed as a change.
    plain.take(Update::CaughtUp, from);
    let began = subscope_hub::clock::tick();
    loop {
        // `as` saturates; a session of some years is far below the range.
        let past = (began.elapsed().as_secs_f64() * speed * 1000.0) as Millis;
        let at = from.saturating_add(past).min(to);
        let tree = handler.tree_at(session, at, context)?;
        let lines = plain.take(Update::snapshot(tree), at);
        if !lines.is_empty() {
            output::print(&lines)?;
        }
        if at >= to {
            return Ok(());
        }
        thread::sleep(STEP_INTERVAL);
    }
}
