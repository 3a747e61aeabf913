//! `subscope mcp query`: what is known of sessions, for agents that ask.
//!
//! The server runs on a thread of its own; its questions are answered here, one after the other, in the way of all commands.

use std::thread;

use subscope_mcp::{Answer, QueryServer, Question, Scope, serve};
use tokio::sync::mpsc;

use super::runtime;
use crate::{
    args::QueryArgs,
    command::{history::failed, session_reader},
    context::Context,
    error::{CliError, Kind},
    hub_connection::{Backend, Needs, VERSION},
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
            Answer::Sessions(Backend::open(Needs::Rows, context)?.sessions(limit, only_live)?)
        }
        Question::Tree(session) => {
            Answer::Tree(Backend::open(Needs::Rows, context)?.tree(&session)?.map(Box::new))
        }
        Question::Search { terms, session, limit } => {
            Answer::Hits(Backend::open(Needs::Texts, context)?.search(&terms, session, limit)?)
        }
        Question::Events(session) => Answer::Events(session_reader::events(&session, context)?),
    })
}
