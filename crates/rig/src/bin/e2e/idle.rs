//! Interactive Claude Code in a terminal that repeatedly waits for the user: with hooks, and with its files only.

use std::{path::Path, thread, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;
use subscope_model::{AgentStatus, Flag, LivenessKind, Tree};
use subscope_rig::tick;

use crate::{
    finding::Findings,
    heard::Listener,
    served::{Hub, obey},
    terminal::Terminal,
    world::{POLL, Programs, World},
};

/// Silence that is a stall.
pub(crate) const STALL: Duration = Duration::from_secs(3);
/// How long a person thinks, in such spans.
pub(crate) const SPANS: u32 = 4;

/// What a person does in turn, with what the screen shows when it is done.
const STEPS: [(&str, &str); 6] = [
    ("Say hello to the shop.", "Hello, shop."),
    ("/context", "Estimated usage by category"),
    ("! echo $((40 + 2))", "42"),
    ("/compact", "Compacted"),
    ("/clear", ""),
    ("Say it once more.", "Hello again."),
];

/// Plays it with hooks and without.
pub(crate) fn play(programs: &Programs, script: &Path, findings: &mut Findings) -> Result<()> {
    for is_hooked in [true, false] {
        let (world, hub, listener) = begin(programs, script, is_hooked)?;
        let Some(terminal) = Terminal::start(&world, &[])? else {
            findings.note("skipped: tmux is not installed");
            return Ok(());
        };
        let way = if is_hooked { "hooks" } else { "files" };
        terminal.wait_for("the prompt", |screen| screen.contains('❯'))?;
        rest(&world, &format!("{way}, opened"), is_hooked, findings)?;
        for (words, shows) in STEPS {
            terminal.enter(words)?;
            // Output appears below the typed command; `/clear` removes both.
            terminal.wait_for(words, |screen| match shows {
                "" => !screen.contains("Compacted"),
                shows => screen.contains(shows),
            })?;
            rest(&world, &format!("{way}, after {words}"), is_hooked, findings)?;
        }
        terminal.enter("/exit")?;
        terminal.wait_for_end()?;
        let heard = listener.end()?;
        let stalls: Vec<String> = heard.stalls.iter().map(|event| event.data.to_string()).collect();
        findings.same(format!("{way}: stalls"), stalls, vec![]);
        findings.losses(way, &heard.losses);
        // The hub looks at processes twice a second.
        let began = tick();
        let is_over = |tree: &Tree| tree.agents.first().is_some_and(|root| root.liveness.is_none());
        let mut trees = self::trees(&world)?;
        while !trees.iter().all(is_over) && began.elapsed() < STALL {
            thread::sleep(POLL);
            trees = self::trees(&world)?;
        }
        findings.same(format!("{way}: sessions"), trees.len(), 2);
        for tree in &trees {
            let root = tree.agents.first().context("a tree without a root")?;
            findings.same(format!("{way}: at the end"), root.status, AgentStatus::Completed);
            findings.same(format!("{way}: liveness at the end"), root.liveness.clone(), None);
            findings.same(format!("{way}: runs"), tree.session.runs, 1);
        }
        hub.end()?;
        findings.note(format!("{way}: {} pauses of {:?}", STEPS.len() + 1, STALL * SPANS));
    }
    Ok(())
}

/// Makes a world with a hub whose limit of silence is [`STALL`], and with hooks if wanted.
pub(crate) fn begin(programs: &Programs, script: &Path, is_hooked: bool) -> Result<(World, Hub, Listener)> {
    let world = World::new(programs, script)?;
    let limit = STALL.as_secs();
    let serve = format!("serve --listen 127.0.0.1:0 --stall {limit}s --stall-subagents {limit}s");
    let hub = Hub::start(world.subscope(&serve))?;
    if is_hooked {
        obey(&world, "hooks install --scope user")?;
    }
    let listener = Listener::start(hub.address)?;
    Ok((world, hub, listener))
}

/// A person thinks: in the meantime no agent is at work, stalled or lost, and with hooks the newest session waits for a
/// prompt.
fn rest(world: &World, when: &str, is_hooked: bool, findings: &mut Findings) -> Result<()> {
    let began = tick();
    while began.elapsed() < STALL * SPANS {
        thread::sleep(POLL);
    }
    let listed: Value = serde_json::from_slice(&world.run(world.subscope("ls --json"))?.stdout)?;
    for session in listed["sessions"].as_array().into_iter().flatten() {
        findings.same(format!("{when}: ls"), session["status"].as_str(), Some("ended"));
    }
    let status: Value = serde_json::from_slice(&world.run(world.subscope("status --json"))?.stdout)?;
    for figure in ["running", "stalled", "waiting_for_permission"] {
        findings.same(format!("{when}: status: {figure}"), status[figure].as_u64(), Some(0));
    }
    let mut is_idle = false;
    for tree in trees(world)? {
        let root = tree.agents.first().context("a tree without a root")?;
        findings.same(format!("{when}: stalled"), root.has(Flag::Stalled), false);
        findings.same(format!("{when}: at work"), root.is_at_work(), false);
        findings.same(format!("{when}: lost"), root.status == AgentStatus::Lost, false);
        is_idle |= root.liveness.as_ref().is_some_and(|live| live.kind == LivenessKind::Idle);
    }
    if is_hooked {
        findings.same(format!("{when}: idle"), is_idle, true);
    }
    Ok(())
}

/// The trees of all sessions.
pub(crate) fn trees(world: &World) -> Result<Vec<Tree>> {
    let listed: Value = serde_json::from_slice(&world.run(world.subscope("ls --json"))?.stdout)?;
    let ids = listed["sessions"].as_array().into_iter().flatten().filter_map(|row| row["id"].as_str());
    ids.map(|id| world.tree(Path::new(id))).collect()
}
