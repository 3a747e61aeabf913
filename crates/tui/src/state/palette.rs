//! The command palette: commands, sessions, agents and the full text by what is typed.

use subscope_model::{Agent, AgentName, SessionId, SessionRow, Tree};
use subscope_render::{table::SHORT_ID, text};

use super::{UiState, reports::Place};
use crate::keys::{Action, KEYS};

/// Most sessions and most agents listed.
const MAX_FOUND: usize = 12;

/// An open palette.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CommandPalette {
    pub(crate) text: String,
    /// Index of the selected entry.
    pub(crate) at: usize,
    /// Text of the last question for sessions.
    pub(crate) asked: String,
    /// Sessions of the last answer.
    pub(crate) found: Vec<SessionRow>,
    /// Agents of the last answer.
    pub(crate) found_agents: Vec<AgentName>,
}

/// Something that the palette leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PaletteEntry {
    Command(Action),
    Session(Box<SessionRow>),
    /// An agent, with its name (raw agent text).
    Agent(Place, String),
    /// A search of all stored text.
    Text,
}

impl PaletteEntry {
    /// Its text in the list; raw agent text.
    pub(crate) fn name(&self, text: &str) -> String {
        match self {
            Self::Command(action) => action.name(),
            Self::Session(row) => {
                let place = text::place_name(row.cwd.as_deref(), row.project.as_deref());
                text::session_name(&place, row.title.as_deref()).unwrap_or_else(|| row.id.to_string())
            }
            Self::Agent(_, title) => title.clone(),
            Self::Text => text.to_owned(),
        }
    }

    /// What is typed to reach it; raw agent text.
    pub(crate) fn completion(&self, text: &str) -> String {
        match self {
            Self::Session(row) => row.title.as_deref().unwrap_or(&row.id).to_owned(),
            Self::Command(_) | Self::Agent(..) | Self::Text => self.name(text),
        }
    }
}

impl CommandPalette {
    /// The entries for the typed text: commands that begin with it, sessions, agents, other commands, and the full text.
    pub(crate) fn entries(&self, state: &UiState) -> Vec<PaletteEntry> {
        let text = self.text.trim().trim_start_matches(':').to_lowercase();
        let has = |words: &str| text.split_whitespace().all(|word| words.contains(word));
        let is_usable = |action: &Action| !matches!(action, Action::Palette);
        let (begin, others): (Vec<Action>, Vec<Action>) = KEYS
            .iter()
            .filter(|key| is_usable(&key.action) && has(&format!("{} {}", key.action.name(), key.help)))
            .map(|key| key.action)
            .partition(|action| action.name().starts_with(&text));
        let mut entries: Vec<PaletteEntry> = begin.into_iter().map(PaletteEntry::Command).collect();
        if !text.is_empty() {
            entries
                .extend(self.sessions(state, &text).map(|row| PaletteEntry::Session(Box::new(row.clone()))));
            entries.extend(self.agents(state, has));
        }
        entries.extend(others.into_iter().map(PaletteEntry::Command));
        if !text.is_empty() {
            entries.push(PaletteEntry::Text);
        }
        entries
    }

    /// Sessions of the list, then those that only the backend knows.
    fn sessions<'a>(&'a self, state: &'a UiState, text: &'a str) -> impl Iterator<Item = &'a SessionRow> {
        let listed = &state.sessions.rows;
        let is_listed = |id: &SessionId| listed.iter().any(|row| row.id == *id);
        let others = self.found.iter().filter(move |row| !is_listed(&row.id));
        listed.iter().chain(others).filter(|row| row.matches(text)).take(MAX_FOUND)
    }

    /// Agents of sessions that are shown or live, then those that only the backend knows.
    fn agents(&self, state: &UiState, has: impl Fn(&str) -> bool) -> Vec<PaletteEntry> {
        let mut entries = live_agents(state, &has);
        let fits = |name: &&AgentName| {
            has(&format!("{} {}", name.title.as_deref().unwrap_or_default(), name.agent_id).to_lowercase())
        };
        for AgentName { session_id, agent_id, title } in self.found_agents.iter().filter(fits) {
            let place = Place { session: session_id.clone(), agent: Some(agent_id.clone()) };
            let is_listed =
                |entry: &PaletteEntry| matches!(entry, PaletteEntry::Agent(listed, _) if *listed == place);
            if entries.len() < MAX_FOUND && !entries.iter().any(is_listed) {
                let of: String = session_id.chars().take(SHORT_ID).collect();
                let name = title.as_deref().unwrap_or(agent_id);
                entries.push(PaletteEntry::Agent(place, format!("{name} of {of}")));
            }
        }
        entries
    }
}

/// Agents of the selected session, then those of all sessions that are live.
fn live_agents(state: &UiState, has: impl Fn(&str) -> bool) -> Vec<PaletteEntry> {
    let selected = state.tree();
    let is_other = |tree: &&Tree| selected.is_none_or(|selected| selected.session.id != tree.session.id);
    let trees = selected.into_iter().chain(state.trees.subscribed().filter(is_other));
    let all = trees.flat_map(|tree| tree.agents.iter().map(move |agent| (tree, agent)));
    let is_found = |(_, agent): &(&Tree, &Agent)| {
        !agent.id.is_root() && (has(&agent.title().to_lowercase()) || has(&agent.id))
    };
    let entry = |(tree, agent): (&Tree, &Agent)| {
        let place = Place { session: tree.session.id.clone(), agent: Some(agent.id.clone()) };
        let of = tree.session.title.as_deref().filter(|_| is_other(&tree));
        PaletteEntry::Agent(
            place,
            of.map_or_else(|| agent.title(), |of| format!("{} of {of}", agent.title())),
        )
    };
    all.filter(is_found).take(MAX_FOUND).map(entry).collect()
}
