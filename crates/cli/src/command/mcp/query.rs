//! `subscope mcp query`: what is known of sessions, for agents that ask.
//!
//! The server runs on a thread of its own; its questions are answered here, one after the other, in the way of all commands.

use std::{ffi::OsString, thread};

use subscope_collect::Expanded;
use subscope_fold::{Events, FoldOptions, Keep, Now};
use subscope_hub::Cold;
use subscope_mcp::{Answer, QueryServer, Question, Scope, serve};
use subscope_model::{Event, SessionId};
use tokio::sync::mpsc;

use super::runtime;
use crate::{
    args::QueryArgs,
    command::{
        history::{self, failed},
        target::{self, Reading},
    },
    context::Context,
    error::{CliError, Kind},
    reach::{Asker, Needs, VERSION},
};

/// How many questions wait at most: clients ask a few at once.
const QUESTIONS: usize = 16;

/// Runs the command.
pub(super) fn run(args: QueryArgs, context: &Context) -> Result<(), CliError> {
    let scope = match context.environment.working_folder() {
        _ if args.all_projects => Scope::everything(),
        folder if folder.is_absolute() => Scope::project(folder),
        _ => {
            let error = CliError::new(
                Kind::Failed,
                "the working folder is gone, so there is no project to ask about",
            );
            return Err(error.hint("--all-projects shows all of them"));
        }
    };
    let (ask, mut questions) = mpsc::channel(QUESTIONS);
    let runtime = runtime()?;
    let served = thread::scope(|threads| {
        let served = threads.spawn(|| runtime.block_on(serve(|_| QueryServer::new(ask, scope, VERSION))));
        while let Some((question, reply)) = questions.blocking_recv() {
            // Whoever asked may be gone.
            let _ = reply.send(answer(question, context).map_err(|error| error.to_string()));
        }
        served.join()
    });
    runtime.shutdown_background();
    served.map_err(|_| CliError::new(Kind::Failed, "the server broke"))?.map_err(failed)
}

fn answer(question: Question, context: &Context) -> Result<Answer, CliError> {
    Ok(match question {
        Question::Sessions { limit, only_live } => {
            Answer::Sessions(Asker::open(Needs::Rows, context)?.sessions(limit, only_live)?)
        }
        Question::Tree(session) => {
            Answer::Tree(Asker::open(Needs::Rows, context)?.tree(&session)?.map(Box::new))
        }
        Question::Search { terms, session, limit } => {
            Answer::Hits(Asker::open(Needs::Texts, context)?.search(&terms, session, limit)?)
        }
        Question::Events(session) => Answer::Events(events(&session, context)?),
    })
}

/// Reads a session's feed from its files and from what programs handed over, as exports do.
fn events(session: &SessionId, context: &Context) -> Result<Vec<Event>, CliError> {
    let reading = Reading { keep: Keep::Payloads, events: true, at: None, dialect: None };
    let word = OsString::from(session.as_str());
    if !target::is_gone(&word, context) || history::archived(session, context)?.is_some() {
        let mut loaded = target::load(&[word], &reading, context)?;
        let now = loaded.now(context)?;
        return Ok(Events::all(&mut loaded.cold.fold, session, &now));
    }
    // Programs told of it, and no file does.
    let received = history::received(session, context)?;
    if received.is_empty() {
        let message = "nothing that it was made of is kept any more: only its rows are";
        return Err(CliError::new(Kind::Failed, message));
    }
    let options = FoldOptions { keep: reading.keep, cutoff: None, events: true };
    let mut cold = Cold::read(Expanded { groups: Vec::new(), skipped: Vec::new() }, options, None);
    cold.receive(&received);
    let now = Now {
        at: context.now_ms(),
        has_ended: false,
        is_growing: false,
        prices: &context.prices()?.table,
        limits: target::limits(context),
    };
    Ok(Events::all(&mut cold.fold, session, &now))
}
