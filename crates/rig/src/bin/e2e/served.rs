//! A scenario under `serve` with hooks installed: live, and at the end.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use subscope_client::{Address, Client, Queries as _};
use subscope_model::{SessionId, Tree};
use subscope_rig::{Scenario, tick};

use crate::{
    blocks,
    finding::Findings,
    heard::{Heard, Listener},
    truth::{self, Known},
    world::{POLL, Programs, World},
};

/// How long the hub may take to know all that the transcript says: far more than it needs.
const LIMIT: Duration = Duration::from_secs(20);

/// A settings file before hooks are added to it, oddly formatted.
pub(crate) const SETTINGS: &str =
    "{ \"includeCoAuthoredBy\":false,\n\n\t\"permissions\" : {\"deny\":[ \"WebFetch\" ]} }";

/// Plays a scenario.
pub(crate) fn play(programs: &Programs, script: &Path, at: usize, findings: &mut Findings) -> Result<()> {
    let world = World::new(programs, script)?;
    // Each scope has its turn, and a file to add to as well as none.
    let (scope, file) = if at.is_multiple_of(2) { ("user", "home") } else { ("project", "work") };
    if at % 4 < 2 {
        world.write(&format!("{file}/.claude/settings.json"), SETTINGS);
    }
    let before = world.settings();
    let limits = limits(&world.scenario);
    let hub = Hub::start(world.subscope(&format!("serve --listen 127.0.0.1:0 {limits}")))?;
    // One in four posts its events itself, the others run a command for each.
    let (way, options) = match at % 4 {
        3 => ("HTTP", format!("--http --url http://{}", hub.address)),
        _ => ("command", String::new()),
    };
    obey(&world, &format!("hooks install --scope {scope} {options}"))?;
    if world.settings() == before {
        bail!("hooks install changed no settings");
    }
    let listener = Listener::start(hub.address)?;
    let watch = Background::start(world.subscope("watch"), &world.path("blocks"))?;
    let ended = world.run(world.claude())?;
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    if ended.status.code() != Some(world.scenario.exit_code)
        || !printed.trim_end().ends_with(&world.scenario.ends_with)
    {
        findings.fault(format!("claude: {}, {printed:?}, {:?}", ended.status, ended.stderr));
    }
    let transcript = world.transcript()?;
    let wanted = world.tree(&transcript)?;
    let tree = settled(&hub, &wanted)?;
    let heard = listener.end()?;
    for difference in truth::differences(&tree, &wanted) {
        findings.fault(format!("the hub's tree: {difference}"));
    }
    let log = world.stand_in.log();
    let known = truth::known(&world.scenario, &log);
    truth::compare(&known, &tree, findings);
    findings.add(watched(&world, &known, &tree)?);
    drop(watch);
    hub.end()?;
    let delays = delays(&known, &heard, findings);
    stalls(&world, &known, &heard, findings);
    obey(&world, &format!("hooks remove --scope {scope}"))?;
    findings.same("settings after hooks remove", world.settings(), before);
    if heard.hooked == 0 {
        findings.fault("no event came by a hook");
    }
    findings.same("events that the live feed left out", heard.missed, 0);
    findings.losses("serve", &heard.losses);
    findings.same("requests for anything but the model", world.stand_in.others(), vec![]);
    let summary = &tree.summary;
    let tokens = summary.usage.map_or(0, |usage| usage.total_tokens);
    let s = if summary.agents == 1 { "" } else { "s" };
    findings.note(format!("{} agent{s}, {} calls, {tokens} tokens", summary.agents, summary.tool_calls));
    findings.note(format!(
        "serve, {way} hooks in {scope} settings ({} events first by them): {:.1} s",
        heard.hooked,
        ended.took.as_secs_f64()
    ));
    findings.note(format!("live after {}; {} changed rows", list(&delays), heard.losses.compared));
    Ok(())
}

/// The options that set limits of silence, where the script has agents that pass them.
pub(crate) fn limits(scenario: &Scenario) -> &'static str {
    if scenario.stalls.is_empty() { "" } else { "--stall 3s --stall-subagents 3s" }
}

/// Runs subscope, which must succeed.
pub(crate) fn obey(world: &World, words: &str) -> Result<()> {
    let ended = world.run(world.subscope(words))?;
    if !ended.status.success() {
        bail!("subscope {words}: {}: {}", ended.status, ended.stderr);
    }
    Ok(())
}

/// Waits until the hub's tree is the one that the transcript says; returns the last that it gave.
fn settled(hub: &Hub, wanted: &Tree) -> Result<Tree> {
    let session = SessionId::from(wanted.session.id.as_str());
    let mut client = Client::connect(Address::Tcp(hub.address))?;
    let began = tick();
    loop {
        let tree = client.tree(&session)?;
        if let Some(tree) = tree
            && (truth::differences(&tree, wanted).is_empty() || began.elapsed() > LIMIT)
        {
            return Ok(tree);
        }
        if began.elapsed() > LIMIT {
            bail!("the hub does not know session {session}");
        }
        thread::sleep(POLL);
    }
}

/// How long after the call that starts it each subagent was running in the live tree.
fn delays(known: &BTreeMap<String, Known>, heard: &Heard, findings: &mut Findings) -> Vec<Duration> {
    let mut delays = Vec::new();
    for agent in known.values() {
        let Some((_, told)) = agent.spawn.as_ref() else { continue };
        let seen = heard.live.iter().find(|(id, _)| id.as_str() == agent.id);
        match seen.map(|(_, seen): (_, &Instant)| seen.saturating_duration_since(*told)) {
            Some(delay) => delays.push(delay),
            None => findings.fault(format!("{}: was never shown at work", agent.actor)),
        }
    }
    delays
}

/// Compares what the feed said of stalls with what the script says.
fn stalls(world: &World, known: &BTreeMap<String, Known>, heard: &Heard, findings: &mut Findings) {
    let actor = |id: &str| known.get(id).map_or_else(|| id.to_owned(), |known| known.actor.clone());
    let told: Vec<(String, String)> = heard
        .stalls
        .iter()
        .map(|event| {
            let text = |name: &str| event.text(name).unwrap_or_default();
            (actor(text("agent_id")), text("waiting_for").to_owned())
        })
        .collect();
    let wanted: Vec<_> = world.scenario.stalls.clone().into_iter().collect();
    if !told.is_empty() {
        let told: Vec<_> = told.iter().map(|(who, what)| format!("{who} waits for {what}")).collect();
        findings.note(format!("stalled: {}", told.join(", ")));
    }
    findings.same("stalls", told, wanted);
}

fn list(delays: &[Duration]) -> String {
    let mut delays: Vec<_> = delays.iter().map(Duration::as_millis).collect();
    delays.sort_unstable();
    format!("{} ms", delays.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Waits until `watch` has printed all that it must; returns what of it is wrong in the end.
fn watched(world: &World, known: &BTreeMap<String, Known>, tree: &Tree) -> Result<Findings> {
    let began = tick();
    loop {
        let text = fs::read_to_string(world.path("blocks"))?;
        let findings = blocks::compare("watch", &text, &world.scenario, known, tree);
        if findings.is_right() || began.elapsed() > LIMIT {
            return Ok(findings);
        }
        thread::sleep(POLL);
    }
}

/// A `serve` that runs.
pub(crate) struct Hub {
    process: Background,
    pub(crate) address: SocketAddr,
}

impl Hub {
    /// Starts it and waits until it answers.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        command.stdout(Stdio::piped());
        let mut process = Background::of(command)?;
        let mut line = String::new();
        if let Some(stdout) = process.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        match line.trim().strip_prefix("http://").and_then(|address| address.parse().ok()) {
            Some(address) => Ok(Self { process, address }),
            None => bail!("serve said {line:?}"),
        }
    }

    /// Ends it as a person would.
    pub(crate) fn end(self) -> Result<()> {
        self.process.end()
    }
}

/// A program that runs until it is asked to end, or is dropped.
struct Background {
    child: Child,
}

impl Background {
    /// Starts it with its output in a file.
    fn start(mut command: Command, output: &Path) -> Result<Self> {
        command.stdout(fs::File::create(output)?);
        Self::of(command)
    }

    fn of(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child })
    }

    /// Asks it to end, which it must do with exit code 0.
    fn end(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("a program that was told to end ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // One that was asked to end has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
