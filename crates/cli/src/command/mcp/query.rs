//! `subscope mcp query`: serves queries of agents over sessions.
//!
//! The server runs on its own thread; its queries are answered here, one at a time, by the backend of all commands.

use std::thread;

use subscope_mcp::{QueryError, QueryHost, QueryServer, Scope, serve};
use subscope_model::{Event, Hits, SearchQuery, SessionId, SessionPage, Tree};
use tokio::sync::mpsc;

use super::runtime;
use crate::{
    command::target::{ReadOptions, load_session},
    hub_connection::VERSION,
    prelude::*,
    team_server,
};

/// Most waiting queries: clients send a few at once.
const MAX_QUESTIONS: usize = 16;

pub(super) fn run(args: QueryArgs, context: &Context) -> Result<(), CliError> {
    let scope = match context.environment.working_folder() {
        // Working folders do not leave a machine: a team's sessions are of no folder here.
        _ if args.all_projects || team_server::asked(context)?.is_some() => Scope::everything(),
        folder if folder.is_absolute() => Scope::project(folder),
        _ => {
            let error =
                CliError::failed("the working folder does not exist, so there is no project to ask about");
            return Err(error.hint("--all-projects shows all of them"));
        }
    };
    let (ask, mut questions) = mpsc::channel(MAX_QUESTIONS);
    let runtime = runtime()?;
    let served = thread::scope(|threads| {
        let served = threads.spawn(|| runtime.block_on(serve(|_| QueryServer::new(ask, scope, VERSION))));
        while let Some(question) = questions.blocking_recv() {
            question(context);
        }
        served.join()
    });
    runtime.shutdown_background();
    Ok(served.map_err(|_| CliError::failed("the server broke"))??)
}

impl QueryHost for Context {
    fn sessions(&self, limit: usize, only_live: bool) -> Result<SessionPage, QueryError> {
        Ok(Backend::open(Needs::Rows, self)?.sessions(limit, only_live, "")?)
    }

    fn tree(&self, session: &SessionId) -> Result<Option<Tree>, QueryError> {
        Ok(Backend::open(Needs::Rows, self)?.tree(session)?)
    }

    fn search(&self, terms: &[String], session: Option<SessionId>, limit: usize) -> Result<Hits, QueryError> {
        let query = SearchQuery { terms: terms.to_vec(), session, limit, ..SearchQuery::default() };
        Ok(Backend::open(Needs::Texts, self)?.search(&query)?)
    }

    fn events(&self, session: &SessionId) -> Result<Vec<Event>, QueryError> {
        if let Some(server) = team_server::asked(self)? {
            return Err(team_server::only_there(session, server).into());
        }
        Ok(load_session(session, &ReadOptions::FEED, self)?.events(self)?)
    }
}

impl From<CliError> for QueryError {
    fn from(error: CliError) -> Self {
        Self::Host(error.to_string())
    }
}
