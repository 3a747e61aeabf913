//! `subscope replay`: a session that is played back.

use std::{thread, time::Duration};

use subscope_fold::FactDetail;
use subscope_model::{Millis, Update};
use subscope_tui::{Playback, plain::Plain};

use super::{Answering, Ui};
use crate::{
    args::ReplayArgs,
    command::target::{Reading, load, texts_are_gone},
    context::{Chattiness, Context},
    error::{CliError, Kind},
    output,
};

/// How often a playback that is printed is looked at.
const STEP: Duration = Duration::from_millis(200);

/// Runs the command.
pub(crate) fn run(args: &ReplayArgs, context: &mut Context) -> Result<(), CliError> {
    if args.targets.iter().any(|target| target == "-") {
        let error = CliError::new(Kind::Usage, "stdin cannot be played back: it is read once");
        return Err(error.hint("keep it in a file, and name that"));
    }
    let reading = Reading { keep: FactDetail::Rows, events: false, at: None, dialect: None };
    let loaded = load(&args.targets, &reading, context)?;
    if loaded.has_rows_only() {
        return Err(texts_are_gone());
    }
    let tree = loaded.tree;
    let (Some(from), Some(to)) = (tree.session.started_at_ms, tree.session.ended_at_ms) else {
        return Err(CliError::new(
            Kind::Failed,
            "nothing in it has a time, so there is no pace to play it at",
        ));
    };
    let mut answering = Answering::of_targets(tree.session.id.clone(), args.targets.clone());
    if args.plain || !context.terminal.is_terminal {
        return plainly(&answering, &tree.session.id, (from, to), args.speed.0, context);
    }
    context.chattiness = Chattiness::Quiet;
    let playback = Playback { tree, speed: args.speed.0, is_halted: args.step };
    Ui::start(None, Some(playback), context)?.serve(&mut answering, context)
}

/// Prints changes as lines, at their own pace.
fn plainly(
    answering: &Answering,
    session: &subscope_model::SessionId,
    (from, to): (Millis, Millis),
    speed: f64,
    context: &Context,
) -> Result<(), CliError> {
    let mut plain = Plain::new(context.style(None), context.offset_minutes());
    // What stands there at first is nothing: all of it is told.
    plain.take(&Update::CaughtUp, from);
    let began = subscope_hub::clock::tick();
    loop {
        // `as` saturates; a session of some years is far below the range.
        let past = (began.elapsed().as_secs_f64() * speed * 1000.0) as Millis;
        let at = from.saturating_add(past).min(to);
        let tree = answering.tree_at(session, at, context)?;
        let lines = plain.take(&Update::Snapshot(Box::new(tree)), at);
        if !lines.is_empty() {
            output::print(&lines)?;
        }
        if at >= to {
            return Ok(());
        }
        thread::sleep(STEP);
    }
}
