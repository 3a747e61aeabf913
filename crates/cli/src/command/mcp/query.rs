//! `subscope mcp query`: serves queries of agents over sessions.
//!
//! The server runs on its own thread; its queries are answered here, one at a time, by the backend of all commands.

use std::{collections::BTreeSet, thread};

use subscope_harness::harnesses;
use subscope_mcp::{QueryError, QueryHost, QueryServer, Scope, serve};
use subscope_model::{Event, Hits, Millis, SearchQuery, SessionId, SessionPage, Tree, safe_id};
use subscope_query::ListQuery;
use subscope_run::session_of_parent;
use tokio::sync::mpsc;

use super::runtime;
use crate::{
    command::{
        run::homes,
        target::{ReadOptions, load_session},
    },
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
    fn sessions(&self, query: &ListQuery) -> Result<SessionPage, QueryError> {
        let page = Backend::open(Needs::Rows, self).and_then(|mut all| Ok(all.queries().sessions(query)?));
        page.map_err(host_error)
    }

    fn now_ms(&self) -> Millis {
        self.now_ms()
    }

    fn own_session(&self) -> Result<SessionId, QueryError> {
        // A process notes its session anew when it changes; a variable stays that of the server's start.
        if let Some(session) = session_of_parent(&homes(self)) {
            return Ok(safe_id(&session).as_ref().into());
        }
        let variables = harnesses().filter_map(|harness| harness.session_variable());
        let named: BTreeSet<String> = variables.filter_map(|name| self.environment.text(name)).collect();
        match named.first() {
            Some(session) if named.len() == 1 => Ok(safe_id(session).as_ref().into()),
            Some(_) => Err(QueryError::SeveralOwnSessions(named.into_iter().collect())),
            None => Err(QueryError::NoOwnSession),
        }
    }

    fn tree(&self, session: &SessionId) -> Result<Option<Tree>, QueryError> {
        let tree = Backend::open(Needs::Rows, self).and_then(|mut all| Ok(all.queries().tree(session)?));
        tree.map_err(host_error)
    }

    fn search(&self, terms: &[String], session: Option<SessionId>, limit: usize) -> Result<Hits, QueryError> {
        let query = SearchQuery { terms: terms.to_vec(), session, limit, ..SearchQuery::default() };
        let hits = Backend::open(Needs::Texts, self).and_then(|mut all| Ok(all.queries().search(&query)?));
        hits.map_err(host_error)
    }

    fn events(&self, session: &SessionId) -> Result<Vec<Event>, QueryError> {
        let events = team_server::asked(self).and_then(|server| match server {
            Some(server) => Err(team_server::only_there(session, server)),
            None => load_session(session, &ReadOptions::FEED, self)?.events(self),
        });
        events.map_err(host_error)
    }
}

fn host_error(error: CliError) -> QueryError {
    QueryError::Host(error.to_string())
}
