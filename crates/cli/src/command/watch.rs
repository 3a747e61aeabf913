//! `subscope watch`: follows sessions live and prints what happens, block by block.

mod live;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use subscope_hub::{Driver, Hub, HubOptions, Live, Memory, Piped, clock, heartbeat};
use subscope_model::{
    Agent, AgentId, Change, Event, EventKind, Feed, Received, SessionId, Tree, Update, feed_line,
};
use subscope_render::{BlockOptions, Blocks, activity, safe, text};

use super::target::{Named, limits, resolve};
use crate::{
    args::WatchArgs,
    context::Context,
    error::{CliError, Kind},
    output,
};

/// How long one wait for an update lasts: the grain of heartbeats.
const WAIT: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(args: &WatchArgs, context: &Context) -> Result<(), CliError> {
    let mut followed =
        if args.targets.is_empty() { live::everything(args, context)? } else { targets(args, context)? };
    // With a TARGET everything it holds is shown; without one, what happens from now on.
    let mut watch = Watch::new(args, context, !args.targets.is_empty());
    loop {
        match followed.feed.next(WAIT) {
            Received::Update(update) => watch.take(update)?,
            Received::Idle => {}
            Received::Closed => break,
        }
        watch.beat()?;
    }
    watch.finish()
}

/// What is followed, and what has to live as long.
struct Followed {
    feed: Box<dyn Feed>,
    _keeps: live::Keeps,
}

/// Follows what TARGETs name, in this process.
fn targets(args: &WatchArgs, context: &Context) -> Result<Followed, CliError> {
    in_process(driver(args, context)?, context)
}

/// Follows something in this process and keeps nothing of it.
fn in_process(driver: Box<dyn Driver>, context: &Context) -> Result<Followed, CliError> {
    let options =
        HubOptions { prices: context.prices()?.table.clone(), limits: limits(context), texts: None };
    let hub = Hub::start(driver, Box::new(Memory::new()), options)
        .map_err(|error| CliError::caused(Kind::Failed, error))?;
    Ok(Followed { feed: Box::new(hub.subscribe()), _keeps: live::Keeps::Hub(hub) })
}

fn driver(args: &WatchArgs, context: &Context) -> Result<Box<dyn Driver>, CliError> {
    let named = resolve(&args.targets, context)?;
    let count = named.len();
    if named.iter().any(|target| matches!(target, Named::Kept(_))) {
        return Err(CliError::new(Kind::Failed, "the session's files are gone: nothing more will come")
            .hint("`subscope tree` shows what is archived"));
    }
    let paths: Vec<PathBuf> = named
        .into_iter()
        .filter_map(|target| match target {
            Named::Path(path) | Named::Session(path) => Some(path),
            Named::Kept(_) | Named::Stdin => None,
        })
        .collect();
    match (paths.len(), count) {
        (0, _) => {
            let started = Piped::start(std::io::stdin(), args.dialect);
            started
                .map(|piped| Box::new(piped) as Box<dyn Driver>)
                .map_err(|error| CliError::caused(Kind::Failed, error))
        }
        (paths, all) if paths < all => {
            Err(CliError::new(Kind::Usage, "- is followed alone")
                .hint("`subscope tree` merges stdin with files"))
        }
        _ => Ok(Box::new(Live::targets(paths, args.dialect)?)),
    }
}

/// What is shown of the updates.
struct Watch<'c> {
    context: &'c Context,
    blocks: Blocks,
    is_json: bool,
    /// Whether what happened before counts.
    shows_past: bool,
    is_caught_up: bool,
    agents: BTreeMap<SessionId, BTreeMap<AgentId, Agent>>,
    heartbeat: Duration,
    last_beat: Instant,
    beats: u64,
}

impl<'c> Watch<'c> {
    fn new(args: &WatchArgs, context: &'c Context, shows_past: bool) -> Self {
        let settings = context.settings();
        let options = BlockOptions {
            verbose: settings.watch.verbose.value,
            full: args.full,
            style: context.style(None),
            code_tools: settings.tracing.code_tools.value.clone(),
            offset_minutes: context.offset_minutes(),
        };
        Self {
            context,
            blocks: Blocks::new(options),
            is_json: args.json,
            shows_past,
            is_caught_up: false,
            agents: BTreeMap::new(),
            heartbeat: settings.watch.heartbeat.value,
            last_beat: clock::tick(),
            beats: 0,
        }
    }

    fn take(&mut self, update: Update) -> Result<(), CliError> {
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
                if !self.shows_past {
                    self.introduce()?;
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, event: &Event) -> Result<(), CliError> {
        if !self.shows_past && !self.is_caught_up {
            return Ok(());
        }
        if self.is_json && event.kind == EventKind::Problem {
            let (at, what) = (event.text("at").unwrap_or_default(), event.text("what").unwrap_or_default());
            self.context.warn(&format!("{at}: {what}"));
        }
        if self.is_json {
            return output::print_lines(&format!("{}\n", feed_line(event)));
        }
        let rows = self.agents.get(&event.session_id);
        let name = |id: &AgentId| rows.and_then(|rows| rows.get(id)).map(Agent::title);
        match self.blocks.block(event, &name) {
            Some(block) => output::print(&block),
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
    fn beat(&mut self) -> Result<(), CliError> {
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
        if !self.is_json {
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
            return output::print(&lines);
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
        output::print_lines(&lines)
    }

    fn finish(mut self) -> Result<(), CliError> {
        match self.blocks.finish() {
            Some(block) if !self.is_json => output::print(&block),
            Some(_) | None => Ok(()),
        }
    }
}
