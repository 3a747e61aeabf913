//! Answers the queries of the terminal UI through the backend of all commands.

use subscope_model::{HubMode, Looks, Millis, PERMISSIONS_SCHEMA, PermissionRequests, SessionId, Tree};
use subscope_query::Queries as _;
use subscope_store::words;
use subscope_tui::{Answer, Question, Setting};

use crate::{
    browser,
    command::{
        answer,
        history::iterations,
        jump, stop,
        target::{LoadedSession, ReadOptions, load, load_session},
        team,
    },
    config,
    prelude::*,
    team_server,
};

/// What to do where nobody keeps what the user has seen.
const KEEPER_HINT: &str = "only a hub keeps what you have seen: start `subscope serve`";

/// Most sessions, and most agents, found by their words.
const MAX_SESSIONS: usize = 50;

/// Most iterations listed.
const MAX_ITERATIONS: usize = 500;

/// Returns the key of a setting that the UI saves.
fn setting_key(setting: Setting) -> &'static str {
    match setting {
        Setting::Detail => "subagent_tracing_detail",
        Setting::Tree => "ui.tree",
        Setting::Theme => "ui.theme",
    }
}

/// Answers queries over all sessions, or over the one session that TARGETs belong to.
pub(super) struct QueryHandler {
    targets: Option<(SessionId, Vec<TargetArg>)>,
}

impl QueryHandler {
    /// Answers over all sessions.
    pub(super) fn of_everything() -> Self {
        Self { targets: None }
    }

    /// Answers over one session, read from `targets`.
    pub(super) fn of_targets(session: SessionId, targets: Vec<TargetArg>) -> Self {
        Self { targets: Some((session, targets)) }
    }

    /// Reads a session: from the TARGETs if it is theirs, else by its id.
    fn load(
        &self,
        session: &SessionId,
        reading: &ReadOptions,
        context: &Context,
    ) -> Result<LoadedSession, CliError> {
        if is_of_team(context)? {
            return Err(only_there(session, context));
        }
        match &self.targets {
            Some((known, targets)) if known == session => load(targets, reading, context),
            Some(_) | None => load_session(session, reading, context),
        }
    }

    pub(super) fn answer(&mut self, question: Question, context: &Context) -> Result<Answer, CliError> {
        Ok(match question {
            Question::Sessions(limit) => {
                let page = Backend::open(Needs::Rows, context)?.sessions(limit, false, "")?;
                Answer::Sessions(page.sessions, page.next.is_some())
            }
            Question::Tree(session) => {
                let tree = Backend::open(Needs::Rows, context)?.queries().tree(&session)?;
                Answer::Tree(session, tree.map(Box::new))
            }
            Question::Events(session) if is_of_team(context)? => {
                let why = only_there(&session, context).to_string();
                Answer::NoEvents(session, why)
            }
            Question::Events(session) => {
                let events = self.load(&session, &ReadOptions::FEED, context)?.events(context)?;
                Answer::Events(session, events)
            }
            Question::At(session, at) => {
                let tree = self.tree_at(&session, at, context)?;
                Answer::At(session, at, Some(Box::new(tree)))
            }
            Question::Find(words) => {
                let mut backend = Backend::open(Needs::Rows, context)?;
                let rows = backend.sessions(MAX_SESSIONS, false, &words)?.sessions;
                Answer::Sought(rows, backend.queries().agents_with_words(&words, MAX_SESSIONS)?.agents)
            }
            Question::Search(query) => {
                if query.terms.iter().all(|term| words(term).is_empty()) {
                    return Err(CliError::usage("the query has no word"));
                }
                let hits = Backend::open(Needs::Texts, context)?.queries().search(&query)?;
                Answer::Found(query, hits)
            }
            Question::Stats(query) => {
                let stats = Backend::open(Needs::Rows, context)?.queries().stats(&query)?;
                Answer::Stats(query, Box::new(stats))
            }
            Question::Iterations if is_of_team(context)? => {
                return Err(CliError::failed("iterations are folders of a machine: the team has none"));
            }
            Question::Iterations => Answer::Iterations(iterations::of_all_projects(MAX_ITERATIONS, context)?),
            Question::Looks if is_of_team(context)? => Answer::Looks(Looks::default()),
            Question::Looks => Answer::Looks(Backend::open(Needs::RowsNoStart, context)?.queries().looks()?),
            Question::Reading if is_of_team(context)? => Answer::Reading(None),
            Question::Reading => {
                let health = Backend::open(Needs::RowsNoStart, context)?.health();
                Answer::Reading(health.and_then(|health| health.reading))
            }
            Question::Permissions if is_of_team(context)? => Answer::Permissions(PermissionRequests {
                schema: PERMISSIONS_SCHEMA.into(),
                enabled: false,
                requests: Vec::new(),
            }),
            Question::Permissions => {
                Answer::Permissions(stop::running_hub(KEEPER_HINT, context)?.look_at_permissions()?)
            }
            Question::Permit(id, decision) => {
                let mut hub = stop::running_hub(KEEPER_HINT, context)?;
                Answer::Permitted(answer::send(&mut hub, &id, &decision)?)
            }
            Question::Dismiss(session, facts) => {
                let mut hub = stop::running_hub(KEEPER_HINT, context)?;
                hub.dismiss(&session, &facts)?;
                Answer::Looks(hub.looks()?)
            }
            Question::MarkSeen(until_ms) => {
                let mut hub = stop::running_hub(KEEPER_HINT, context)?;
                hub.mark_seen(until_ms)?;
                Answer::Looks(hub.looks()?)
            }
            Question::Stop(session, _) if is_of_team(context)? => {
                return Err(only_there(&session, context));
            }
            Question::Stop(session, agent) => {
                Answer::Ordered(stop::request_stop(Some(&session), &agent, context)?)
            }
            Question::Jump(session) if is_of_team(context)? => return Err(only_there(&session, context)),
            Question::Jump(session) => {
                Answer::Jumped(jump::go(&session, &mut Backend::open(Needs::Rows, context)?, context)?)
            }
            Question::Page => Answer::Page(open_page(context)?),
            Question::Keep(setting, choice) => {
                config::save(setting_key(setting), &choice.into(), &context.config.paths)?;
                Answer::Kept
            }
        })
    }

    /// Reads a session's rows at a past time.
    pub(super) fn tree_at(
        &self,
        session: &SessionId,
        at: Millis,
        context: &Context,
    ) -> Result<Tree, CliError> {
        let reading = ReadOptions { at: Some(at), ..ReadOptions::ROWS };
        Ok(self.load(session, &reading, context)?.tree)
    }
}

/// Whether the answers are those of a team's server.
fn is_of_team(context: &Context) -> Result<bool, CliError> {
    Ok(team_server::asked(context)?.is_some())
}

/// Returns the message for data that only the session's machine has.
fn only_there(session: &SessionId, context: &Context) -> CliError {
    match team_server::required(context) {
        Ok(server) => team_server::only_there(session, server),
        Err(error) => error,
    }
}

/// Opens the page of the running hub in the browser. Returns a message with its URL.
fn open_page(context: &Context) -> Result<String, CliError> {
    if is_of_team(context)? {
        let page = team::page_url(context)?;
        return Ok(match browser::open(&page) {
            Ok(()) => "opened the team's page".to_owned(),
            Err(_) => format!("the page is at {page}"),
        });
    }
    let mut backend = Backend::open(Needs::RowsNoStart, context)?;
    let health = backend.health();
    let health = health.filter(|health| health.mode != HubMode::Command && !health.url.is_empty());
    let health = health.ok_or_else(|| {
        CliError::failed("no hub serves the page: `subscope serve` does in another terminal")
    })?;
    // If the hub requires a token, this URL lets one browser in. An older hub has no such URL.
    let page = backend.page().unwrap_or_else(|| health.url.to_string());
    // Without a browser the user needs the URL.
    Ok(match browser::open(&page) {
        Ok(()) => format!("opened {}", health.url),
        Err(_) => format!("the page is at {page}"),
    })
}
