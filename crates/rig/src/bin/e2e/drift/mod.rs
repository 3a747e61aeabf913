//! `e2e --harness NAME --program PATH --subscope PATH`: any harness plays two scripts, and the tree of its files is
//! compared with the log of the fake model server. `cargo xtask drift` installs the harness, builds subscope and runs
//! this.

mod compare;
mod harness;
mod live;
mod script;
mod stopping;
mod watch;

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use harness::Harness;
use script::{Played, Script};
use serde_json::json;
use subscope_model::Tree;
use subscope_rig::tick;

use crate::{
    finding::Findings,
    world::{Ended, POLL, Programs, World},
};

/// Timeout until a session's tree shows its end.
const LIMIT: Duration = Duration::from_secs(20);

/// The scripts.
const SCRIPTS: [&str; 2] = ["parallel", "endings"];

/// Plays all scripts, or what is live; fails if something is wrong. Its last line is JSON: what was played, and what is
/// wrong.
pub(crate) fn all(name: &str, programs: &Programs, is_live: bool) -> Result<()> {
    let mut played = Vec::new();
    let mut is_right = true;
    for harness in Harness::named(name)? {
        let scripts: &[&str] = if is_live { &["live"] } else { &SCRIPTS };
        for script in scripts {
            let mut findings = Findings::default();
            let summary = if is_live {
                live::play(*harness, programs, &mut findings).map(|()| None)
            } else {
                play(*harness, programs, script, &mut findings).map(|tree| Some(tree.summary))
            };
            // What cannot be played to its end is wrong, too.
            let summary = summary.inspect_err(|error| findings.fault(format!("{error:#}"))).ok().flatten();
            is_right &= findings.print(&format!("{name} {}: {script}", harness.variant())) == 0;
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
    let stage = Stage::set(harness, programs, name)?;
    for at in 0..stage.script.prompts.len() {
        live::check_end(&stage.run(at)?, findings);
    }
    let tree = settled(&stage.world)?;
    compare::compare(harness, &stage.script, &stage.played, &stage.world.stand_in.log(), &tree, findings);
    let summary = &tree.summary;
    let tokens = summary.usage.map_or(0, |usage| usage.total_tokens);
    let s = if summary.agents == 1 { "" } else { "s" };
    findings.note(format!("{} agent{s}, {} calls, {tokens} tokens", summary.agents, summary.tool_calls));
    Ok(tree)
}

/// A harness with a script, about to play it.
struct Stage {
    harness: Harness,
    script: Script,
    played: Played,
    world: World,
    program: PathBuf,
}

impl Stage {
    fn set(harness: Harness, programs: &Programs, name: &str) -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/drift").join(name);
        let script = Script::load(&path.with_extension("toml"))?;
        let script = if harness.resumes() { script } else { script.of_first_process() };
        let played = script.played_by(harness);
        let world = World::of(programs, played.scenario.clone(), |url| harness.variables(url))?;
        harness.configure(world.env(), &world.stand_in.url(), &programs.harness)?;
        Ok(Self { harness, script, played, world, program: programs.harness.clone() })
    }

    /// The harness's arguments for one of the prompts.
    fn arguments(&self, at: usize) -> Vec<String> {
        let prompt = self.script.prompts.get(at).map(String::as_str).unwrap_or_default();
        self.harness.arguments(prompt, at > 0)
    }

    /// Runs the harness with one of the prompts.
    fn run(&self, at: usize) -> Result<Ended> {
        let mut command = self.world.other(&self.program);
        command.args(self.arguments(at));
        self.world.run(command)
    }
}

/// The tree of the played session, after its end.
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
