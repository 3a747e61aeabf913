//! A person with agents at a terminal, with hooks and with files only: an agent asks for permission, the main thread asks
//! a question, another is interrupted by Esc, a third works in the background, and the session is resumed. At each moment the state of every
//! agent and of the root is compared with what the screen shows.

use std::{path::Path, thread};

use anyhow::{Context, Result};
use subscope_model::{AgentStatus, Attention, Flag, LivenessKind, Tree};
use subscope_rig::tick;

use crate::{
    finding::Findings,
    idle::{SPANS, STALL, begin, trees},
    terminal::Terminal,
    world::{POLL, Programs, World},
};

/// Each command has to be allowed by the person; as root Claude Code refuses to skip permissions altogether.
const MODE: [&str; 4] = ["--permission-mode", "default", "--allowedTools", "Agent,Task,Read"];

/// Plays it with hooks and without.
pub(crate) fn play(programs: &Programs, script: &Path, findings: &mut Findings) -> Result<()> {
    for way in ["hooks", "files"] {
        let (world, hub, listener) = begin(programs, script, way == "hooks")?;
        let Some(terminal) = Terminal::start(&world, &MODE)? else {
            findings.note("skipped: tmux is not installed");
            return Ok(());
        };
        terminal.wait_for("the prompt", |screen| screen.contains('❯'))?;
        let session = moments(&world, &terminal, way, findings)?;
        drop(terminal);
        if let Some(terminal) = Terminal::start(&world, &[&MODE[..], &["--resume", &session]].concat())? {
            terminal.wait_for("the session of before", |screen| screen.contains("The stock is sound."))?;
            terminal.enter("Say it once more.")?;
            terminal.wait_for("an answer", |screen| screen.contains("Hello again."))?;
            let when = format!("{way}, resumed");
            let tree = rest(&world, &when, findings)?;
            is_waiting_for_a_person(&tree, &when, way, findings);
            terminal.enter("/exit")?;
            terminal.wait_for_end()?;
            findings.same(format!("{when}: sessions"), trees(&world)?.len(), 1);
        }
        let heard = listener.end()?;
        let of_root = heard.stalls.iter().filter(|event| event.actor_id.0.is_root());
        let of_root: Vec<String> =
            of_root.map(|event| format!("{} at {:?}", event.data, event.at_ms)).collect();
        findings.same(format!("{way}: stalls of the root"), of_root, vec![]);
        findings.losses(way, &heard.losses);
        hub.end()?;
        findings.note(format!("{way}: permission, question, plan, Esc, background, resume"));
    }
    Ok(())
}

/// Plays the first session; returns its id.
fn moments(world: &World, terminal: &Terminal<'_>, way: &str, findings: &mut Findings) -> Result<String> {
    // An agent asks for permission, and the person is away.
    terminal.enter("Check the prices with an agent.")?;
    terminal.wait_for("a question", |screen| screen.contains("Do you want to proceed?"))?;
    let when = format!("{way}, asked for permission");
    let tree = rest(world, &when, findings)?;
    agent(&tree, "Prices", AgentStatus::Running, &when, findings);
    asks(&tree, Some("Prices"), LivenessKind::Permission, &when, findings);
    terminal.press("Enter")?;
    let tree = until(world, |tree| tree.summary.attention != Attention::Waiting)?;
    let when = format!("{way}, permission granted");
    findings.same(format!("{when}: runs"), waits_for(&tree, Some("Prices")), Some(LivenessKind::Tool));
    terminal.wait_for("the notification", |screen| screen.contains("The prices are back."))?;
    let when = format!("{way}, after the permission");
    let tree = rest(world, &when, findings)?;
    agent(&tree, "Prices", AgentStatus::Completed, &when, findings);
    is_waiting_for_a_prompt(&tree, &when, way, findings);

    // The main thread asks the person something.
    terminal.enter("Ask me for a currency.")?;
    terminal
        .wait_for("a question", |screen| screen.contains("Which currency?") && screen.contains("Euro"))?;
    let when = format!("{way}, asked a question");
    asks(&rest(world, &when, findings)?, None, LivenessKind::Question, &when, findings);
    terminal.press("Enter")?;
    terminal.wait_for("thanks", |screen| screen.contains("Thank you for the currency."))?;
    let when = format!("{way}, after the question");
    is_waiting_for_a_prompt(&rest(world, &when, findings)?, &when, way, findings);

    // The main thread shows a plan.
    terminal.press("BTab")?;
    terminal.press("BTab")?;
    terminal.wait_for("plan mode", |screen| screen.contains("plan mode on"))?;
    terminal.enter("Plan the release.")?;
    terminal.wait_for("a plan", |screen| screen.contains("exit plan mode"))?;
    let when = format!("{way}, shown a plan");
    asks(&rest(world, &when, findings)?, None, LivenessKind::Plan, &when, findings);
    terminal.press("Enter")?;
    terminal.wait_for("agreement", |screen| screen.contains("The plan is agreed."))?;
    let when = format!("{way}, after the plan");
    is_waiting_for_a_prompt(&rest(world, &when, findings)?, &when, way, findings);

    // The person interrupts the main thread; its agent works on in the background.
    terminal.enter("Take your time with an agent.")?;
    until(world, |tree| status(tree, "Documents") == Some(AgentStatus::Running))?;
    terminal.press("Escape")?;
    terminal.wait_for("the interruption", |screen| screen.contains("Interrupted"))?;
    let when = format!("{way}, after Esc");
    let tree = rest(world, &when, findings)?;
    agent(&tree, "Documents", AgentStatus::Running, &when, findings);

    // Another works in the background while the main thread waits for a prompt.
    terminal.enter("Check the stock in the background.")?;
    terminal.wait_for("the answer", |screen| screen.contains("It is at work."))?;
    let when = format!("{way}, work in the background");
    let tree = until(world, |tree| !tree.agents.first().is_none_or(|root| root.is_at_work()))?;
    agent(&tree, "Stock", AgentStatus::Running, &when, findings);
    is_waiting_for_a_person(&tree, &when, way, findings);
    terminal.wait_for("the notification", |screen| screen.contains("The stock is sound."))?;
    let when = format!("{way}, after the notification");
    let tree = rest(world, &when, findings)?;
    agent(&tree, "Stock", AgentStatus::Completed, &when, findings);
    agent(&tree, "Documents", AgentStatus::Running, &when, findings);
    terminal.enter("/exit")?;
    terminal.wait_for("a warning", |screen| screen.contains("Exit and stop tasks"))?;
    terminal.press("Enter")?;
    terminal.wait_for_end()?;
    let when = format!("{way}, after the exit");
    let tree = rest(world, &when, findings)?;
    findings.same(format!("{when}: agents"), tree.agents.len(), 4);
    // The program writes nothing about the agent that it stops: a hook or the end of the process reports the session's
    // end.
    agent(&tree, "Documents", AgentStatus::Lost, &when, findings);
    findings.same(
        format!("{when}: root at work"),
        tree.agents.first().is_some_and(|root| root.is_at_work()),
        false,
    );
    Ok(tree.session.id.to_string())
}

/// A person thinks for longer than a stall takes. Returns the tree of the one session afterwards, whose root has neither
/// stalled nor is lost.
fn rest(world: &World, when: &str, findings: &mut Findings) -> Result<Tree> {
    let began = tick();
    while began.elapsed() < STALL * SPANS {
        thread::sleep(POLL);
    }
    let tree = trees(world)?.pop().context("no session")?;
    let root = tree.agents.first().context("a tree without a root")?;
    findings.same(format!("{when}: root stalled"), root.has(Flag::Stalled), false);
    findings.same(format!("{when}: root lost"), root.status == AgentStatus::Lost, false);
    Ok(tree)
}

/// Waits until the one session is as it should be; returns its tree.
fn until(world: &World, is_so: impl Fn(&Tree) -> bool) -> Result<Tree> {
    let began = tick();
    loop {
        let tree = trees(world)?.pop();
        if let Some(tree) = tree.filter(|tree| is_so(tree) || began.elapsed() > STALL * SPANS) {
            return Ok(tree);
        }
        thread::sleep(POLL);
    }
}

fn status(tree: &Tree, description: &str) -> Option<AgentStatus> {
    let found = tree.agents.iter().find(|agent| agent.description.as_deref() == Some(description));
    found.map(|agent| agent.status)
}

/// What an agent waits for; the root if none is named.
fn waits_for(tree: &Tree, description: Option<&str>) -> Option<LivenessKind> {
    let mut agents = tree.agents.iter();
    let found = match description {
        Some(_) => agents.find(|agent| agent.description.as_deref() == description),
        None => agents.next(),
    };
    found.and_then(|agent| agent.liveness.as_ref()).map(|liveness| liveness.kind)
}

fn agent(tree: &Tree, description: &str, wanted: AgentStatus, when: &str, findings: &mut Findings) {
    findings.same(format!("{when}: {description}"), status(tree, description), Some(wanted));
}

/// An agent, or the root, waits for the person, as a source reports, and nobody else does.
fn asks(tree: &Tree, description: Option<&str>, kind: LivenessKind, when: &str, findings: &mut Findings) {
    findings.same(format!("{when}: waits for"), waits_for(tree, description), Some(kind));
    findings.same(format!("{when}: attention"), tree.summary.attention, Attention::Waiting);
    let waiting = tree.agents.iter().filter(|agent| agent.waits_for_person()).count();
    findings.same(format!("{when}: agents that wait for the person"), waiting, 1);
}

/// Nothing is at work, and the root waits for the person.
fn is_waiting_for_a_prompt(tree: &Tree, when: &str, way: &str, findings: &mut Findings) {
    for agent in &tree.agents {
        findings.same(format!("{when}: {} at work", agent.id), agent.is_at_work(), false);
    }
    is_waiting_for_a_person(tree, when, way, findings);
}

/// The root is not at work, even if its agents work in the background; with hooks it is idle.
fn is_waiting_for_a_person(tree: &Tree, when: &str, way: &str, findings: &mut Findings) {
    findings.same(
        format!("{when}: root at work"),
        tree.agents.first().is_some_and(|root| root.is_at_work()),
        false,
    );
    if way == "hooks" {
        findings.same(format!("{when}: root"), waits_for(tree, None), Some(LivenessKind::Idle));
    }
}
