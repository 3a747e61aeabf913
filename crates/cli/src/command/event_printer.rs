//! Prints a feed as blocks or JSON lines: for `watch` on stdout, for `run` next to the output of its command.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use subscope_hub::{clock, heartbeat};
use subscope_model::{
    Agent, AgentId, Event, EventKind, LiveView, Session, SessionId, Tree, Update, feed_line,
};
use subscope_render::{
    BlockOptions, Blocks, activity, safe,
    table::SHORT_ID,
    text::{self, place_name, plural},
};

use super::printer::{Printer, Weight};
use crate::prelude::*;

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

/// Returns whether an event may be dropped for a slow reader: changes of agents' state may not.
fn weight(event: &Event) -> Weight {
    let is_state = matches!(
        event.kind,
        EventKind::SessionStart
            | EventKind::SessionEnd
            | EventKind::RunStart
            | EventKind::RunEnd
            | EventKind::SubagentStart
            | EventKind::SubagentStop
            | EventKind::Stall
            | EventKind::Budget
            | EventKind::AgentRenamed
            | EventKind::Attribution
    );
    if is_state { Weight::State } else { Weight::Activity }
}

pub(crate) struct EventPrinter<'c> {
    context: &'c Context,
    blocks: Blocks,
    format: EventFormat,
    /// Prints without blocking; `None`: stdout, where writes block on a slow reader.
    printer: Option<&'c Printer>,
    is_caught_up: bool,
    view: LiveView,
    heartbeat: Duration,
    last_heartbeat: Instant,
    heartbeats: u64,
}

impl<'c> EventPrinter<'c> {
    /// Returns a printer that has printed nothing yet.
    pub(crate) fn new(format: EventFormat, printer: Option<&'c Printer>, context: &'c Context) -> Self {
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
            printer,
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
                self.context.warn(&format!("the output is too slow: {} not shown", plural(*count, "event")));
            }
            Update::Reset => self
                .context
                .warn("some events were not shown: the hub's log does not reach back to the last one"),
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
            return self
                .print_block(output::harmless_lines(&format!("{}\n", feed_line(event))), weight(event));
        }
        let name = |id: &AgentId| self.view.agent(&event.session_id, id).map(Agent::title);
        match self.blocks.block(event, &name, self.place(&event.session_id).as_deref()) {
            Some(block) => self.print_block(block, weight(event)),
            None => Ok(()),
        }
    }

    /// Returns what distinguishes a session from the others that are watched: its folder, and its id if that is not enough;
    /// `None` if it is the only one.
    fn place(&self, session: &SessionId) -> Option<String> {
        let folder = |tree: &Tree| {
            let Session { cwd, project, .. } = &tree.session;
            place_name(cwd.as_deref(), project.as_deref()).into_owned()
        };
        let mut others = self.view.trees().filter(|tree| tree.session.id != *session).peekable();
        others.peek()?;
        let short: String = session.chars().take(SHORT_ID).collect();
        let own = self.view.trees().find(|tree| tree.session.id == *session).map(folder);
        let Some(own) = own.filter(|own| !own.is_empty()) else { return Some(short) };
        let is_shared = others.any(|tree| folder(tree) == own);
        Some(if is_shared { format!("{own} {short}") } else { own })
    }

    /// Prints how many sessions and agents are at work when watching begins.
    fn print_summary(&mut self) -> Result<(), CliError> {
        let sessions = self.view.trees().count();
        let running = self.running().len();
        self.context.info(&format!(
            "{}, {} at work",
            plural(sessions, "session"),
            plural(running, "subagent")
        ));
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
            for (session, row) in self.running() {
                let doing = activity(row, Some(now), &style).map(|(_, words)| words).unwrap_or_default();
                let since = row.started_at_ms.map(|start| now - start).filter(|span| *span >= 0);
                let place = self.place(session).map(|place| format!("{place} {} ", style.glyphs().current));
                let name = format!("{}{}", place.unwrap_or_default(), row.title());
                let name = safe::line(&name, style.charset());
                let (clock, since) = (text::clock(now, self.context.offset_minutes()), text::duration(since));
                let line = format!("{clock} {} {name}: {doing}, {since} in all", style.glyphs().running);
                lines += &style.one_line(&line, style.width);
                lines.push('\n');
            }
            return self.print_block(lines, Weight::Activity);
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
        self.print_block(output::harmless_lines(&lines), Weight::Activity)
    }

    /// Prints the pending block at the end of the feed.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        match self.blocks.finish() {
            Some(block) if !self.format.is_json => self.print_block(block, Weight::Activity),
            Some(_) | None => Ok(()),
        }
    }

    /// Prints a sanitized message of our own, unless quiet.
    pub(crate) fn print_message(&self, text: &str) {
        if self.context.verbosity >= Verbosity::Normal {
            self.print(format!("{}\n", safe::line(text, self.context.style(None).charset())));
        }
    }

    fn print_block(&self, block: String, weight: Weight) -> Result<(), CliError> {
        match self.printer {
            None => return output::print(&block),
            Some(printer) => printer.push(block, weight),
        }
        Ok(())
    }

    /// Prints a text that is already sanitized. A closed output is ignored.
    pub(crate) fn print(&self, text: String) {
        let _ = self.print_block(text, Weight::State);
    }
}
