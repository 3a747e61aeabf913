//! `subscope demo`: replays a bundled recording through decoder, hub and renderer.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use subscope_harness::claude_code::{META, TRANSCRIPT};
use subscope_hub::{Hub, MemoryStore, Recording, Replay, clock};
use subscope_model::{Agent, AgentId, Feed, FeedItem, LiveView, Millis, Tree, Update};
use subscope_render::{BlockOptions, Blocks, Detail, TreeOptions, render_summary, render_tree, text};
use subscope_session::{RouterOptions, SessionRouter, SourceSpec};

use crate::prelude::*;

/// Files of one recorded agent: transcript and metadata.
struct RecordedAgent {
    agent: &'static str,
    transcript: &'static [u8],
    meta: &'static [u8],
}

macro_rules! recorded {
    ($($agent:literal),* $(,)?) => {
        [$(RecordedAgent {
            agent: $agent,
            transcript: include_bytes!(concat!(
                "../../data/demo/aa151f21-dc72-4b46-a219-81097bbb7400/subagents/agent-", $agent, ".jsonl"
            )),
            meta: include_bytes!(concat!(
                "../../data/demo/aa151f21-dc72-4b46-a219-81097bbb7400/subagents/agent-", $agent, ".meta.json"
            )),
        }),*]
    };
}

/// Id of the recording next to stored sessions: no session of a harness has this id.
pub(crate) const OWN_SESSION: &str = "subscope-demo";

const SESSION: &str = "aa151f21-dc72-4b46-a219-81097bbb7400";

/// Claude Code 2.1.330, fixture `k-big`: eight agents, one nested, one in the background, 147 calls.
const MAIN: &[u8] = include_bytes!("../../data/demo/aa151f21-dc72-4b46-a219-81097bbb7400.jsonl");
const AGENTS: [RecordedAgent; 8] = recorded![
    "a1415f031f8724817",
    "a1b6675338c90d259",
    "a2c8cef8cf5cc2bb5",
    "a4d962453b82e0d28",
    "a50f829525b9869bf",
    "a5f71806b4b1d23f8",
    "ad348aac6a397af1e",
    "aeb82c63d9a64aa10",
];

/// Text after the replay, before [`NEXT`].
const ENDED: &str = "That was a recording of Claude Code. With your own sessions:";

/// Commands to try next, each with what it does.
const NEXT: [(&str, &str); 4] = [
    ("subscope", "every session, live and past, in a terminal UI"),
    ("subscope watch", "follow every live session on this machine, new ones too"),
    ("subscope tree last", "the latest session; --detail full shows every call"),
    ("subscope doctor", "what subscope finds on this machine"),
];

/// Column of the descriptions of commands, on wide terminals.
const DESCRIPTION_COLUMN: usize = 22;
/// Columns from which a description is printed next to its command; below, on lines of its own.
const TWO_COLUMNS_FROM: usize = 60;

/// Shortest interval between redraws.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &DemoArgs, context: &Context) -> Result<(), CliError> {
    if let Some(folder) = &args.write {
        return write(folder, context);
    }
    let replay = Replay::new(load_recordings(), args.speed);
    let hub = Hub::start(Box::new(replay), Box::new(MemoryStore::new()), context.hub_options()?)?;
    let mut feed = hub.subscribe();
    let is_redrawn = context.terminal.is_terminal && !args.plain;
    let tree = if is_redrawn {
        redraw_in_place(&mut feed, args.speed, context)?
    } else {
        print_blocks(&mut feed, context)?
    };
    let tree = tree.ok_or_else(|| CliError::failed("the recording is empty"))?;
    if !is_redrawn {
        output::print(&format!("{}\n", render_summary(&tree, &context.style(None))))?;
    }
    output::print(&format!("\n{}", next_steps(screen_size(context).0)))
}

/// Writes the recording as a folder of Claude Code, and says how to read it.
fn write(folder: &Path, context: &Context) -> Result<(), CliError> {
    let failed = |error| CliError::because(format!("cannot write {}", folder.display()), error);
    fs::create_dir(folder).map_err(failed)?;
    write_recording(&folder.join("projects/demo")).map_err(failed)?;
    output::print_line(&format!("written: {}", folder.display()), context)?;
    context.info("`subscope index` with this folder stores the session aa151f21, `subscope forget aa151f21` removes it");
    Ok(())
}

/// Returns the closing text with next commands, word-wrapped.
fn next_steps(width: usize) -> String {
    let mut lines = text::wrap(ENDED, width);
    for (command, does) in NEXT {
        let mut front = format!("  {command}");
        let indent = if width < TWO_COLUMNS_FROM { 4 } else { DESCRIPTION_COLUMN };
        if width < TWO_COLUMNS_FROM {
            lines.push(std::mem::take(&mut front));
        }
        for piece in text::wrap(does, width.saturating_sub(indent)) {
            lines.push(text::pad(&front, indent) + &piece);
            front.clear();
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the current columns and rows of the terminal.
fn screen_size(context: &Context) -> (usize, usize) {
    terminal_size::terminal_size().map_or((context.style(None).width, 24), |(width, height)| {
        (usize::from(width.0), usize::from(height.0))
    })
}

fn load_recordings() -> Vec<Recording> {
    let spec = |label: String, dialect, agent: Option<&str>| SourceSpec {
        label,
        dialect: Some(dialect),
        session: Some(SESSION.to_owned()),
        agent: agent.map(str::to_owned),
        ..SourceSpec::default()
    };
    let main = spec(format!("{SESSION}.jsonl"), TRANSCRIPT, None);
    let mut all = vec![Recording { spec: main, bytes: MAIN.to_vec(), appears_with: None }];
    for recorded in &AGENTS {
        let label = format!("agent-{}", recorded.agent);
        let transcript = spec(format!("{label}.jsonl"), TRANSCRIPT, Some(recorded.agent));
        let at = all.len();
        all.push(Recording { spec: transcript, bytes: recorded.transcript.to_vec(), appears_with: None });
        // The harness writes the metadata when the agent starts and adds `finished` at its end.
        let meta = String::from_utf8_lossy(recorded.meta).replace(",\"finished\":true", "");
        let spec = spec(format!("{label}.meta.json"), META, Some(recorded.agent));
        all.push(Recording { spec, bytes: meta.into_bytes(), appears_with: Some(at) });
    }
    all
}

/// Writes the recording's files below a folder, as the harness lays them out. Returns the path of the main transcript.
pub(crate) fn write_recording(folder: &Path) -> io::Result<PathBuf> {
    let agents = folder.join(SESSION).join("subagents");
    fs::create_dir_all(&agents)?;
    for RecordedAgent { agent, transcript, meta } in &AGENTS {
        fs::write(agents.join(format!("agent-{agent}.jsonl")), transcript)?;
        fs::write(agents.join(format!("agent-{agent}.meta.json")), meta)?;
    }
    let main = folder.join(format!("{SESSION}.jsonl"));
    fs::write(&main, MAIN)?;
    Ok(main)
}

/// Reads the recording as the session [`OWN_SESSION`].
pub(crate) fn read_recording(options: RouterOptions) -> SessionRouter {
    let mut router = SessionRouter::new(options);
    for Recording { spec, bytes, .. } in load_recordings() {
        let source = router.open(SourceSpec { session: Some(OWN_SESSION.to_owned()), ..spec });
        let text = String::from_utf8_lossy(&bytes).replace(SESSION, OWN_SESSION);
        router.push(source, text.as_bytes());
        router.flush(source);
    }
    router
}

/// Returns the tree of the demo's session.
fn shown(view: &LiveView) -> Option<&Tree> {
    view.trees().next()
}

/// Prints blocks as they happen.
fn print_blocks(feed: &mut dyn Feed, context: &Context) -> Result<Option<Tree>, CliError> {
    let mut blocks = Blocks::new(BlockOptions {
        verbose: false,
        full: false,
        style: context.style(None),
        code_tools: Vec::new(),
        offset_minutes: 0,
    });
    let mut view = LiveView::default();
    loop {
        match feed.next(Duration::from_secs(1)) {
            FeedItem::Update(Update::Event(event)) => {
                let name = |id: &AgentId| view.agent(&event.session_id, id).map(Agent::title);
                if let Some(block) = blocks.block(&event, &name, None) {
                    output::print(&block)?;
                }
            }
            FeedItem::Update(update) => view.apply(update),
            FeedItem::Idle => {}
            FeedItem::Closed => break,
        }
    }
    if let Some(block) = blocks.finish() {
        output::print(&block)?;
    }
    Ok(shown(&view).cloned())
}

/// Redraws the tree in place until the recording ends.
fn redraw_in_place(feed: &mut dyn Feed, speed: f64, context: &Context) -> Result<Option<Tree>, CliError> {
    let began = clock::tick();
    let mut view = LiveView::default();
    let mut frame = DemoFrame { lines: 0, drawn: None };
    loop {
        match feed.next(REDRAW_INTERVAL) {
            FeedItem::Update(update) => view.apply(update),
            FeedItem::Idle => {}
            FeedItem::Closed => break,
        }
        if frame.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW_INTERVAL) {
            frame.draw(&view, replay_time(&view, began, speed), context)?;
        }
    }
    frame.draw(&view, None, context)?;
    Ok(shown(&view).cloned())
}

/// Returns the current time within the recording; `None` before its first event.
fn replay_time(view: &LiveView, began: Instant, speed: f64) -> Option<Millis> {
    let start = shown(view)?.session.started_at_ms?;
    // `as` saturates; a demo takes some seconds.
    let past = (began.elapsed().as_secs_f64() * speed * 1000.0) as i64;
    Some(start + past)
}

/// State of the redrawn area of the terminal.
struct DemoFrame {
    lines: usize,
    drawn: Option<Instant>,
}

impl DemoFrame {
    fn draw(&mut self, view: &LiveView, now: Option<Millis>, context: &Context) -> Result<(), CliError> {
        let Some(tree) = shown(view) else { return Ok(()) };
        let (columns, height) = screen_size(context);
        let is_last = now.is_none();
        let options = TreeOptions {
            style: context.style(Some(columns)),
            now: now.or(tree.session.ended_at_ms),
            offset_minutes: 0,
            ..context.tree_options(Detail::Moderate)
        };
        let drawn = render_tree(tree, &options);
        let mut lines: Vec<&str> = drawn.lines().collect();
        let more;
        let room = height.saturating_sub(2).max(4);
        if !is_last && lines.len() > room {
            more = format!("… {} more lines: make the terminal higher", lines.len() - room + 1);
            lines.truncate(room - 1);
            lines.push(&more);
        }
        // One write per frame, between the marks of synchronized output (mode 2026), against flicker.
        let mut out = String::from("\u{1b}[?2026h");
        if self.lines > 0 {
            out += &format!("\u{1b}[{}A\r", self.lines);
        }
        for line in &lines {
            out += line;
            out += "\u{1b}[K\n";
        }
        out += "\u{1b}[J\u{1b}[?2026l";
        self.lines = lines.len();
        self.drawn = Some(clock::tick());
        output::print(&out)
    }
}
