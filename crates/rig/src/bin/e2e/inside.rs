//! Nested runs: their events arrive at the outermost run, below their parent agents.

use std::{path::Path, thread, time::Duration};

use anyhow::Result;
use subscope_model::{AgentStatus, Tree};
use subscope_rig::tick;

use crate::{
    finding::Findings,
    world::{POLL, Programs, World},
};

/// How long the hub may take to know what was acknowledged.
const LIMIT: Duration = Duration::from_secs(20);

/// What the agent's shell runs: a worker that is observed, and below it another.
const WORKERS: &str = r#"set -e
post() { subscope publish --type "$1" --name "$2" --run-id "$3"; }
post subagent_start outer w1
export SUBSCOPE_PARENT_RUN_ID=w1
subscope run --no-store -q -- sh -c 'subscope publish --type subagent_start --name inner --run-id w2
subscope run --no-store -q -- subscope publish --type tool_call --name inner --run-id w2 --tool Read --call-id c1 --payload "{}"
subscope publish --type tool_result --name inner --run-id w2 --tool Read --call-id c1 --payload read
subscope publish --type subagent_end --name inner --run-id w2'
unset SUBSCOPE_PARENT_RUN_ID
post subagent_end outer w1
"#;

/// Plays it once, under `run`.
pub(crate) fn play(programs: &Programs, script: &Path, findings: &mut Findings) -> Result<()> {
    let world = World::new(programs, script)?;
    world.write("work/workers.sh", WORKERS);
    let mut command = world.subscope("run --");
    command.env_remove("SUBSCOPE_NO_AUTOSTART").arg(world.path("bin/claude")).args(world.arguments());
    let ended = world.run(command)?;
    findings.same("inside: exit code", ended.status.code(), Some(world.scenario.exit_code));
    let printed = String::from_utf8_lossy(&ended.stdout).trim_end().to_owned();
    findings.same("inside: stdout", printed, world.scenario.ends_with.clone());
    for words in ["▶ outer", "▶ inner", "inner → Read", "✓ inner", "✓ outer"] {
        if !ended.stderr.contains(words) {
            findings.fault(format!("inside: {words:?} is not told: {}", ended.stderr));
        }
    }
    let session = world.tree(&world.transcript()?)?.session.id.to_string();
    let wanted = [("w1", Some("root"), 1), ("w2", Some("w1"), 2)];
    let began = tick();
    let tree = loop {
        let tree = world.tree(Path::new(&session))?;
        if posted(&tree).len() == wanted.len() || began.elapsed() > LIMIT {
            break tree;
        }
        thread::sleep(POLL);
    };
    let wanted = wanted
        .map(|(id, parent, depth)| (id.to_owned(), parent.map(str::to_owned), depth, AgentStatus::Completed));
    findings.same("inside: agents that were posted", posted(&tree), wanted.to_vec());
    findings.note(format!(
        "runs in a run, 2 agents posted from 2 and 3 runs deep: {:.1} s",
        ended.took.as_secs_f64()
    ));
    world.run(world.subscope("serve --stop"))?;
    Ok(())
}

type Posted = (String, Option<String>, u32, AgentStatus);

/// The agents that have ended of those that workers posted.
fn posted(tree: &Tree) -> Vec<Posted> {
    let agents = tree.agents.iter().filter(|agent| agent.id.starts_with('w') && !agent.status.is_live());
    let row = |agent: &subscope_model::Agent| {
        let parent = agent.parent_id.as_ref().map(ToString::to_string);
        (agent.id.to_string(), parent, agent.depth, agent.status)
    };
    agents.map(row).collect()
}
