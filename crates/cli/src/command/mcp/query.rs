//! `subscope mcp query`: serves queries of agents over sessions.
//!
//! The server runs on its own thread; its queries are answered here, one at a time, by the backend of all commands.

use std::thread;

use subscope_mcp::{Answer, QueryError, QueryServer, Question, Scope, serve};
use tokio::sync::mpsc;

use super::runtime;
use crate::{
    command::target::{ReadOptions, load_session},
    hub_connection::VERSION,
    prelude::*,
};

/// Most waiting queries: clients send a few at once.
const MAX_QUESTIONS: usize = 16;

pub(super) fn run(args: QueryArgs, context: &Context) -> Result<(), CliError> {
    let scope = match context.environment.working_folder() {
        _ if args.all_projects => Scope::everything(),
        folder if folder.is_absolute() => Scope::project(folder),
        _ => {
            let error = CliError::failed("the working folder is gone, so there is no project to ask about");
            return Err(error.hint("--all-projects shows all of them"));
        }
    };
    let (ask, mut questions) = mpsc::channel(MAX_QUESTIONS);
    let runtime = runtime()?;
    let served = thread::scope(|threads| {
        let served = threads.spawn(|| runtime.block_on(serve(|_| QueryServer::new(ask, scope, VERSION))));
        while let Some((question, reply)) = questions.blocking_recv() {
            // The client may have disconnected.
            let _ =
                reply.send(answer(question, context).map_err(|error| QueryError::Host(error.to_string())));
        }
        served.join()
    });
    runtime.shutdown_background();
    Ok(served.map_err(|_| CliError::failed("the server broke"))??)
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
        Question::Events(session) => {
            Answer::Events(load_session(&session, &ReadOptions::FEED, context)?.events(context)?)
        }
    })
}
