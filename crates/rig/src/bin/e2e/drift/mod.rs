//! `e2e --harness NAME --program PATH --subscope PATH`: any harness plays two scripts, and the tree of its files is
//! compared with the log of the stand-in. `cargo xtask drift` installs the one, builds the other and runs this.

mod compare;
mod harness;
mod script;

use std::{path::Path, thread, time::Duration};

use anyhow::{Context, Result, bail};
use harness::Harness;
use script::Script;
use serde_json::json;
use subscope_model::Tree;
use subscope_rig::tick;

use crate::{
    finding::Findings,
    world::{POLL, Programs, World},
};

/// How long a session may take until its tree says that it is over.
const LIMIT: Duration = Duration::from_secs(10);

/// The scripts.
const SCRIPTS: [&str; 2] = ["parallel", "endings"];

/// Plays all scripts; fails if something is wrong. Its last line is JSON: what was played, and what is wrong.
pub(crate) fn all(name: &str, programs: &Programs) -> Result<()> {
    let mut played = Vec::new();
    let mut is_right = true;
    for harness in Harness::named(name)? {
        for script in SCRIPTS {
            let mut findings = Findings::default();
            // What cannot be played to its end is wrong, too.
            let tree = play(*harness, programs, script, &mut findings);
            let tree = tree.inspect_err(|error| findings.fault(format!("{error:#}"))).ok();
            is_right &= findings.print(&format!("{script} {}", harness.variant())) == 0;
            let summary = tree.map(|tree| tree.summary);
            played.push(json!({"script": script, "variant": harness.variant(), "faults": findings.faults(),
                "agents": summary.as_ref().map(|it| it.agents), "calls": summary.as_ref().map(|it| it.tool_calls)}));
        }
    }
    println!("{}", json!(played));
    if !is_right {
        bail!("{name} is not read right");
    }
    Ok(())
}

fn play(harness: Harness, programs: &Programs, name: &str, findings: &mut Findings) -> Result<Tree> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/drift").join(name);
    let script = Script::load(&path.with_extension("toml"))?;
    let played = script.played_by(harness);
    let world = World::of(programs, played.scenario.clone(), |url| harness.variables(url))?;
    harness.configure(world.env(), &world.stand_in.url())?;
    for (at, prompt) in script.prompts.iter().enumerate() {
        let mut command = world.other(&programs.harness);
        command.args(harness.arguments(prompt, at > 0));
        let ended = world.run(command)?;
        findings.same("exit code", ended.status.code(), Some(0));
        if !ended.status.success() {
            findings.fault(ended.stderr.lines().rev().take(5).collect::<Vec<_>>().join(" / "));
        }
    }
    let tree = settled(&world)?;
    compare::compare(harness, &script, &played, &world.stand_in.log(), &tree, findings);
    let summary = &tree.summary;
    let tokens = summary.usage.map_or(0, |usage| usage.total_tokens);
    let s = if summary.agents == 1 { "" } else { "s" };
    findings.note(format!("{} agent{s}, {} calls, {tokens} tokens", summary.agents, summary.tool_calls));
    Ok(tree)
}

/// The tree of the session that was played, once it is over.
fn settled(world: &World) -> Result<Tree> {
    let began = tick();
    loop {
        let shown = world.run(world.subscope("tree last --json"))?;
        let tree: Tree =
            serde_json::from_slice(&shown.stdout).with_context(|| format!("tree last: {}", shown.stderr))?;
        if tree.agents.iter().all(|agent| !agent.status.is_live()) || began.elapsed() > LIMIT {
            return Ok(tree);
        }
        thread::sleep(POLL);
    }
}
