//! Six persons with the real Claude Code at six terminals at once: agents at work, one that asks for permission while the
//! person is away, one whose model is silent, one that fails, one that is stopped. Meanwhile the terminal UI and the
//! page are checked: sessions that wait for a person come first in both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use serde_json::json;
use subscope_client::{Address, Client, ListQuery, Queries as _};
use subscope_model::{Agent, AgentStatus, Attention, Flag, JumpOutcome, SessionId, Tree};
use subscope_rig::tick;
use subscope_testkit::env::Terminal as Screen;

use crate::{
    finding::Findings,
    heard::Listener,
    served::{Hub, obey},
    terminal::Terminal,
    world::{Programs, World},
};

/// Folders of the six projects.
const PROJECTS: [&str; 6] = ["p1-cart", "p2-prices", "p3-stock", "p4-papers", "p5-server", "p6-tests"];

/// What a person may be asked to have done without being asked: no command.
const MODE: [&str; 4] = ["--permission-mode", "default", "--allowedTools", "Agent,Task,Read"];

/// Silence that is a stall.
const STALL_S: u32 = 10;
/// How long a person does not answer a question.
const AWAY: Duration = Duration::from_secs(12);
/// Timeout until all agents of a session are idle: far more than they need.
const LIMIT: Duration = Duration::from_secs(120);
/// Time between two checks of the terminal UI and the page.
const LOOK: Duration = Duration::from_secs(1);
/// How long a face may differ from the screens of the persons without an error. A hook speaks of a question before
/// Claude Code draws it; a frame and a check come after it; and Claude Code says only some time after an answer that it
/// goes on.
const GRACE: Duration = Duration::from_secs(4);

/// What a person has done, in turn; each begins with another.
const TASKS: [Task; 7] =
    [Task::Survey, Task::Permission, Task::Silence, Task::Question, Task::Failure, Task::Plan, Task::Stop];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Survey,
    Permission,
    Silence,
    Question,
    Failure,
    Plan,
    Stop,
}

/// What stands on a screen that waits for the person; the words do not stand there otherwise.
const ASKS: [&str; 3] = ["Do you want to proceed?", "Without cents", "wants to exit plan mode"];

impl Task {
    fn prompt(self) -> &'static str {
        match self {
            Self::Survey => "Survey the shop.",
            Self::Permission => "Write the list.",
            Self::Silence => "Think about the race.",
            Self::Question => "Ask me for a currency.",
            Self::Failure => "Ask for an opinion.",
            Self::Plan => "Plan the release.",
            Self::Stop => "Look again and again.",
        }
    }
}

/// The programs that show the page to the watcher.
#[derive(Clone, Debug)]
pub(crate) struct PageWatch {
    /// The script of the watcher, run by Node.js.
    pub(crate) script: PathBuf,
    /// The browser.
    pub(crate) browser: PathBuf,
}

/// How long and with what it is played.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// How long persons begin something new; each does every task once at least.
    pub(crate) time: Duration,
    /// Watches the page, if a browser is there.
    pub(crate) page: Option<PageWatch>,
    /// Where each look is noted, with the way before the end of the name.
    pub(crate) log: Option<PathBuf>,
}

/// The projects whose screen shows a question.
type Questions = Mutex<BTreeSet<&'static str>>;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays it with hooks, and for as long again without if a time is given.
pub(crate) fn play(
    programs: &Programs,
    script: &Path,
    options: &Options,
    findings: &mut Findings,
) -> Result<()> {
    play_way(programs, script, ("hooks", &TASKS), options, findings)?;
    if options.time.is_zero() {
        return Ok(());
    }
    // A stop is delivered by a hook.
    let tasks: Vec<Task> = TASKS.into_iter().filter(|task| *task != Task::Stop).collect();
    play_way(programs, script, ("files", &tasks), options, findings)
}

/// Plays these tasks, which name the way.
fn play_way(
    programs: &Programs,
    script: &Path,
    (way, tasks): (&str, &[Task]),
    options: &Options,
    findings: &mut Findings,
) -> Result<()> {
    let world = World::new(programs, script)?;
    for project in PROJECTS {
        world.copy_repository(project)?;
    }
    let serve = format!("serve --listen 127.0.0.1:0 --stall {STALL_S}s --stall-subagents {STALL_S}s");
    let hub = Hub::start(world.subscope(&serve))?;
    if way == "hooks" {
        obey(&world, "hooks install --scope user")?;
    }
    let listener = Listener::start(hub.address)?;
    Terminal::trust(&world, &PROJECTS.map(|project| world.path(project)));
    let mut terminals = Vec::new();
    for project in PROJECTS {
        let Some(terminal) = Terminal::start_in(&world, &world.path(project), &MODE)? else {
            findings.note("skipped: tmux is not installed");
            return Ok(());
        };
        terminals.push((project, terminal));
    }
    let Some(screen) = Screen::start(world.env(), 160, 50, &[]) else { return Ok(()) };
    let page = options.page.as_ref().map(|watch| PageReader::start(watch, &hub)).transpose()?;
    if page.is_none() {
        findings.note("page not watched: no browser");
    }
    let (questions, is_over, done) = (Questions::default(), AtomicBool::new(false), AtomicUsize::new(0));
    let latencies = Mutex::new(Latencies::default());
    let log = options.log.as_ref().map(|log| log.with_extension(format!("{way}.jsonl")));
    let until = tick() + options.time;
    let watcher = Watcher { hub: &hub, screen: &screen, page: page.as_ref(), questions: &questions };
    let (persons, seen) = thread::scope(|scope| {
        let persons: Vec<_> = terminals
            .iter()
            .enumerate()
            .map(|(number, (project, terminal))| {
                let person = Person {
                    project,
                    terminal,
                    hub: &hub,
                    world: &world,
                    questions: &questions,
                    latencies: &latencies,
                };
                let done = &done;
                scope.spawn(move || person.work(number, tasks, until, done))
            })
            .collect();
        let watched = scope.spawn(|| watcher.watch(&is_over, log.as_deref()));
        let persons: Vec<_> = persons.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        (persons, watched.join())
    });
    for (outcome, project) in persons.into_iter().zip(PROJECTS) {
        let faults = outcome.map_err(|_| anyhow!("the person of {project} broke"))?;
        faults.with_context(|| format!("the person of {project}"))?;
    }
    let seen = seen.map_err(|_| anyhow!("the watcher broke"))??;
    for fault in &seen.faults {
        findings.fault(fault);
    }
    findings.same(format!("{way}: questions that stood on a screen"), seen.asked > 0, true);
    let heard = listener.end()?;
    findings.losses(way, &heard.losses);
    let Latencies { appeared, went } = &*lock(&latencies);
    let most = |all: &[Duration]| all.iter().max().map_or(0, Duration::as_millis);
    findings.note(format!(
        "{way}: {} questions, permissions and plans, known after at most {} ms; {} answers, known after at most {} ms",
        appeared.len(),
        most(appeared),
        went.len(),
        most(went)
    ));
    findings.note(format!(
        "{} tasks, {} looks, {} of them with a question on a screen, {} with an agent that has stalled, {} with one that has failed",
        done.load(Ordering::Relaxed),
        seen.looks,
        seen.asked,
        seen.stalled,
        seen.failed
    ));
    drop(terminals);
    hub.end()
}

/// A person at a terminal.
struct Person<'a> {
    project: &'static str,
    terminal: &'a Terminal<'a>,
    hub: &'a Hub,
    world: &'a World,
    questions: &'a Questions,
    latencies: &'a Mutex<Latencies>,
}

/// Latencies of the hub: from a question on a screen to a session that waits, and from the answer to one that does not.
#[derive(Debug, Default)]
struct Latencies {
    appeared: Vec<Duration>,
    went: Vec<Duration>,
}

impl Person<'_> {
    /// Does all tasks in turn until the time has passed; each person begins with another task.
    fn work(&self, number: usize, tasks: &[Task], until: Instant, done: &AtomicUsize) -> Result<()> {
        self.terminal.wait_for("the prompt", |screen| screen.contains('❯'))?;
        let mut client = Client::connect(Address::Tcp(self.hub.address))?;
        for round in 0.. {
            if round >= tasks.len() && tick() > until {
                return Ok(());
            }
            let task = tasks[(number + round) % tasks.len()];
            self.do_task(task, &mut client).with_context(|| format!("{task:?}"))?;
            done.fetch_add(1, Ordering::Relaxed);
            // A person reads for a while, each at another pace.
            thread::sleep(Duration::from_millis(1_500 + 700 * number as u64));
        }
        Ok(())
    }

    fn do_task(&self, task: Task, client: &mut Client) -> Result<()> {
        let before = self.tree(client)?.map_or(0, |tree| tree.agents.len());
        if task == Task::Plan {
            self.terminal.press("BTab")?;
            self.terminal.press("BTab")?;
            self.terminal.wait_for("plan mode", |screen| screen.contains("plan mode on"))?;
        }
        self.terminal.enter(task.prompt())?;
        match task {
            Task::Permission | Task::Question | Task::Plan => self.answer(client)?,
            Task::Stop => {
                let agent = self.wait_for(client, |tree| {
                    let agent =
                        tree.agents.iter().skip(before.max(1)).find(|agent| agent.status.is_live())?;
                    (agent.tool_calls > 0).then(|| agent.id.clone())
                })?;
                obey(self.world, &format!("stop {agent}"))?;
            }
            Task::Survey | Task::Silence | Task::Failure => {}
        }
        let has_agents = !matches!(task, Task::Question | Task::Plan);
        self.wait_for(client, |tree| {
            let is_at_rest = (tree.agents.len() > before.max(1) || !has_agents)
                && !tree.agents.iter().any(Agent::is_at_work);
            is_at_rest.then_some(())
        })
    }

    /// Answers what the screen asks, after a while. Notes how long the hub took to know of the question and of the answer.
    fn answer(&self, client: &mut Client) -> Result<()> {
        self.terminal.wait_for("a question", |screen| ASKS.iter().any(|asked| screen.contains(asked)))?;
        let asked = tick();
        lock(self.questions).insert(self.project);
        let waits = |tree: &Tree| tree.agents.iter().any(Agent::waits_for_person);
        self.wait_for(client, |tree| waits(tree).then_some(()))?;
        lock(self.latencies).appeared.push(asked.elapsed());
        self.check_jump(client)?;
        thread::sleep(AWAY.saturating_sub(asked.elapsed()));
        let answered = tick();
        lock(self.questions).remove(self.project);
        self.terminal.press("Enter")?;
        self.wait_for(client, |tree| (!waits(tree)).then_some(()))?;
        lock(self.latencies).went.push(answered.elapsed());
        Ok(())
    }

    /// Checks that the hub finds the terminal of the session; nothing shows it, so that going there changes nothing.
    fn check_jump(&self, client: &mut Client) -> Result<()> {
        let Some(tree) = self.tree(client)? else { return Ok(()) };
        let jumped = client.jump(&tree.session.id)?;
        let is_found = jumped.outcome == JumpOutcome::Detached && jumped.terminal.as_deref() == Some("tmux");
        anyhow::ensure!(is_found, "the terminal is not found: {jumped:?}");
        Ok(())
    }

    /// The tree of the session in the person's folder.
    fn tree(&self, client: &mut Client) -> Result<Option<Tree>> {
        let folder = self.world.path(self.project);
        let rows = client.sessions(&ListQuery::first(100))?.sessions;
        let row = rows.into_iter().find(|row| row.cwd.as_deref().map(Path::new) == Some(&folder));
        Ok(row.map(|row| client.tree(&row.id)).transpose()?.flatten())
    }

    /// Waits until the session's tree is as it should be.
    fn wait_for<T>(&self, client: &mut Client, is_so: impl Fn(&Tree) -> Option<T>) -> Result<T> {
        let began = tick();
        loop {
            let tree = self.tree(client)?;
            if let Some(found) = tree.as_ref().and_then(&is_so) {
                return Ok(found);
            }
            if began.elapsed() > LIMIT {
                let rows = tree.map(|tree| {
                    let rows =
                        tree.agents.iter().map(|agent| format!("{} {:?}", agent.title(), agent.status));
                    rows.collect::<Vec<_>>()
                });
                return Err(anyhow!("not at rest in {LIMIT:?}: {rows:?}"));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// What the page shows, by session.
#[derive(Clone, Debug, Default, Deserialize)]
struct PageState {
    title: String,
    waiting: Vec<SessionId>,
    needs: Vec<SessionId>,
    cards: Vec<SessionId>,
}

/// A browser with the page.
struct PageReader {
    child: Child,
    latest: Arc<Mutex<Option<PageState>>>,
}

impl PageReader {
    fn start(watch: &PageWatch, hub: &Hub) -> Result<Self> {
        let url = format!("http://{}/", hub.address);
        let mut command = Command::new("node");
        command.arg(&watch.script).arg(&watch.browser).arg(url).stdout(Stdio::piped()).stdin(Stdio::null());
        let mut child = command.spawn().context("cannot start node")?;
        let latest = Arc::new(Mutex::new(None));
        let (stdout, to) = (child.stdout.take().context("no output")?, Arc::clone(&latest));
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
                if let Ok(state) = serde_json::from_str(&line) {
                    *lock(&to) = Some(state);
                }
            }
        });
        Ok(Self { child, latest })
    }

    /// Waits until the browser shows the page: it starts slowly beside six agent programs.
    fn wait_for_page(&self) -> Result<()> {
        let began = tick();
        while lock(&self.latest).is_none() {
            if began.elapsed() > LIMIT {
                return Err(anyhow!("no page in the browser after {LIMIT:?}"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// What the page showed last; `None` before it is there.
    fn state(&self) -> Option<PageState> {
        lock(&self.latest).clone()
    }
}

impl Drop for PageReader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    looks: usize,
    asked: usize,
    stalled: usize,
    failed: usize,
    faults: Vec<String>,
}

/// Looks at both faces.
struct Watcher<'a> {
    hub: &'a Hub,
    screen: &'a Screen<'a>,
    page: Option<&'a PageReader>,
    questions: &'a Questions,
}

impl Watcher<'_> {
    fn watch(&self, is_over: &AtomicBool, log: Option<&Path>) -> Result<Seen> {
        let mut log = log.map(File::create).transpose()?;
        let mut client = Client::connect(Address::Tcp(self.hub.address))?;
        let mut seen = Seen::default();
        // What differs, and since when; an error that is reported once has no time.
        let mut differs: BTreeMap<String, Option<Instant>> = BTreeMap::new();
        self.screen.wait_for(LIMIT, |screen| PROJECTS.iter().any(|project| screen.contains(project)));
        self.screen.send(&["0"]);
        if let Some(page) = self.page {
            page.wait_for_page()?;
        }
        let began = tick();
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            let rows = client.sessions(&ListQuery::first(100))?.sessions;
            let project_of: BTreeMap<&SessionId, &str> = rows
                .iter()
                .filter_map(|row| {
                    let cwd = row.cwd.as_deref()?;
                    Some((&row.id, *PROJECTS.iter().find(|project| cwd.ends_with(**project))?))
                })
                .collect();
            let class_of: BTreeMap<&str, Attention> =
                rows.iter().filter_map(|row| Some((*project_of.get(&row.id)?, row.attention))).collect();
            let trees: Vec<Tree> =
                project_of.keys().filter_map(|id| client.tree(id).transpose()).collect::<Result<_, _>>()?;
            let text = self.screen.capture();
            let page = self.page.and_then(PageReader::state);
            let asking = lock(self.questions).clone();
            let agents = || trees.iter().flat_map(|tree| &tree.agents);
            seen.looks += 1;
            seen.asked += usize::from(!asking.is_empty());
            seen.stalled += usize::from(agents().any(|agent| agent.is_at_work() && agent.has(Flag::Stalled)));
            seen.failed += usize::from(agents().any(|agent| agent.status == AgentStatus::Failed));
            let listed = listed(&text);
            let of_hub = class_of.iter().filter(|(_, class)| **class == Attention::Waiting);
            let of_hub: BTreeSet<&str> = of_hub.map(|(project, _)| *project).collect();
            let mut wrong = not_first("terminal UI", &listed, &asking, &of_hub);
            wrong.extend(classes_in_order("terminal UI", &listed, &class_of));
            wrong.extend(of_hub.difference(&asking).map(|project| format!("hub: {project} does not ask")));
            wrong.extend(asking.difference(&of_hub).map(|project| format!("hub: {project} asks")));
            if let Some(page) = &page {
                let named = |ids: &[SessionId]| -> Vec<&str> {
                    let mut named: Vec<&str> = Vec::new();
                    for project in ids.iter().filter_map(|id| project_of.get(id).copied()) {
                        if !named.contains(&project) {
                            named.push(project);
                        }
                    }
                    named
                };
                wrong.extend(not_first("page, needs", &named(&page.needs), &asking, &of_hub));
                let cards = named(&page.cards);
                wrong.extend(not_first("page, cards", &cards, &asking, &of_hub));
                wrong.extend(classes_in_order("page, cards", &cards, &class_of));
                let strangers = named(&page.waiting).into_iter().filter(|project| !asking.contains(project));
                wrong.extend(strangers.map(|project| format!("page: {project} does not ask")));
                let marked = page.title.starts_with('(');
                wrong.extend(
                    (!asking.is_empty() && !marked).then(|| "page: its title has no mark".to_owned()),
                );
            }
            if let Some(log) = &mut log {
                let page = page.as_ref().map(|page| json!({ "title": page.title, "needs": page.needs }));
                let line = json!({
                    "s": began.elapsed().as_secs(), "asking": asking, "terminal": listed, "page": page,
                    "wrong": wrong,
                });
                writeln!(log, "{line}")?;
            }
            differs.retain(|what, _| wrong.contains(what));
            for what in wrong {
                let since = differs.entry(what.clone()).or_insert_with(|| Some(tick()));
                if since.is_some_and(|since| since.elapsed() > GRACE) {
                    *since = None;
                    let at = began.elapsed().as_secs();
                    seen.faults.push(format!("at {at} s: {what} for {GRACE:?}; the terminal UI:\n{text}"));
                }
            }
        }
        Ok(seen)
    }
}

/// Projects from top to bottom of a screen without its footer.
fn listed(screen: &str) -> Vec<&'static str> {
    let count = screen.lines().count();
    let mut found = Vec::new();
    for line in screen.lines().take(count.saturating_sub(2)) {
        for project in PROJECTS {
            if line.contains(project) && !found.contains(&project) {
                found.push(project);
            }
        }
    }
    found
}

/// Returns an error for each session that asks and stands in a list below one that neither asks nor, as the hub knows,
/// waits.
fn not_first(face: &str, listed: &[&str], asking: &BTreeSet<&str>, waiting: &BTreeSet<&str>) -> Vec<String> {
    let is_first = |project: &&&str| asking.contains(**project) || waiting.contains(**project);
    let first: BTreeSet<&str> = listed.iter().take_while(is_first).copied().collect();
    asking
        .difference(&first)
        .map(|project| format!("{face}: {project} asks and is not among the first"))
        .collect()
}

/// Returns an error if a session is listed above one that needs a person more urgently.
fn classes_in_order(face: &str, listed: &[&str], class_of: &BTreeMap<&str, Attention>) -> Option<String> {
    let known = || listed.iter().filter_map(|project| Some((project, class_of.get(project)?)));
    let mut pairs = known().zip(known().skip(1));
    // Sessions that ended unread are listed above sessions at work.
    let (above, below) = pairs.find(|((_, above), (_, below))| above > below && **below < Attention::Live)?;
    Some(format!("{face}: {above:?} stands above {below:?}"))
}
