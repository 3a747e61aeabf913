//! What the UI knows and shows, as plain data. Only [`crate::update()`] changes it; drawing reads it.

pub mod alerts;
pub mod logs;
pub mod select;
pub mod sessions;
pub mod time_travel;
pub mod trees;

use std::collections::{HashMap, HashSet};

use ratatui::layout::Rect;
use subscope_model::{Agent, AgentId, Found, Millis, SessionId, Text, Tree};
use subscope_render::{Detail, Ink, Row, Timeline};

use self::{
    alerts::Alerts,
    logs::{Log, Logs},
    select::{Filter, Sort},
    sessions::Sessions,
    time_travel::Travel,
    trees::Trees,
};
use crate::{
    ask::Question,
    settings::{Settings, TreePanel},
};

/// Everything.
#[derive(Debug)]
pub struct State {
    /// How it looks and behaves.
    pub settings: Settings,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The time it is.
    pub now_ms: Millis,
    /// A clock that never steps.
    pub awake_ms: Millis,
    /// What fills the main part.
    pub view: View,
    /// Where keys go.
    pub panel: Panel,
    /// What lies over everything and takes all keys.
    pub overlay: Option<Overlay>,
    /// The list of sessions.
    pub sessions: Sessions,
    /// Sessions' rows.
    pub trees: Trees,
    /// What happened.
    pub logs: Logs,
    /// The selected agent of each session that one was selected in.
    pub chosen: HashMap<SessionId, AgentId>,
    /// Branches that are folded.
    pub folded: HashSet<(SessionId, AgentId)>,
    /// The order of siblings.
    pub sort: Sort,
    /// Which agents are shown.
    pub filter: Filter,
    /// The rows of the tree that is shown, after order, filter and folds.
    pub rows: Vec<Row>,
    /// What the detail panel and the feed show.
    pub reading: Reading,
    /// The picture against the wall clock; kept while that view is open.
    pub waterfall: Waterfall,
    /// Where in time a session is looked at; `None` is now.
    pub travel: Option<Travel>,
    /// What somebody should look at.
    pub alerts: Alerts,
    /// What was looked for, and the agents that have it.
    pub search: Search,
    /// Whether the selection goes along with whoever does something.
    pub is_following: bool,
    /// A line for the person, and until when it stands.
    pub notice: Option<Notice>,
    /// What was drawn where, as of the last frame.
    pub drawn: Drawn,
    /// Whether what stood in the sources at first is known.
    pub is_caught_up: bool,
    /// Whether only one session is looked at, which is played back.
    pub is_replay: bool,
    /// Questions that are not answered yet.
    pub asked: Vec<Question>,
    /// What has to be made anew before the next frame.
    pub(crate) dirty: Dirty,
}

/// What is to be made anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    /// The list of sessions.
    pub(crate) sessions: bool,
    /// The rows of the tree.
    pub(crate) rows: bool,
    /// When questions about the selected session are due, by the clock that never steps.
    pub(crate) settles_at: Option<Millis>,
}

/// What fills the main part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The tree, and the selected agent.
    Agents,
    /// Everybody against the wall clock.
    Timeline,
    /// Everything that happens.
    Feed,
    /// Figures.
    Summary,
}

impl View {
    /// Every view in the order of its keys.
    pub const ALL: [Self; 4] = [Self::Agents, Self::Timeline, Self::Feed, Self::Summary];

    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Agents => "Agents",
            Self::Timeline => "Timeline",
            Self::Feed => "Feed",
            Self::Summary => "Summary",
        }
    }
}

/// A part of the screen that keys can go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// The list of sessions.
    Sessions,
    /// The tree, the timeline, the feed or the figures.
    Main,
    /// The selected agent.
    Detail,
}

/// What lies over everything.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// The keys, from that line on.
    Help(usize),
    /// Words to look for.
    Search {
        /// As typed so far.
        text: String,
        /// In everything that is kept, or here.
        reach: Reach,
    },
    /// Whether to stop that agent.
    Stop {
        /// Its session.
        session: SessionId,
        /// The agent.
        agent: AgentId,
        /// What people call it.
        title: String,
    },
    /// What was found in everything that is kept.
    Hits {
        /// The words.
        words: String,
        /// The newest first.
        hits: Vec<Found>,
        /// The selected one.
        at: usize,
    },
}

/// Where is looked for words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In what is shown.
    Here,
    /// In everything that is kept.
    History,
}

/// What the detail panel and the feed show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Lines that the detail panel is scrolled up from its end.
    pub up: usize,
    /// The call that the detail panel is to show, until somebody scrolls.
    pub call: Option<Text>,
    /// Whose events the feed shows.
    pub scope: Scope,
    /// Which kinds.
    pub kinds: Kinds,
    /// Only those with this text; in lower case, empty for all.
    pub text: String,
    /// Lines that the feed is scrolled up from its end.
    pub feed_up: usize,
    /// Lines that the summary is scrolled down.
    pub summary_down: usize,
}

/// Whose events the feed shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The selected session's.
    #[default]
    Session,
    /// The selected agent's.
    Agent,
    /// Everybody's.
    Everything,
}

/// Which kinds of events the feed shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kinds {
    /// All.
    #[default]
    All,
    /// Calls and their results.
    Tools,
    /// What somebody said.
    Words,
    /// Beginnings, ends, waits.
    States,
    /// What went wrong.
    Troubles,
}

/// The picture against the wall clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waterfall {
    /// The lanes; `None` where nothing has a time.
    pub timeline: Option<Timeline>,
    /// Twice as close for each step.
    pub zoom: u32,
    /// The left edge, where somebody moved it; else the end is in view.
    pub from_ms: Option<Millis>,
}

/// What was looked for here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// The text, in lower case; empty for none.
    pub text: String,
    /// The agents that have it, in the order of the tree.
    pub hits: Vec<AgentId>,
}

/// A line for the person.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// What it says, safe or not.
    pub text: String,
    /// Its colour.
    pub ink: Ink,
    /// Until when it stands, by the clock that never steps.
    pub until_ms: Millis,
}

/// What was drawn where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Places that a mouse can mean; of several the last one counts.
    pub spots: Vec<(Rect, Spot)>,
    /// The first session in sight.
    pub first_session: usize,
    /// The first row of the tree or the timeline in sight.
    pub first_row: usize,
    /// How far the detail panel can be scrolled up, and its height.
    pub detail: Extent,
    /// How far the feed can be scrolled up, and its height.
    pub feed: Extent,
    /// How far the summary can be scrolled down, and its height.
    pub summary: Extent,
    /// Rows that a page of the list in focus has.
    pub page: usize,
    /// The time axis: where it begins and how much time a column is.
    pub axis: Option<(Millis, f64)>,
}

/// How far something can be scrolled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Lines at most.
    pub most: usize,
    /// Lines in sight.
    pub height: usize,
}

/// What a mouse can mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Spot {
    /// A panel.
    Panel(Panel),
    /// A session in the list.
    Session(SessionId),
    /// An agent's row.
    Agent(AgentId),
    /// An event of an agent.
    LogEntry(SessionId, AgentId),
    /// The name of a view.
    View(View),
    /// The slider.
    Slider,
}

impl State {
    /// Nothing known yet.
    pub fn new(settings: Settings, size: (u16, u16), now_ms: Millis, awake_ms: Millis) -> Self {
        Self {
            settings,
            size,
            now_ms,
            awake_ms,
            view: View::Agents,
            panel: Panel::Main,
            overlay: None,
            sessions: Sessions::default(),
            trees: Trees::default(),
            logs: Logs::default(),
            chosen: HashMap::new(),
            folded: HashSet::new(),
            sort: Sort::default(),
            filter: Filter::default(),
            rows: Vec::new(),
            reading: Reading::default(),
            waterfall: Waterfall::default(),
            travel: None,
            alerts: Alerts::default(),
            search: Search::default(),
            is_following: false,
            notice: None,
            drawn: Drawn::default(),
            is_caught_up: false,
            is_replay: false,
            asked: Vec::new(),
            dirty: Dirty { sessions: true, rows: true, settles_at: Some(awake_ms) },
        }
    }

    /// The selected session.
    pub fn session(&self) -> Option<&SessionId> {
        self.sessions.selected.as_ref()
    }

    /// The time travel, where the selected session is looked at in another time.
    pub fn travel(&self) -> Option<&Travel> {
        self.travel.as_ref().filter(|travel| Some(&travel.session) == self.session())
    }

    /// The selected session's rows, of the moment that is looked at.
    pub fn tree(&self) -> Option<&Tree> {
        match self.travel() {
            Some(travel) => travel.tree.as_ref(),
            None => self.trees.get(self.session()?),
        }
    }

    /// The moment that is looked at.
    pub fn moment_ms(&self) -> Millis {
        self.travel().map_or(self.now_ms, |travel| travel.at_ms)
    }

    /// The selected session's log.
    pub fn log(&self) -> Option<&Log> {
        self.logs.of(self.session()?)
    }

    /// The id of the selected agent: the root where none was selected.
    pub fn agent_id(&self) -> Option<AgentId> {
        let chosen = self.chosen.get(self.session()?).cloned();
        Some(chosen.unwrap_or_else(|| AgentId::from(AgentId::ROOT)))
    }

    /// The selected agent.
    pub fn agent(&self) -> Option<&Agent> {
        let id = self.agent_id()?;
        self.tree()?.agents.iter().find(|agent| agent.id == id)
    }

    /// The place of the selected agent among the rows.
    pub fn row_at(&self) -> Option<usize> {
        let (tree, id) = (self.tree()?, self.agent_id()?);
        self.rows.iter().position(|row| tree.agents.get(row.agent).is_some_and(|agent| agent.id == id))
    }

    /// Whether the panel with the tree is there.
    pub fn shows_tree(&self) -> bool {
        match self.settings.tree {
            _ if self.settings.detail == Detail::Off => false,
            TreePanel::Shown => true,
            TreePanel::Hidden => false,
            TreePanel::Auto => self.tree().is_none_or(|tree| tree.agents.len() > 1),
        }
    }

    /// Whether there is room for the list of sessions beside everything else.
    pub fn is_wide(&self) -> bool {
        self.size.0 >= 100
    }
}
