//! State of the UI as plain data. Only [`crate::update()`] changes it; drawing reads it.

pub(crate) mod alerts;
mod answer_form;
pub(crate) mod logs;
pub(crate) mod palette;
pub(crate) mod reports;
pub(crate) mod search;
pub(crate) mod select;
pub(crate) mod sessions;
pub(crate) mod time_travel;
pub(crate) mod trees;

use std::collections::{HashMap, HashSet};

use ratatui::layout::Rect;
use subscope_model::{
    Agent, AgentId, EventKind, Inbox, Looks, Millis, PermissionRequest, PermissionRequests, ReadingProgress,
    SessionId, Text, ToolStatus, ToolUseId, Tree,
};
use subscope_render::{Detail, Ink, TreeRow, text, timeline::Outline};

pub(crate) use self::answer_form::AnswerForm;
use self::{
    alerts::AlertLog,
    logs::{EventLog, EventLogs},
    palette::CommandPalette,
    reports::{Place, Reports, StatsRange},
    search::SearchResults,
    select::{Filter, Sort},
    sessions::SessionList,
    time_travel::TimeTravel,
    trees::Trees,
};
use crate::{
    ask::Question,
    log_entry::LogEntry,
    settings::{Settings, TreePanel},
    theme::Palette,
};

/// The UI's whole state.
#[derive(Debug)]
pub struct UiState {
    /// Current settings.
    pub settings: Settings,
    /// Columns and rows of the terminal.
    pub(crate) size: (u16, u16),
    /// Wall clock, milliseconds since 1970.
    pub(crate) now_ms: Millis,
    /// Monotonic clock in milliseconds.
    pub(crate) awake_ms: Millis,
    /// The view in the main panel.
    pub view: View,
    pub(crate) panel: Panel,
    /// Modal overlay; takes all keys.
    pub(crate) overlay: Option<Overlay>,
    pub(crate) sessions: SessionList,
    pub(crate) trees: Trees,
    pub(crate) logs: EventLogs,
    /// The selected agent, for each session in which one was selected.
    pub(crate) selected_agents: HashMap<SessionId, AgentId>,
    /// The selected call of the selected agent, if one of its calls is selected.
    pub(crate) selected_call: Option<CallKey>,
    pub(crate) folded: HashSet<(SessionId, AgentId)>,
    /// Agents whose calls have rows.
    pub(crate) unfolded: HashSet<(SessionId, AgentId)>,
    pub(crate) sort: Sort,
    pub(crate) filter: Filter,
    /// Rows of the displayed tree, after sorting, filtering and folding: agents, and calls of unfolded agents.
    pub(crate) rows: Vec<TreeRow>,
    /// Scroll positions and the feed's filters.
    pub(crate) reading: ReadingState,
    pub(crate) timeline_view: TimelineState,
    pub(crate) reports: Reports,
    /// Time travel in a session; `None` shows now.
    pub(crate) travel: Option<TimeTravel>,
    pub(crate) alerts: AlertLog,
    /// What needs the user, and what ended since the user looked.
    pub(crate) inbox: Inbox,
    /// What the user has seen, as the host last said.
    pub(crate) looks: Looks,
    /// When that was asked for, by the monotonic clock.
    pub(crate) looks_queried_ms: Option<Millis>,
    /// How far the host has read existing sessions, as it last said; `None` if it has read all.
    pub(crate) host_reading: Option<ReadingProgress>,
    /// When that was asked for, by the monotonic clock.
    pub(crate) host_reading_queried_ms: Option<Millis>,
    /// The permission requests that can be answered, as the host last said.
    pub(crate) permissions: Option<PermissionRequests>,
    /// When they were asked for, by the monotonic clock.
    pub(crate) permissions_queried_ms: Option<Millis>,
    /// Whether the terminal has reported that its user looks at another window.
    pub(crate) is_unfocused: bool,
    /// The current search and its hits.
    pub(crate) search: Search,
    /// Whether the selection follows the agent that acts.
    pub(crate) is_following: bool,
    pub(crate) notice: Option<StatusNotice>,
    /// Layout of the last frame.
    pub(crate) drawn: Drawn,
    /// Whether the feed has delivered its initial state.
    pub(crate) is_caught_up: bool,
    /// Whether the UI plays back a single session.
    pub(crate) is_replay: bool,
    /// Unanswered questions.
    pub(crate) pending_questions: Vec<Question>,
    /// Derived parts to rebuild before the next frame.
    pub(crate) dirty: Dirty,
}

/// Derived parts to rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    /// Whether a message may have changed what the last frame shows.
    pub(crate) screen: bool,
    pub(crate) sessions: bool,
    pub(crate) rows: bool,
    /// When to load the selected session (debounced), by the monotonic clock.
    pub(crate) load_at: Option<Millis>,
}

/// A view of the main panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All sessions: what each one needs, does and costs.
    Mission,
    /// Tree and selected agent.
    Agents,
    /// Agents on a time axis.
    Timeline,
    /// Events, a line each.
    Feed,
    /// Totals of the session.
    Summary,
    /// Statistics over all sessions.
    Stats,
    /// Two sessions or agents side by side.
    Compare,
    /// Recorded iterations of `run`.
    Iterations,
}

impl View {
    /// Whether it is about all sessions, and takes the whole width.
    pub(crate) fn is_overview(self) -> bool {
        self == Self::Mission || self.is_report()
    }

    /// Whether it is a list of lines with a cursor.
    pub(crate) fn is_report(self) -> bool {
        matches!(self, Self::Stats | Self::Compare | Self::Iterations)
    }
}

/// All views with their keys and titles, in the order of their keys.
pub(crate) const VIEWS: [(View, char, &str); 8] = [
    (View::Mission, '0', "Sessions"),
    (View::Agents, '1', "Agents"),
    (View::Timeline, '2', "Timeline"),
    (View::Feed, '3', "Feed"),
    (View::Summary, '4', "Summary"),
    (View::Stats, '5', "Stats"),
    (View::Compare, '6', "Compare"),
    (View::Iterations, '7', "Iterations"),
];

/// A panel that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panel {
    /// The list of sessions.
    Sessions,
    /// The current [`View`].
    Main,
    /// The selected agent.
    Detail,
}

/// A modal overlay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Overlay {
    /// Key help, scrolled to this line.
    Help(usize),
    /// Search prompt.
    Search { text: String, scope: SearchScope },
    /// Confirmation of a palette, which is in effect already; `before` is the one to go back to.
    Theme { before: Palette },
    /// Confirmation of a stop request.
    Stop { session: SessionId, agent: AgentId, title: String },
    /// A permission request, to read and to answer.
    Permission(Box<PermissionPrompt>),
    /// Results of a search of all stored text.
    Hits(Box<SearchResults>),
    /// Command palette.
    Palette(Box<CommandPalette>),
}

/// A permission request that is read and answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PermissionPrompt {
    pub(crate) request: PermissionRequest,
    /// First visible line; beyond the end means the end.
    pub(crate) from: usize,
    /// Whether its end was on the screen: only what is read can be allowed.
    pub(crate) is_read: bool,
    /// The reason of a refusal, while it is typed.
    pub(crate) reason: Option<String>,
    /// The answers to its questions.
    pub(crate) form: AnswerForm,
}

impl PermissionPrompt {
    /// Opens a request at its beginning.
    pub(crate) fn of(request: PermissionRequest) -> Self {
        Self { request, from: 0, is_read: false, reason: None, form: AnswerForm::default() }
    }
}

/// Where a search looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchScope {
    /// In the displayed list, tree or feed.
    Here,
    History,
}

/// Scroll positions, and the feed's filters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReadingState {
    /// Lines by which the detail panel is scrolled up from its end.
    pub(crate) up: usize,
    /// Id of the tool call to keep in view until the user scrolls.
    pub(crate) call: Option<Text>,
    pub(crate) scope: FeedScope,
    pub(crate) kinds: EventFilter,
    /// Text that shown events must contain; lower case, empty for all.
    pub(crate) text: String,
    /// Lines by which the feed is scrolled up from its end.
    pub(crate) feed_up: usize,
    /// Lines by which the summary is scrolled down.
    pub(crate) summary_down: usize,
}

choices! {
    /// Whose events the feed shows.
    #[derive(Default)]
    pub(crate) enum FeedScope {
        #[default]
        Session = "this session",
        Agent = "the selected agent",
        Everything = "all sessions",
    }
}

choices! {
    /// Which kinds of events the feed shows.
    #[derive(Default)]
    pub(crate) enum EventFilter {
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
pub(crate) struct TimelineState {
    /// Its outline; `None` if nothing has a time, or another view is open.
    pub(crate) outline: Option<Outline>,
    /// Zoom level: the scale is 2^zoom.
    pub(crate) zoom: u32,
    /// Left edge after panning; `None` keeps the end in view.
    pub(crate) from_ms: Option<Millis>,
}

/// A search in the displayed tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Search {
    /// Search text in lower case; empty for none.
    pub(crate) text: String,
    /// Indices of the rows that contain it, ascending.
    pub(crate) hits: Vec<usize>,
}

/// A call of a known agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallKey {
    Id(ToolUseId),
    /// Index in [`Agent::tools`] of a call without an id.
    Index(usize),
}

impl CallKey {
    pub(crate) fn of(agent: &Agent, call: usize) -> Self {
        let id = agent.tools.get(call).and_then(|call| call.id.clone());
        id.map_or(Self::Index(call), Self::Id)
    }

    /// The call's index in [`Agent::tools`].
    fn index(&self, agent: &Agent) -> Option<usize> {
        match self {
            Self::Id(id) => agent.tools.iter().position(|call| call.id.as_ref() == Some(id)),
            Self::Index(at) => Some(*at),
        }
    }
}

/// A temporary message in the footer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusNotice {
    /// Message; sanitized when drawn.
    pub(crate) text: String,
    pub(crate) ink: Ink,
    /// Expiry by the monotonic clock.
    pub(crate) until_ms: Millis,
}

/// Layout of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Mouse targets by area; where several overlap, the last one counts.
    pub(crate) mouse_targets: Vec<(Rect, MouseTarget)>,
    /// Index of the first visible session of the list, and of mission control.
    pub(crate) first_session: usize,
    pub(crate) first_mission: usize,
    /// Index of the first visible line of a report, number of its lines, and those that lead somewhere.
    pub(crate) first_line: usize,
    pub(crate) lines: usize,
    pub(crate) links: Vec<(usize, Place)>,
    /// Index of the first visible row of the tree or timeline.
    pub(crate) first_row: usize,
    /// Largest scroll offset of the detail panel, in lines.
    pub(crate) most_up: usize,
    /// Largest scroll offset of the feed, in lines.
    pub(crate) most_feed_up: usize,
    /// Largest scroll offset of the summary, in lines.
    pub(crate) most_down: usize,
    /// Rows per page of the focused list.
    pub(crate) page: usize,
    /// First visible line of the open permission request, and its id if its end is visible.
    pub(crate) permission_from: usize,
    pub(crate) read_permission: Option<Text>,
    /// Start of the time axis and milliseconds per column.
    pub(crate) axis: Option<(Millis, f64)>,
}

/// Something that can be clicked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MouseTarget {
    Panel(Panel),
    Session(SessionId),
    /// An agent's row.
    Agent(AgentId),
    /// A row of an agent's call.
    Call(AgentId, CallKey),
    /// A filter of agents.
    Filter(Filter),
    /// An event of an agent.
    Event(SessionId, AgentId),
    View(View),
    /// What a line of a report is about.
    Place(Place),
    /// A range of days.
    Range(StatsRange),
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
            selected_call: None,
            folded: HashSet::new(),
            unfolded: HashSet::new(),
            sort: Sort::default(),
            filter: Filter::default(),
            rows: Vec::new(),
            reading: ReadingState::default(),
            timeline_view: TimelineState::default(),
            reports: Reports::default(),
            travel: None,
            alerts: AlertLog::default(),
            inbox: Inbox::default(),
            looks: Looks::default(),
            looks_queried_ms: None,
            host_reading: None,
            host_reading_queried_ms: None,
            permissions: None,
            permissions_queried_ms: None,
            is_unfocused: false,
            search: Search::default(),
            is_following: false,
            notice: None,
            drawn: Drawn::default(),
            is_caught_up: false,
            is_replay: false,
            pending_questions: Vec::new(),
            dirty: Dirty { screen: true, sessions: true, rows: true, load_at: Some(awake_ms) },
        }
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.sessions.selected.as_ref()
    }

    /// Returns whether there is no session at all, live or past.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_caught_up && self.session().is_none() && self.sessions.rows.is_empty()
    }

    /// The time travel, if it is in the selected session.
    pub(crate) fn travel(&self) -> Option<&TimeTravel> {
        self.travel.as_ref().filter(|travel| Some(&travel.session) == self.session())
    }

    /// The selected session's tree at the displayed time.
    pub(crate) fn tree(&self) -> Option<&Tree> {
        match self.travel() {
            Some(travel) => travel.tree.as_ref(),
            None => self.trees.get(self.session()?),
        }
    }

    /// How long a frame stays true without a message: a second while something grows or is shown for a while, else a
    /// minute.
    pub(crate) fn redraw_ms(&self) -> Millis {
        let is_moving = !self.is_caught_up
            || self.notice.is_some()
            || self.alerts.shown(self.awake_ms).is_some()
            || self.trees.counts().live > 0
            || self.sessions.newest_ms.is_some_and(|at| self.now_ms - at < 60_000);
        if is_moving { 1_000 } else { 60_000 }
    }

    /// The displayed time: that of the time travel, else now.
    pub(crate) fn moment_ms(&self) -> Millis {
        self.travel().map_or(self.now_ms, |travel| travel.at_ms)
    }

    /// Formats the time of day in the displayed time zone.
    pub(crate) fn clock(&self, at_ms: Millis) -> String {
        text::clock(at_ms, self.settings.offset_minutes)
    }

    /// The selected session's log.
    pub(crate) fn log(&self) -> Option<&EventLog> {
        self.logs.get(self.session()?)
    }

    /// Id of the selected agent; the root if none was selected.
    pub(crate) fn agent_id(&self) -> Option<AgentId> {
        let selected_agents = self.selected_agents.get(self.session()?).cloned();
        Some(selected_agents.unwrap_or_else(|| AgentId::from(AgentId::ROOT)))
    }

    /// The selected agent.
    pub(crate) fn agent(&self) -> Option<&Agent> {
        let id = self.agent_id()?;
        self.tree()?.agents.iter().find(|agent| agent.id == id)
    }

    /// Index of the row of the selected call, if it has one, else of the selected agent's row.
    pub(crate) fn selected_row(&self) -> Option<usize> {
        let (tree, id) = (self.tree()?, self.agent_id()?);
        let at = tree.agents.iter().position(|agent| agent.id == id)?;
        let agent = &tree.agents[at];
        let own = self.rows.iter().position(|row| row.agent == at)?;
        let call = self.selected_call.as_ref().and_then(|call| call.index(agent));
        // Calls follow the row of their agent.
        let at = call.map(|call| own + 1 + call);
        Some(
            at.filter(|at| self.rows.get(*at).is_some_and(|row| row.call.is_some() && row.call == call))
                .unwrap_or(own),
        )
    }

    /// The call for which an agent waits for permission, with its whole arguments as far as known: by the request's
    /// event, else by that of the call, else by the row. Raw agent text.
    pub(crate) fn asked_call<'a>(&'a self, session: &SessionId, agent: &'a Agent) -> Option<&'a str> {
        let live = agent.liveness.as_ref().filter(|_| agent.waits_for_person())?;
        let name = live.name.as_deref().unwrap_or_default();
        let entries = self.logs.get(session).map(EventLog::entries).unwrap_or_default();
        let is_asking = |entry: &&LogEntry| {
            matches!(entry.kind, EventKind::PermissionRequest | EventKind::ToolPre)
                && entry.agent == agent.id
                && entry.words.contains(name)
        };
        let told = entries.iter().rev().find(is_asking).and_then(|entry| entry.body.as_deref());
        let open =
            || agent.tools.iter().rev().find(|call| call.status == ToolStatus::Open && *call.name == *name);
        told.or_else(|| open()?.detail.as_deref())
    }

    /// Whether the tree panel is visible.
    pub(crate) fn shows_tree(&self) -> bool {
        match self.settings.tree {
            _ if self.settings.detail == Detail::Off => false,
            TreePanel::Shown => true,
            TreePanel::Hidden => false,
            TreePanel::Auto => self.tree().is_none_or(|tree| tree.agents.len() > 1),
        }
    }

    /// Whether the session list fits next to the main panel.
    pub(crate) fn is_wide(&self) -> bool {
        self.size.0 >= 100
    }
}
