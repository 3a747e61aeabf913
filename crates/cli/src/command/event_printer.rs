//! Prints a feed as blocks or JSON lines: for `watch` on stdout, for `run` next to the output of its command.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use subscope_hub::{clock, heartbeat};
use subscope_model::{Agent, AgentId, Event, EventKind, LiveView, SessionId, Update, feed_line};
use subscope_render::{BlockOptions, Blocks, activity, safe, text};

use super::run::printer::{Printer, Weight};
use crate::{
    context::{Context, Verbosity},
    error::CliError,
    output,
};

/// Output format and starting point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFormat {
    /// Events as JSON instead of blocks.
    pub(crate) is_json: bool,
    /// Results without a length limit.
    pub(crate) full: bool,
    /// Whether events from before the subscription are printed.
    pub(crate) shows_past: bool,
}

/// Output of an [`EventPrinter`].
#[derive(Debug)]
pub(crate) enum EventOutput {
    /// Stdout; writes block on a slow reader.
    Stdout,
    /// A [`Printer`] with a queue; never blocks.
    Printer(Printer),
}

impl EventOutput {
    fn print_text(&self, block: String, weight: Weight) -> Result<(), CliError> {
        match self {
            Self::Stdout => output::print(&block),
            Self::Printer(printer) => {
                printer.push(block, weight);
                Ok(())
            }
        }
    }

    fn print_json(&self, lines: &str, weight: Weight) -> Result<(), CliError> {
        match self {
            Self::Stdout => output::print_lines(lines),
            Self::Printer(printer) => {
                printer.push(output::harmless_lines(lines), weight);
                Ok(())
            }
        }
    }
}

/// Returns whether an event may be dropped for a slow reader: changes of agents' state may not.
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

/// Prints the updates of a feed.
pub(crate) struct EventPrinter<'c> {
    context: &'c Context,
    blocks: Blocks,
    format: EventFormat,
    out: EventOutput,
    is_caught_up: bool,
    view: LiveView,
    heartbeat: Duration,
    last_heartbeat: Instant,
    heartbeats: u64,
}

impl<'c> EventPrinter<'c> {
    /// Returns a printer that has printed nothing yet.
    pub(crate) fn new(format: EventFormat, out: EventOutput, context: &'c Context) -> Self {
        let settings = context.settings();
        let options = BlockOptions {
            verbose: settings.watch.verbose,
            full: format.full,
            style: context.style(None),
            code_tools: settings.code_tools.clone(),
            offset_minutes: context.offset_minutes(),
        };
        Self {
            context,
            blocks: Blocks::new(options),
            format,
            out,
            is_caught_up: false,
            view: LiveView::default(),
            heartbeat: settings.watch.heartbeat,
            last_heartbeat: clock::tick(),
            heartbeats: 0,
        }
    }

    /// Applies an update and prints its event, if any.
    pub(crate) fn apply(&mut self, update: Update) -> Result<(), CliError> {
        match &update {
            Update::Event(event) => self.print_event(event)?,
            Update::Missed(count) => {
                self.context.warn(&format!("{count} events were not shown: the output is too slow"));
            }
            Update::Reset => {
                self.context
                    .warn("some events were not shown: the hub's log does not reach back to the last one");
            }
            Update::Snapshot(_) | Update::Change(_) => {}
            Update::CaughtUp => {
                self.is_caught_up = true;
                if !self.format.shows_past {
                    self.print_summary()?;
                }
            }
        }
        self.view.apply(update);
        Ok(())
    }

    fn print_event(&mut self, event: &Event) -> Result<(), CliError> {
        if !self.format.shows_past && !self.is_caught_up {
            return Ok(());
        }
        if self.format.is_json && event.kind == EventKind::Problem {
            let (at, what) = (event.text("at").unwrap_or_default(), event.text("what").unwrap_or_default());
            self.context.warn(&format!("{at}: {what}"));
        }
        if self.format.is_json {
            return self.out.print_json(&format!("{}\n", feed_line(event)), weight(event));
        }
        let name = |id: &AgentId| self.view.agent(&event.session_id, id).map(Agent::title);
        match self.blocks.block(event, &name) {
            Some(block) => self.out.print_text(block, weight(event)),
            None => Ok(()),
        }
    }

    /// Prints how many sessions and agents are at work when watching begins.
    fn print_summary(&mut self) -> Result<(), CliError> {
        let sessions = self.view.trees().count();
        let running = self.running().len();
        self.context.info(&format!("{sessions} live sessions, {running} subagents at work"));
        if running > 0 { self.print_running() } else { Ok(()) }
    }

    fn running(&self) -> Vec<(&SessionId, &Agent)> {
        let all = self.view.trees().flat_map(|tree| tree.agents.iter().map(|row| (&tree.session.id, row)));
        let mut running: Vec<_> = all.filter(|(_, row)| !row.id.is_root() && row.status.is_live()).collect();
        running.sort_unstable_by_key(|(session, row)| (*session, &row.id));
        running
    }

    /// Prints a heartbeat of the running agents if the configured interval has passed.
    pub(crate) fn print_heartbeat_if_due(&mut self) -> Result<(), CliError> {
        if !self.is_caught_up || self.last_heartbeat.elapsed() < self.heartbeat {
            return Ok(());
        }
        self.last_heartbeat = clock::tick();
        if self.running().is_empty() {
            return Ok(());
        }
        self.print_running()
    }

    fn print_running(&mut self) -> Result<(), CliError> {
        let now = self.context.now_ms();
        self.heartbeats += 1;
        if !self.format.is_json {
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
            return self.out.print_text(lines, Weight::Activity);
        }
        let mut sessions: BTreeMap<&SessionId, Vec<&Agent>> = BTreeMap::new();
        for (session, row) in self.running() {
            sessions.entry(session).or_default().push(row);
        }
        let mut lines = String::new();
        for (session, rows) in sessions {
            lines += &feed_line(&heartbeat(session, &rows, now, self.heartbeats));
            lines.push('\n');
        }
        self.out.print_json(&lines, Weight::Activity)
    }

    /// Prints the pending block at the end of the feed.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        match self.blocks.finish() {
            Some(block) if !self.format.is_json => self.out.print_text(block, Weight::Activity),
            Some(_) | None => Ok(()),
        }
    }

    /// Prints a sanitised message of our own, unless quiet.
    pub(crate) fn print_message(&self, text: &str, weight: Weight) {
        if self.context.verbosity >= Verbosity::Normal {
            // A closed output is ignored.
            let _ = self
                .out
                .print_text(format!("{}\n", safe::line(text, self.context.style(None).charset())), weight);
        }
    }

    /// Prints a text that is already sanitised.
    pub(crate) fn print(&self, text: String) {
        let _ = self.out.print_text(text, Weight::State);
    }

    /// Returns the output.
    pub(crate) fn into_out(self) -> EventOutput {
        self.out
    }
}
