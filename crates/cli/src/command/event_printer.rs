//! What a feed tells, printed block by block: by `watch` on stdout, by `run` beside what its command prints.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use subscope_hub::{clock, heartbeat};
use subscope_model::{Agent, AgentId, Change, Event, EventKind, SessionId, Tree, Update, feed_line};
use subscope_render::{BlockOptions, Blocks, activity, safe, text};

use super::run::printer::{Printer, Weight};
use crate::{
    context::{Chattiness, Context},
    error::CliError,
    output,
};

/// In which form, and from when on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Events as JSON instead of blocks.
    pub(crate) is_json: bool,
    /// Results to their end.
    pub(crate) full: bool,
    /// Whether what happened before counts.
    pub(crate) shows_past: bool,
}

/// Where it is printed.
#[derive(Debug)]
pub(crate) enum Out {
    /// On stdout, and whoever reads it is waited for.
    Stdout,
    /// By a printer that makes nobody wait.
    Printer(Printer),
}

impl Out {
    fn text(&self, block: String, weight: Weight) -> Result<(), CliError> {
        match self {
            Self::Stdout => output::print(&block),
            Self::Printer(printer) => {
                printer.push(block, weight);
                Ok(())
            }
        }
    }

    fn json(&self, lines: &str, weight: Weight) -> Result<(), CliError> {
        match self {
            Self::Stdout => output::print_lines(lines),
            Self::Printer(printer) => {
                printer.push(output::harmless_lines(lines), weight);
                Ok(())
            }
        }
    }
}

/// What may be left out where the reader is too slow: never how agents stand.
fn weight(event: &Event) -> Weight {
    match event.kind {
        EventKind::SessionStart
        | EventKind::SessionEnd
        | EventKind::RunStart
        | EventKind::RunEnd
        | EventKind::SubagentStart
        | EventKind::SubagentStop
        | EventKind::Stall
        | EventKind::AgentRenamed
        | EventKind::Attribution => Weight::State,
        EventKind::UserPrompt
        | EventKind::AgentMessage
        | EventKind::Reasoning
        | EventKind::Usage
        | EventKind::ToolPre
        | EventKind::ToolPost
        | EventKind::ToolFailure
        | EventKind::PermissionRequest
        | EventKind::PermissionDenied
        | EventKind::SubagentProgress
        | EventKind::Heartbeat
        | EventKind::Retry
        | EventKind::Notification
        | EventKind::CompactPre
        | EventKind::CompactPost
        | EventKind::TodoCreated
        | EventKind::TodoCompleted
        | EventKind::UnknownHook
        | EventKind::Problem => Weight::Activity,
    }
}

/// Shows updates as they come.
pub(crate) struct Showing<'c> {
    context: &'c Context,
    blocks: Blocks,
    form: Form,
    out: Out,
    is_caught_up: bool,
    agents: BTreeMap<SessionId, BTreeMap<AgentId, Agent>>,
    heartbeat: Duration,
    last_beat: Instant,
    beats: u64,
}

impl<'c> Showing<'c> {
    /// Shows nothing yet.
    pub(crate) fn new(form: Form, out: Out, context: &'c Context) -> Self {
        let settings = context.settings();
        let options = BlockOptions {
            verbose: settings.watch.verbose.value,
            full: form.full,
            style: context.style(None),
            code_tools: settings.tracing.code_tools.value.clone(),
            offset_minutes: context.offset_minutes(),
        };
        Self {
            context,
            blocks: Blocks::new(options),
            form,
            out,
            is_caught_up: false,
            agents: BTreeMap::new(),
            heartbeat: settings.watch.heartbeat.value,
            last_beat: clock::tick(),
            beats: 0,
        }
    }

    /// Takes one update and prints what it tells.
    pub(crate) fn take(&mut self, update: Update) -> Result<(), CliError> {
        match update {
            Update::Snapshot(tree) => {
                let Tree { session, agents, .. } = *tree;
                self.agents.insert(session.id, agents.into_iter().map(|row| (row.id.clone(), row)).collect());
            }
            Update::Change(change) => {
                let Change { session, agents, removed } = *change;
                let rows = self.agents.entry(session.id).or_default();
                rows.retain(|id, _| !removed.contains(id));
                rows.extend(agents.into_iter().map(|row| (row.id.clone(), row)));
            }
            Update::Event(event) => self.show(&event)?,
            Update::Missed(count) => {
                self.context.warn(&match count {
                    0 => "some events were not shown: the hub's log does not reach back to the last one"
                        .to_owned(),
                    count => format!("{count} events were not shown: the output is too slow"),
                });
            }
            Update::CaughtUp => {
                self.is_caught_up = true;
                if !self.form.shows_past {
                    self.introduce()?;
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, event: &Event) -> Result<(), CliError> {
        if !self.form.shows_past && !self.is_caught_up {
            return Ok(());
        }
        if self.form.is_json && event.kind == EventKind::Problem {
            let (at, what) = (event.text("at").unwrap_or_default(), event.text("what").unwrap_or_default());
            self.context.warn(&format!("{at}: {what}"));
        }
        if self.form.is_json {
            return self.out.json(&format!("{}\n", feed_line(event)), weight(event));
        }
        let rows = self.agents.get(&event.session_id);
        let name = |id: &AgentId| rows.and_then(|rows| rows.get(id)).map(Agent::title);
        match self.blocks.block(event, &name) {
            Some(block) => self.out.text(block, weight(event)),
            None => Ok(()),
        }
    }

    /// Says which agents are at work when watching begins.
    fn introduce(&mut self) -> Result<(), CliError> {
        let sessions = self.agents.len();
        let running = self.running().len();
        self.context.say(&format!("{sessions} live sessions, {running} subagents at work"));
        if running > 0 { self.tell_running() } else { Ok(()) }
    }

    fn running(&self) -> Vec<(&SessionId, &Agent)> {
        let all = self.agents.iter().flat_map(|(session, rows)| rows.values().map(move |row| (session, row)));
        all.filter(|(_, row)| !row.id.is_root() && row.status.is_live()).collect()
    }

    /// Says how the active agents stand, as often as the settings ask for it.
    pub(crate) fn beat(&mut self) -> Result<(), CliError> {
        if !self.is_caught_up || self.last_beat.elapsed() < self.heartbeat {
            return Ok(());
        }
        self.last_beat = clock::tick();
        if self.running().is_empty() {
            return Ok(());
        }
        self.tell_running()
    }

    fn tell_running(&mut self) -> Result<(), CliError> {
        let now = self.context.now_ms();
        self.beats += 1;
        if !self.form.is_json {
            let style = self.context.style(None);
            let mut lines = String::new();
            for (_, row) in self.running() {
                let doing = activity(row, Some(now), &style).map(|(_, words)| words).unwrap_or_default();
                let since = row.started_at_ms.map(|start| now - start).filter(|span| *span >= 0);
                let name = safe::line(&row.title(), style.charset());
                lines += &style.one_line(
                    &format!(
                        "{} {} {name}: {doing} {}",
                        text::clock(now, self.context.offset_minutes()),
                        style.glyphs().running,
                        text::duration(since)
                    ),
                    style.width,
                );
                lines.push('\n');
            }
            return self.out.text(lines, Weight::Activity);
        }
        let mut sessions: BTreeMap<&SessionId, Vec<&Agent>> = BTreeMap::new();
        for (session, row) in self.running() {
            sessions.entry(session).or_default().push(row);
        }
        let mut lines = String::new();
        for (session, rows) in sessions {
            lines += &feed_line(&heartbeat(session, &rows, now, self.beats));
            lines.push('\n');
        }
        self.out.json(&lines, Weight::Activity)
    }

    /// Prints what was held back, once nothing more will come.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        match self.blocks.finish() {
            Some(block) if !self.form.is_json => self.out.text(block, Weight::Activity),
            Some(_) | None => Ok(()),
        }
    }

    /// Prints a line of our own, made safe, unless all is to be quiet.
    pub(crate) fn say(&self, text: &str, weight: Weight) {
        if self.context.chattiness >= Chattiness::Normal {
            // A reader that has left is nobody to tell.
            let _ =
                self.out.text(format!("{}\n", safe::line(text, self.context.style(None).charset())), weight);
        }
    }

    /// Prints a text that is safe already.
    pub(crate) fn print(&self, text: String) {
        let _ = self.out.text(text, Weight::State);
    }

    /// Gives the printer back, where there is one.
    pub(crate) fn into_out(self) -> Out {
        self.out
    }
}
