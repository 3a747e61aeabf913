//! Renders a session's agent tree as text, in four levels of detail.
//!
//! One line per agent with aligned columns; below it, by level of detail, activity, calls, task and result. `~` marks a
//! guess, `≥` a lower bound, `—` an unknown value.

mod columns;
mod details;

use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use subscope_model::{Agent, AgentId, Flag, Millis, Tree};

pub use self::{
    columns::short_model,
    details::{activity, call_mark, tool_words},
};
use self::{
    columns::{Cells, LEAST_LEFT, Layout},
    details::{Details, call_line, call_width},
};
use crate::{
    rows::{TreeRow, drawn_levels, rows},
    style::{Ink, Style, StyledLine},
    summary, text,
};

/// Level of detail; the values of the setting `subagent_tracing_detail`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Nothing.
    Off,
    /// One line per agent.
    Minimal,
    /// Also the current or last call, and one line of the result or error.
    #[default]
    Moderate,
    /// Also every call, the whole task and the whole result.
    Full,
}

/// An unknown level of detail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown level of detail {word:?}: allowed are off, minimal, moderate, full")]
pub struct DetailError {
    /// The word given.
    pub word: String,
}

impl Detail {
    /// All levels, from least to most.
    pub const ALL: [Self; 4] = [Self::Off, Self::Minimal, Self::Moderate, Self::Full];

    /// Returns the value as written in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Moderate => "moderate",
            Self::Full => "full",
        }
    }
}

impl FromStr for Detail {
    type Err = DetailError;

    fn from_str(word: &str) -> Result<Self, DetailError> {
        let known = Self::ALL.into_iter().find(|detail| detail.as_str() == word);
        known.ok_or_else(|| DetailError { word: word.to_owned() })
    }
}

/// Options of a rendered tree.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Level of detail.
    pub detail: Detail,
    /// Style of the output.
    pub style: Style,
    /// Current time; `None` shows running agents as of their last event.
    pub now: Option<Millis>,
    /// Render only this agent's subtree.
    pub agent: Option<AgentId>,
    /// Time zone of displayed times, in minutes east of UTC.
    pub offset_minutes: i32,
    /// Render a flat list without guides.
    pub flat: bool,
    /// Most calls (the latest) and most lines of a text shown per agent; `None` for all.
    pub most: Option<usize>,
}

/// Renders the tree and a summary; each line ends in a newline. Empty for [`Detail::Off`]; one line of error if the
/// requested agent does not exist.
pub fn render_tree(tree: &Tree, options: &TreeOptions) -> String {
    let style = &options.style;
    if options.detail == Detail::Off {
        return String::new();
    }
    let mut rows = rows(tree, options.agent.as_ref());
    if options.flat {
        rows.iter_mut().for_each(TreeRow::stand_alone);
    }
    if let (true, Some(id)) = (rows.is_empty(), &options.agent) {
        return format!("no agent {} in this session\n", style.one_line(id, 60));
    }
    let renderer = TreeRenderer::new(tree, &rows, options);
    let mut out = String::new();
    renderer.head().write(&mut out, style);
    for line in (0..rows.len()).flat_map(|at| renderer.lines(at)) {
        line.write(&mut out, style);
    }
    out.push('\n');
    match rows.first() {
        Some(top) if options.agent.is_some() => {
            out.push_str(&summary::of_rows(tree, &rows, top.agent, style))
        }
        _ => out.push_str(&summary::render_summary(tree, style)),
    }
    out
}

/// Returns the panel title of these agents, as they are counted: `Agent Tree (3 active)`, or `Agent Tree (5)` if none is
/// active.
fn panel_title<'a>(agents: impl Iterator<Item = &'a Agent>) -> String {
    let (mut all, mut active) = (0, 0);
    for agent in agents.filter(|agent| agent.is_counted()) {
        all += 1;
        active += usize::from(agent.status.is_live());
    }
    if active > 0 { format!("Agent Tree ({active} active)") } else { format!("Agent Tree ({all})") }
}

/// A laid-out tree, rendered row by row, so that a user interface can render only the visible part.
pub struct TreeRenderer<'a> {
    tree: &'a Tree,
    rows: &'a [TreeRow],
    options: &'a TreeOptions,
    layout: Layout,
    levels: usize,
}

impl<'a> TreeRenderer<'a> {
    /// Lays out rows of a tree; columns are aligned over all of them.
    pub fn new(tree: &'a Tree, rows: &'a [TreeRow], options: &'a TreeOptions) -> Self {
        let levels = drawn_levels(options.style.width);
        let own = rows.iter().filter(|row| row.call.is_none());
        let layout = Layout::of(own.map(|row| Cells::of(&tree.agents[row.agent], options)), &options.style);
        let mut renderer = Self { tree, rows, options, layout, levels };
        // On a wide terminal the columns stay near the text. The search ends with the first row that needs all the room.
        let room = renderer.layout.left;
        let mut widest = LEAST_LEFT;
        for row in rows {
            if widest >= room {
                break;
            }
            widest = widest.max(renderer.text_width(row));
        }
        renderer.layout.left = room.min(widest);
        renderer
    }

    /// Columns that a row's guides, icon and text need.
    fn text_width(&self, row: &TreeRow) -> usize {
        let agent = &self.tree.agents[row.agent];
        let own = match row.call.and_then(|call| agent.tools.get(call)) {
            Some(call) => call_width(call),
            None => Label::of(self.tree, agent, row, self.options).width(),
        };
        row.depth.min(self.levels) * 2 + 2 + own
    }

    /// Columns of the widest row.
    pub fn width(&self) -> usize {
        self.layout.width()
    }

    /// Renders the heading: panel title and column names.
    pub fn head(&self) -> StyledLine {
        let own = self.rows.iter().filter(|row| row.call.is_none());
        let title = panel_title(own.map(|row| &self.tree.agents[row.agent]));
        let mut line = StyledLine::default().with(None, &title);
        self.layout.header(&mut line);
        line
    }

    /// Renders a row by index: its own line, then its details. Empty for an index out of range.
    pub fn lines(&self, at: usize) -> Vec<StyledLine> {
        let Some(row) = self.rows.get(at) else { return Vec::new() };
        let agent = &self.tree.agents[row.agent];
        let (levels, layout, options) = (self.levels, &self.layout, self.options);
        if let Some(call) = row.call {
            let lead = StyledLine::default().with(None, &row.lead(levels, options.style.glyphs()));
            return agent
                .tools
                .get(call)
                .map(|call| call_line(lead, agent, call, layout, options))
                .into_iter()
                .collect();
        }
        let mut lines = vec![self.row(agent, row)];
        Details { agent, row, levels, layout, options }.write(&mut lines);
        lines
    }

    fn row(&self, agent: &Agent, row: &TreeRow) -> StyledLine {
        let style = &self.options.style;
        let ink = Ink::of(agent);
        let is_over = (ink == Ink::Done).then_some(ink);
        let mut line = StyledLine::default().with(None, &row.lead(self.levels, style.glyphs()));
        line.paint(ink, style.glyphs().agent(agent));
        line.push(" ");
        let room = self.layout.left.saturating_sub(line.width());
        Label::of(self.tree, agent, row, self.options).fit(&mut line, room, ink, style);
        self.layout.write(&mut line, &Cells::of(agent, self.options), is_over);
        line
    }
}

/// The text of an agent's row.
struct Label {
    /// `[type]`; `main` for the root.
    tag: String,
    /// Description of the task.
    description: String,
    /// Flags that mean trouble.
    troubles: String,
    /// The other flags.
    notes: String,
    /// Current activity, if it has no line of its own.
    activity: Option<(Ink, String)>,
    /// Whether the agent has ended: its troubles are over.
    is_over: bool,
}

/// Least columns of an activity; with less room it is omitted.
const LEAST_ACTIVITY: usize = 14;

/// Least columns of a description before the parts after it are truncated.
const LEAST_DESCRIPTION: usize = 24;

impl Label {
    fn of(tree: &Tree, agent: &Agent, row: &TreeRow, options: &TreeOptions) -> Self {
        let style = &options.style;
        let clean = |text: &str| style.one_line(text, style.width);
        let (kind, name) = (agent.agent_type.as_deref(), agent.name.as_deref());
        let description = agent.description.as_deref();
        let (tag, description) = if agent.id.is_root() {
            let title = description.or(tree.session.title.as_deref());
            (kind.map_or("main".to_owned(), clean), title.map_or_else(String::new, clean))
        } else {
            let tag = kind.or(name).map(|kind| format!("[{}]", clean(kind)));
            let words = agent.words();
            (tag.unwrap_or_default(), clean(words.as_deref().unwrap_or(&agent.id)))
        };
        // Troubles are marked with `!`, other flags with a dot.
        let mut troubles: Vec<&str> =
            agent.flags.iter().filter(|flag| is_trouble(**flag)).map(|flag| flag.as_str()).collect();
        if agent.waits_for_person() && options.detail == Detail::Minimal {
            // The activity may be omitted for lack of room; a permission request must be visible.
            troubles.insert(0, "permission");
        }
        let folded = format!("{} folded", row.folded);
        let mut notes: Vec<&str> = if row.folded > 0 { vec![&folded] } else { Vec::new() };
        notes.extend(agent.flags.iter().filter(|flag| !is_trouble(**flag)).map(|flag| flag.words()));
        if agent.background {
            notes.push("background");
        }
        let mark = |mark: &str, words: &[&str]| match words {
            [] => String::new(),
            words => format!("  {mark} {}", words.join(" ")),
        };
        let (troubles, notes) = (mark(style.glyphs().trouble, &troubles), mark(style.glyphs().dot, &notes));
        let activity = match options.detail {
            Detail::Minimal => activity(agent, options.now, style),
            Detail::Off | Detail::Moderate | Detail::Full => None,
        };
        let activity = activity.map(|(ink, words)| (ink, format!("  {} {words}", style.glyphs().current)));
        Self { tag, description, troubles, notes, activity, is_over: !agent.status.is_live() }
    }

    fn width(&self) -> usize {
        let activity = self.activity.as_ref().map_or("", |(_, words)| words);
        let gap = usize::from(!self.tag.is_empty());
        let parts = [&self.tag, &self.description, &self.troubles, &self.notes, activity];
        parts.map(text::width).iter().sum::<usize>() + gap
    }

    /// Appends the text within `room` columns. Troubles take precedence, then the start of the description.
    fn fit(&self, line: &mut StyledLine, room: usize, ink: Ink, style: &Style) {
        let over = (ink == Ink::Done).then_some(ink);
        let mark = style.glyphs().ellipsis;
        // The troubles begin with the permission only in a row with an activity.
        let asks = ink == Ink::Waiting && self.activity.is_some();
        let end = line.width() + room;
        let tag = style.one_line(&self.tag, room.saturating_sub(LEAST_DESCRIPTION).max(room / 2));
        line.paint(ink, &tag);
        if !tag.is_empty() && !self.description.is_empty() {
            line.push(" ");
        }
        let room = end.saturating_sub(line.width() + text::width(&self.troubles));
        let notes = text::width(&self.notes);
        let activity = self.activity.as_ref().map_or(0, |(_, words)| text::width(words));
        let least =
            notes + LEAST_DESCRIPTION.min(text::width(&self.description)) + LEAST_ACTIVITY.min(activity);
        // An activity that will be omitted leaves its room to the description.
        let tail = if room < least { notes } else { notes + activity };
        line.add(
            over,
            &style.one_line(&self.description, room.saturating_sub(tail).max(LEAST_DESCRIPTION).min(room)),
        );
        let cut = |line: &mut StyledLine, ink: Option<Ink>, words: &str| {
            line.add(ink, &text::truncate_with(words, end.saturating_sub(line.width()), mark));
        };
        let trouble = if self.is_over { Ink::Done } else { Ink::Stalled };
        cut(line, Some(if asks { ink } else { trouble }), &self.troubles);
        let room = end.saturating_sub(line.width());
        if let Some((ink, words)) =
            self.activity.as_ref().filter(|(_, words)| room >= LEAST_ACTIVITY.min(text::width(words)))
        {
            cut(line, Some(*ink), words);
        }
        cut(line, over, &self.notes);
    }
}

/// Whether a flag means trouble.
pub fn is_trouble(flag: Flag) -> bool {
    match flag {
        Flag::Stalled | Flag::Looping | Flag::Failing | Flag::Colliding => true,
        Flag::Stopping
        | Flag::Orphan
        | Flag::Warmup
        | Flag::Copied
        | Flag::Handoff
        | Flag::Inferred
        | Flag::Unheard => false,
    }
}

#[cfg(test)]
mod tests;
