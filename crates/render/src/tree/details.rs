//! Detail lines below an agent's row: activity, calls, task, result.

use subscope_model::{
    Agent, AgentStatus, EndEvidence, LivenessKind, Millis, Payload, RawJson, ToolCall, ToolStatus,
};

use super::{Detail, TreeOptions, columns::Layout};
use crate::{
    rows::TreeRow,
    safe,
    style::{Ink, Style, StyledLine},
    text,
};

/// A wait for the model is shown with its duration from here on: shorter ones come and go with each call.
const SHORT_WAIT_MS: Millis = 3_000;

/// Most columns of a tool name with its detail.
const WORDS_WIDTH: usize = 60;

/// Describes the activity of a live agent with its duration and color: `Read server.js · 3s`, `waits for permission
/// Bash · 40s`, `waits for the model · 31s · retry 4/10: overloaded`. `~` marks an inferred or guessed one. `None` for
/// an ended agent or an unknown activity.
pub fn activity(agent: &Agent, now: Option<Millis>, style: &Style) -> Option<(Ink, String)> {
    let live = agent.liveness.as_ref().filter(|_| agent.status.is_live())?;
    let dot = style.glyphs().dot;
    let name = live.name.as_deref().map(|name| style.one_line(name, WORDS_WIDTH));
    let name = name.as_deref().unwrap_or_default();
    let lasts = live.since_ms.zip(now).map(|(since, now)| now.saturating_sub(since));
    let lasts = lasts.filter(|lasts| live.kind != LivenessKind::Model || *lasts >= SHORT_WAIT_MS);
    let since = lasts.map(|lasts| text::duration(Some(lasts)));
    let since = since.map_or_else(String::new, |since| format!(" {dot} {since}"));
    let mut is_guess = live.inferred;
    let words = match live.kind {
        LivenessKind::Model => format!("waits for the model{since}"),
        LivenessKind::Permission => format!("waits for permission {name}").trim_end().to_owned() + &since,
        LivenessKind::Question => format!("waits for an answer to its question{since}"),
        LivenessKind::Plan => format!("waits for a decision about its plan{since}"),
        LivenessKind::Idle => format!("idle{since}"),
        LivenessKind::Children => match live.count {
            Some(0) => format!("waits for subagents that are lost{since}"),
            Some(1) => format!("waits for 1 subagent{since}"),
            Some(count) => format!("waits for {count} subagents{since}"),
            None => format!("waits for its subagents{since}"),
        },
        LivenessKind::Retry => {
            let attempt = live.count.map_or_else(String::new, |count| format!(" {count}"));
            let limit = live.limit.map_or_else(String::new, |limit| format!("/{limit}"));
            let cause = if name.is_empty() { String::new() } else { format!(": {name}") };
            format!("waits for the model{since} {dot} retry{attempt}{limit}{cause}")
        }
        LivenessKind::Tool => {
            let open = || agent.tools.iter().rev().filter(|call| call.status == ToolStatus::Open);
            let call =
                open().find(|call| live.name.as_deref() == Some(&*call.name)).or_else(|| open().next());
            is_guess |= call.is_some_and(|call| call.basis.is_guess());
            let words = call.map_or_else(|| name.to_owned(), |call| tool_words(call, style));
            let more = match agent.open_tools {
                0 | 1 => String::new(),
                open => format!(" {dot} +{} more", open - 1),
            };
            format!("{words}{since}{more}")
        }
    };
    Some((Ink::of(agent), if is_guess { format!("~{words}") } else { words }))
}

/// Describes a call by tool name and detail: `Read server.js`.
pub fn tool_words(call: &ToolCall, style: &Style) -> String {
    let words = match &call.detail {
        Some(detail) => format!("{} {detail}", call.name),
        None => call.name.to_string(),
    };
    style.one_line(&words, WORDS_WIDTH)
}

/// Most lines shown of each call's output, unless one agent is shown.
const OUTPUT_LINES: usize = 5;
/// Prefix of the first line of an output.
const OUTPUT_INDENT: &str = " ";

/// Renders the detail lines of one agent.
pub(super) struct Details<'a> {
    pub(super) agent: &'a Agent,
    pub(super) row: &'a TreeRow,
    pub(super) levels: usize,
    pub(super) layout: &'a Layout,
    pub(super) options: &'a TreeOptions,
}

impl Details<'_> {
    /// Appends the lines of the level of detail.
    pub(super) fn write(&self, out: &mut Vec<StyledLine>) {
        match self.options.detail {
            Detail::Off | Detail::Minimal => {}
            Detail::Moderate => {
                if !self.write_activity(out) && !self.row.has_calls {
                    self.write_last_call(out);
                }
                self.write_ending(out);
            }
            Detail::Full => {
                self.write_facts(out);
                if let Some(prompt) = &self.agent.prompt {
                    self.write_text(out, "task", None, prompt);
                }
                let calls = self.agent.tools.len();
                let most = if self.row.has_calls { Some(0) } else { self.options.most };
                let earlier = most.map_or(0, |most| calls.saturating_sub(most));
                if earlier > 0 && !self.row.has_calls {
                    self.write_left_out(out, &text::plural(earlier, "earlier call"));
                }
                for call in self.agent.tools.iter().skip(earlier) {
                    out.push(call_line(self.line(), self.agent, call, self.layout, self.options));
                    self.write_output(out, call);
                }
                // An open call is listed already.
                let is_listed = self.agent.tools.iter().any(|call| call.status == ToolStatus::Open);
                let runs_tool =
                    self.agent.liveness.as_ref().is_some_and(|live| live.kind == LivenessKind::Tool);
                if !(is_listed && runs_tool) {
                    self.write_activity(out);
                }
                match (&self.agent.error, &self.agent.result) {
                    (Some(error), _) => self.write_text(out, "error", Some(Ink::Failed), error),
                    (None, Some(result)) => self.write_text(out, "result", None, result),
                    (None, None) => {}
                }
            }
        }
    }

    fn line(&self) -> StyledLine {
        StyledLine::default().with(None, &self.row.lead_below(self.levels, self.options.style.glyphs()))
    }

    /// The color of all text of an ended agent.
    fn over(&self) -> Option<Ink> {
        Some(Ink::of(self.agent)).filter(|ink| *ink == Ink::Done)
    }

    fn room(&self) -> usize {
        self.options.style.width.saturating_sub(self.line().width())
    }

    fn write_activity(&self, out: &mut Vec<StyledLine>) -> bool {
        let style = &self.options.style;
        let Some((ink, words)) = activity(self.agent, self.options.now, style) else { return false };
        out.push(self.line().with(Some(ink), &format!("{} {words}", style.glyphs().current)));
        true
    }

    fn write_last_call(&self, out: &mut Vec<StyledLine>) {
        let style = &self.options.style;
        let Some(call) = self.agent.tools.last() else { return };
        let (mark, ink) = call_mark(self.agent, call.status, style);
        let span = span_of(call).map_or_else(String::new, |span| format!(" {} {span}", style.glyphs().dot));
        let words = format!("{mark} {}{}{span}", guess_mark(call), tool_words(call, style));
        out.push(self.line().with(Some(ink), &words));
    }

    /// Appends the output of a call, if it is at hand.
    fn write_output(&self, out: &mut Vec<StyledLine>, call: &ToolCall) {
        let Some(Payload::Inline(json)) = call.result.as_deref() else { return };
        let (_, ink) = call_mark(self.agent, call.status, &self.options.style);
        // Of one agent, all is shown.
        let most = if self.options.agent.is_some() { usize::MAX } else { OUTPUT_LINES };
        let output = RawJson { json, offset: 0 }.text();
        let ink = (ink == Ink::Failed).then_some(ink);
        self.write_lines(out, OUTPUT_INDENT, ink, &output, self.options.most.unwrap_or(most));
    }

    /// Appends one line about the agent's end: error, evidence, or result.
    fn write_ending(&self, out: &mut Vec<StyledLine>) {
        let style = &self.options.style;
        let agent = self.agent;
        let (ink, words) = match (agent.status, &agent.error, &agent.evidence, &agent.result) {
            (_, Some(error), ..) => (Ink::Failed, format!("{} {error}", style.glyphs().failed)),
            (AgentStatus::Lost, None, Some(evidence), _) => {
                let why = Some(evidence).filter(|why| ***why != *EndEvidence::Lost.as_str());
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                (Ink::Stalled, format!("no ending seen{why}"))
            }
            (AgentStatus::Failed, None, Some(evidence), _) => (Ink::Failed, format!("failed: {evidence}")),
            (AgentStatus::Stopped, None, Some(evidence), None) => (Ink::Done, format!("stopped: {evidence}")),
            (_, None, _, Some(result)) => {
                let (open, close) = (style.glyphs().open_quote, style.glyphs().close_quote);
                let room = self.room().saturating_sub(2);
                (Ink::of(agent), format!("{open}{}{close}", style.one_line(result, room)))
            }
            (_, None, _, None) => return,
        };
        out.push(self.line().with(Some(ink), &style.one_line(&words, self.room())));
    }

    fn write_facts(&self, out: &mut Vec<StyledLine>) {
        let style = &self.options.style;
        let agent = self.agent;
        let mut facts = vec![format!("id {}", style.one_line(&agent.id, WORDS_WIDTH))];
        if let Some(start) = agent.started_at_ms {
            facts.push(format!("started {}", text::clock(start, self.options.offset_minutes)));
        }
        if let Some(evidence) = agent.evidence.as_deref().filter(|_| !agent.status.is_live()) {
            facts.push(format!("{}: {}", agent.status.as_str(), style.one_line(evidence, WORDS_WIDTH)));
        }
        out.push(self.line().with(self.over(), &facts.join(&format!(" {} ", style.glyphs().dot))));
    }

    /// Appends a text with a label, wrapped and indented.
    fn write_text(&self, out: &mut Vec<StyledLine>, name: &str, ink: Option<Ink>, body: &str) {
        self.write_lines(out, name, ink, body, self.options.most.unwrap_or(usize::MAX));
    }

    /// Appends at most `shown` lines of a text with a label.
    fn write_lines(&self, out: &mut Vec<StyledLine>, name: &str, ink: Option<Ink>, body: &str, shown: usize) {
        let style = &self.options.style;
        let ink = ink.or(self.over());
        let body = safe::lines(body.trim(), style.charset());
        let indent = name.len() + 1;
        let pieces = text::wrap(&body, self.room().saturating_sub(indent));
        for (at, piece) in pieces.iter().take(shown).enumerate() {
            let head = if at == 0 { name } else { "" };
            let gap = " ".repeat(indent - head.len());
            out.push(self.line().with(ink, head).with(None, &gap).with(ink, piece));
        }
        if let more @ 1.. = pieces.len().saturating_sub(shown) {
            self.write_left_out(out, &text::plural(more, "more line"));
        }
    }

    fn write_left_out(&self, out: &mut Vec<StyledLine>, what: &str) {
        let words = format!("{} {what}", self.options.style.glyphs().ellipsis);
        out.push(self.line().with(Some(Ink::Done), &words));
    }
}

/// Appends a call to `line`: icon, tool, detail, and in the time column its duration.
pub(super) fn call_line(
    mut line: StyledLine,
    agent: &Agent,
    call: &ToolCall,
    layout: &Layout,
    options: &TreeOptions,
) -> StyledLine {
    let style = &options.style;
    let (mark, ink) = call_mark(agent, call.status, style);
    line.paint(ink, mark);
    line.push(" ");
    let room = layout.left.saturating_sub(line.width());
    let words = format!("{}{}", guess_mark(call), tool_words(call, style));
    let over = Some(ink).filter(|ink| *ink == Ink::Done);
    line.add(over, &text::truncate_with(&words, room, style.glyphs().ellipsis));
    let is_running = call.status == ToolStatus::Open && agent.status.is_live();
    let running = || call.started_at_ms.zip(options.now).filter(|_| is_running);
    let running = || Some(text::duration(running().map(|(start, now)| now.saturating_sub(start))));
    layout.write_time(&mut line, over, &span_of(call).or_else(running).unwrap_or_default());
    line
}

/// Columns that the words of a call take, at most.
pub(super) fn call_width(call: &ToolCall) -> usize {
    let detail = call.detail.as_deref().map_or(0, |detail| text::width(detail) + 1);
    (text::width(&call.name) + detail).min(WORDS_WIDTH) + guess_mark(call).len()
}

/// Returns icon and color of a call. An open call of an ended agent counts as lost.
pub fn call_mark(agent: &Agent, status: ToolStatus, style: &Style) -> (&'static str, Ink) {
    let glyphs = style.glyphs();
    match status {
        ToolStatus::Ok => (glyphs.completed, Ink::Done),
        ToolStatus::Error => (glyphs.failed, Ink::Failed),
        ToolStatus::Denied => (glyphs.denied, Ink::Stalled),
        ToolStatus::Open if agent.status.is_live() => (glyphs.current, Ink::of(agent)),
        ToolStatus::Open => (glyphs.lost, Ink::Stalled),
    }
}

fn guess_mark(call: &ToolCall) -> &'static str {
    if call.basis.is_guess() { "~" } else { "" }
}

fn span_of(call: &ToolCall) -> Option<String> {
    Some(text::duration(Some(call.ended_at_ms?.saturating_sub(call.started_at_ms?))))
}
