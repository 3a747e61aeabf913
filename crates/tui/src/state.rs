//! State of the UI as plain data. Only [`crate::update()`] changes it; drawing reads it.

pub mod alerts;
pub mod logs;
pub mod select;
pub mod sessions;
pub mod time_travel;
pub mod trees;

use std::collections::{HashMap, HashSet};

use ratatui::layout::Rect;
use subscope_model::{Agent, AgentId, Millis, SearchHit, SessionId, Text, Tree};
use subscope_render::{Detail, Ink, Timeline, TreeRow, text};

use self::{
    alerts::AlertLog,
    logs::{EventLog, EventLogs},
    select::{Filter, Sort},
    sessions::SessionList,
    time_travel::TimeTravel,
    trees::Trees,
};
use crate::{
    ask::Question,
    settings::{Settings, TreePanel},
};

/// The UI's whole state.
#[derive(Debug)]
pub struct UiState {
    /// Current settings.
    pub settings: Settings,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Wall clock, milliseconds since 1970.
    pub now_ms: Millis,
    /// Monotonic clock in milliseconds.
    pub awake_ms: Millis,
    /// The view in the main panel.
    pub view: View,
    /// The focused panel.
    pub panel: Panel,
    /// Modal overlay; takes all keys.
    pub overlay: Option<Overlay>,
    /// The list of sessions.
    pub sessions: SessionList,
    /// Agent trees of sessions.
    pub trees: Trees,
    /// Event logs of sessions.
    pub logs: EventLogs,
    /// The selected agent, for each session in which one was selected.
    pub selected_agents: HashMap<SessionId, AgentId>,
    /// Folded branches.
    pub folded: HashSet<(SessionId, AgentId)>,
    /// The order of siblings.
    pub sort: Sort,
    /// The filter of agents.
    pub filter: Filter,
    /// Rows of the displayed tree, after sorting, filtering and folding.
    pub rows: Vec<TreeRow>,
    /// Scroll positions and the feed's filters.
    pub reading: ReadingState,
    /// State of the timeline view.
    pub timeline_view: TimelineState,
    /// Time travel in a session; `None` shows now.
    pub travel: Option<TimeTravel>,
    /// Recent alerts.
    pub alerts: AlertLog,
    /// The current search and its hits.
    pub search: Search,
    /// Whether the selection follows the agent that acts.
    pub is_following: bool,
    /// A temporary message in the footer.
    pub notice: Option<StatusNotice>,
    /// Layout of the last frame.
    pub drawn: Drawn,
    /// Whether the feed has delivered its initial state.
    pub is_caught_up: bool,
    /// Whether the UI plays back a single session.
    pub is_replay: bool,
    /// Unanswered questions.
    pub pending_questions: Vec<Question>,
    /// Derived parts to rebuild before the next frame.
    pub(crate) dirty: Dirty,
}

/// Derived parts to rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    /// The list of sessions.
    pub(crate) sessions: bool,
    /// The rows of the tree.
    pub(crate) rows: bool,
    /// When to load the selected session (debounced), by the monotonic clock.
    pub(crate) load_at: Option<Millis>,
}

choices! {
    /// A view of the main panel, with the title of its tab; in the order of their keys.
    pub enum View {
        /// Tree and selected agent.
        Agents = "Agents",
        /// Agents on a time axis.
        Timeline = "Timeline",
        /// Events, a line each.
        Feed = "Feed",
        /// Totals of the session.
        Summary = "Summary",
    }
}

/// A panel that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// The list of sessions.
    Sessions,
    /// The current [`View`].
    Main,
    /// The selected agent.
    Detail,
}

/// A modal overlay.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// Key help, scrolled to this line.
    Help(usize),
    /// Search prompt.
    Search {
        /// The text typed so far.
        text: String,
        /// Where to search.
        scope: SearchScope,
    },
    /// Confirmation of a stop request.
    Stop {
        /// The agent's session.
        session: SessionId,
        /// The agent.
        agent: AgentId,
        /// The agent's display name.
        title: String,
    },
    /// Results of a history search.
    Hits {
        /// The words searched for.
        words: String,
        /// Hits, newest first.
        hits: Vec<SearchHit>,
        /// Index of the selected hit.
        at: usize,
    },
}

/// Where a search looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchScope {
    /// In the displayed list, tree or feed.
    Here,
    /// In all stored sessions.
    History,
}

/// Scroll positions, and the feed's filters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadingState {
    /// Lines by which the detail panel is scrolled up from its end.
    pub up: usize,
    /// Id of the tool call to keep in view until the user scrolls.
    pub call: Option<Text>,
    /// Whose events the feed shows.
    pub scope: FeedScope,
    /// Which kinds of events the feed shows.
    pub kinds: EventFilter,
    /// Text that shown events must contain; lower case, empty for all.
    pub text: String,
    /// Lines by which the feed is scrolled up from its end.
    pub feed_up: usize,
    /// Lines by which the summary is scrolled down.
    pub summary_down: usize,
}

choices! {
    /// Whose events the feed shows.
    #[derive(Default)]
    pub enum FeedScope {
        /// Events of the selected session.
        #[default]
        Session = "this session",
        /// Events of the selected agent.
        Agent = "the selected agent",
        /// Events of all sessions.
        Everything = "all sessions",
    }
}

choices! {
    /// Which kinds of events the feed shows.
    #[derive(Default)]
    pub enum EventFilter {
        /// All kinds.
        #[default]
        All = "everything",
        /// Tool calls, results and permissions.
        Tools = "tool calls",
        /// Messages, prompts and reasoning.
        Words = "what was said",
        /// Starts, ends, stalls, retries and waits.
        States = "beginnings, ends and waits",
        /// Failures, denials, stalls, retries and problems.
        Troubles = "what went wrong",
    }
}

/// State of the timeline view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineState {
    /// Lanes; `None` if nothing has a time, or another view is open.
    pub timeline: Option<Timeline>,
    /// Zoom level: the scale is 2^zoom.
    pub zoom: u32,
    /// Left edge after panning; `None` keeps the end in view.
    pub from_ms: Option<Millis>,
}

/// A search in the displayed tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// Search text in lower case; empty for none.
    pub text: String,
    /// Agents that contain it, in tree order.
    pub hits: Vec<AgentId>,
}

/// A temporary message in the footer.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusNotice {
    /// Message; sanitised when drawn.
    pub text: String,
    /// Colour.
    pub ink: Ink,
    /// Expiry by the monotonic clock.
    pub until_ms: Millis,
}

/// Layout of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Mouse targets by area; where several overlap, the last one counts.
    pub mouse_targets: Vec<(Rect, MouseTarget)>,
    /// Index of the first visible session.
    pub first_session: usize,
    /// Index of the first visible row of the tree or timeline.
    pub first_row: usize,
    /// Scroll range of the detail panel.
    pub detail: ScrollRange,
    /// Scroll range of the feed.
    pub feed: ScrollRange,
    /// Scroll range of the summary.
    pub summary: ScrollRange,
    /// Rows per page of the focused list.
    pub page: usize,
    /// Start of the time axis and milliseconds per column.
    pub axis: Option<(Millis, f64)>,
}

/// Scroll range of a panel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrollRange {
    /// Largest scroll offset in lines.
    pub most: usize,
    /// Visible lines.
    pub height: usize,
}

/// Something that can be clicked.
#[derive(Clone, Debug, PartialEq)]
pub enum MouseTarget {
    /// A panel.
    Panel(Panel),
    /// A session in the list.
    Session(SessionId),
    /// An agent's row.
    Agent(AgentId),
    /// An event of an agent.
    Event(SessionId, AgentId),
    /// The tab of a view.
    View(View),
    /// The time slider.
    Slider,
}

impl UiState {
    /// Creates the state of a UI without sessions.
    pub fn new(settings: Settings, size: (u16, u16), now_ms: Millis, awake_ms: Millis) -> Self {
        Self {
            settings,
            size,
            now_ms,
            awake_ms,
            view: View::Agents,
            panel: Panel::Main,
            overlay: None,
            sessions: SessionList::default(),
            trees: Trees::default(),
            logs: EventLogs::default(),
            selected_agents: HashMap::new(),
            folded: HashSet::new(),
            sort: Sort::default(),
            filter: Filter::default(),
            rows: Vec::new(),
            reading: ReadingState::default(),
            timeline_view: TimelineState::default(),
            travel: None,
            alerts: AlertLog::default(),
            search: Search::default(),
            is_following: false,
            notice: None,
            drawn: Drawn::default(),
            is_caught_up: false,
            is_replay: false,
            pending_questions: Vec::new(),
            dirty: Dirty { sessions: true, rows: true, load_at: Some(awake_ms) },
        }
    }

    /// The selected session.
    pub fn session(&self) -> Option<&SessionId> {
        self.sessions.selected.as_ref()
    }

    /// The time travel, if it is in the selected session.
    pub fn travel(&self) -> Option<&TimeTravel> {
        self.travel.as_ref().filter(|travel| Some(&travel.session) == self.session())
    }

    /// The selected session's tree at the displayed time.
    pub fn tree(&self) -> Option<&Tree> {
        match self.travel() {
            Some(travel) => travel.tree.as_ref(),
            None => self.trees.get(self.session()?),
        }
    }

    /// The displayed time: that of the time travel, else now.
    pub fn moment_ms(&self) -> Millis {
        self.travel().map_or(self.now_ms, |travel| travel.at_ms)
    }

    /// Formats the time of day in the displayed time zone.
    pub fn clock(&self, at_ms: Millis) -> String {
        text::clock(at_ms, self.settings.offset_minutes)
    }

    /// The selected session's log.
    pub fn log(&self) -> Option<&EventLog> {
        self.logs.get(self.session()?)
    }

    /// Id of the selected agent; the root if none was selected.
    pub fn agent_id(&self) -> Option<AgentId> {
        let selected_agents = self.selected_agents.get(self.session()?).cloned();
        Some(selected_agents.unwrap_or_else(|| AgentId::from(AgentId::ROOT)))
    }

    /// The selected agent.
    pub fn agent(&self) -> Option<&Agent> {
        let id = self.agent_id()?;
        self.tree()?.agents.iter().find(|agent| agent.id == id)
    }

    /// Index of the selected agent's row.
    pub fn selected_row(&self) -> Option<usize> {
        let (tree, id) = (self.tree()?, self.agent_id()?);
        self.rows.iter().position(|row| tree.agents.get(row.agent).is_some_and(|agent| agent.id == id))
    }

    /// Whether the tree panel is visible.
    pub fn shows_tree(&self) -> bool {
        match self.settings.tree {
            _ if self.settings.detail == Detail::Off => false,
            TreePanel::Shown => true,
            TreePanel::Hidden => false,
            TreePanel::Auto => self.tree().is_none_or(|tree| tree.agents.len() > 1),
        }
    }

    /// Whether the session list fits next to the main panel.
    pub fn is_wide(&self) -> bool {
        self.size.0 >= 100
    }
}
