//! `subscope mcp query`: serves queries of agents over sessions.
//!
//! The server runs on its own thread; its queries are answered here, one at a time, by the backend of all commands.

use std::{collections::BTreeSet, path::PathBuf, thread};

use subscope_harness::{SKILL_FILE, harnesses};
use subscope_mcp::{QueryError, QueryHost, QueryServer, Scope, serve};
use subscope_model::{Event, Hits, Millis, SearchQuery, SessionId, SessionPage, Tree, safe_id};
use subscope_query::ListQuery;
use subscope_run::session_of_parent;
use tokio::sync::mpsc;

use super::runtime;
use crate::{
    command::{
        harness_homes::homes,
        target::{ReadOptions, load_session},
    },
    hub_connection::VERSION,
    prelude::*,
    team_server,
};

/// Most waiting queries: clients send a few at once.
const MAX_QUESTIONS: usize = 16;

pub(super) fn run(args: QueryArgs, context: &Context) -> Result<(), CliError> {
    // Working folders do not leave a machine: a team's sessions are of no folder here.
    let shows_all = args.all_projects || team_server::asked(context)?.is_some();
    let scope = shows_all.then(Scope::everything);
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

    /// Returns the folder that variables of the client name, else that of the client's own session, else the working folder
    /// unless that is the plugin's.
    fn project(&self) -> Option<PathBuf> {
        let environment = &self.environment;
        let mut variables = harnesses().filter_map(|harness| environment.path(harness.project_variable()?));
        let of_session = || {
            let tree = self.tree(&self.own_session().ok()?).ok()??;
            tree.session.project.or(tree.session.cwd).map(|folder| PathBuf::from(&*folder))
        };
        let working = environment.working_folder();
        let is_plugin = environment.path("PLUGIN_ROOT").is_some_and(|root| root == working)
            || working.join(SKILL_FILE).is_file();
        let is_folder = |folder: &PathBuf| folder.is_absolute() && folder.is_dir();
        let named = variables.find(is_folder).or_else(of_session);
        named.or_else(|| Some(working.to_owned()).filter(|folder| !is_plugin && folder.is_absolute()))
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
