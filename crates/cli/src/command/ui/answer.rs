//! The UI's questions, answered in the way of all commands.

use subscope_model::{HubMode, Millis, SessionId, Tree};
use subscope_store::words;
use subscope_tui::{Answer, Question};

use super::keep;
use crate::{
    args::value::Target,
    browser,
    command::{session_reader, stop},
    context::Context,
    error::{CliError, Kind},
    hub_connection::{Backend, Needs},
};

/// How many passages a search gives.
const HITS: usize = 50;

/// Answers questions about everything, or about the one session that TARGETs are of.
pub(super) struct Answering {
    targets: Option<(SessionId, Vec<Target>)>,
}

impl Answering {
    /// About everything that is known.
    pub(super) fn of_everything() -> Self {
        Self { targets: None }
    }

    /// About one session.
    pub(super) fn of_targets(session: SessionId, targets: Vec<Target>) -> Self {
        Self { targets: Some((session, targets)) }
    }

    /// The TARGETs that a session is read from.
    fn targets_of(&self, session: &SessionId) -> Option<&[Target]> {
        self.targets.as_ref().filter(|(known, _)| known == session).map(|(_, targets)| targets.as_slice())
    }

    pub(super) fn answer(&mut self, question: Question, context: &Context) -> Result<Answer, CliError> {
        Ok(match question {
            Question::Sessions(limit) => {
                Answer::Sessions(Backend::open(Needs::Rows, context)?.sessions(limit, false)?.sessions)
            }
            Question::Tree(session) => {
                let tree = Backend::open(Needs::Rows, context)?.tree(&session)?;
                Answer::Tree(session, tree.map(Box::new))
            }
            Question::Events(session) => {
                let events = match self.targets_of(&session) {
                    Some(targets) => session_reader::events_of(targets, context)?,
                    None => session_reader::events(&session, context)?,
                };
                Answer::Events(session, events)
            }
            Question::At(session, at) => {
                let tree = self.tree_at(&session, at, context)?;
                Answer::At(session, at, Some(Box::new(tree)))
            }
            Question::Search(text) => {
                let terms: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                if terms.iter().all(|term| words(term).is_empty()) {
                    return Err(CliError::new(Kind::Usage, "there is no word in it"));
                }
                let hits = Backend::open(Needs::Texts, context)?.search(&terms, None, HITS)?.hits;
                Answer::Found(text, hits)
            }
            Question::Stop(session, agent) => Answer::Ordered(stop::order(Some(&session), &agent, context)?),
            Question::Page => Answer::Page(open_page(context)?),
            Question::Keep(setting, choice) => Answer::Kept(keep::keep(setting, choice, context)?),
        })
    }

    /// A session's rows at a moment.
    pub(super) fn tree_at(
        &self,
        session: &SessionId,
        at: Millis,
        context: &Context,
    ) -> Result<Tree, CliError> {
        match self.targets_of(session) {
            Some(targets) => session_reader::tree_of(targets, at, context),
            None => session_reader::tree_at(session, at, context),
        }
    }
}

/// Opens the page of the hub that runs, in whatever the system opens pages with. Returns where it is.
fn open_page(context: &Context) -> Result<String, CliError> {
    let mut backend = Backend::open(Needs::Glance, context)?;
    let health = backend.health();
    let health = health.filter(|health| health.mode != HubMode::Command && !health.url.is_empty());
    let health = health.ok_or_else(|| {
        CliError::new(Kind::Failed, "no hub serves the page: `subscope serve` does in another terminal")
    })?;
    // Where callers show a token it lets one browser in, and an older hub knows its address alone.
    let page = backend.page().unwrap_or_else(|| health.url.to_string());
    // Where nothing opens it, the address is what helps.
    Ok(match browser::show(&page) {
        Ok(()) => format!("opened {}", health.url),
        Err(_) => format!("the page is at {page}"),
    })
}
