//! `e2e --harness NAME --live`: a person stops one of two agents, where the hooks of the harness can end one. The other
//! and the main thread go on.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};
use subscope_model::{Agent, AgentStatus, Tree};
use subscope_rig::tick;

use super::{Stage, harness::Harness, live::check_end, settled};
use crate::{
    finding::Findings,
    served::{Hub, obey},
    stopped::{live_tree, subscope},
    world::{POLL, Programs, World},
};

/// How long an agent may take to be at work, and to end.
const LIMIT: Duration = Duration::from_secs(60);

/// Plays it with one harness.
pub(super) fn play(harness: Harness, programs: &Programs, findings: &mut Findings) -> Result<()> {
    let stage = Stage::set(harness, programs, "stopped")?;
    let world = &stage.world;
    let hub = Hub::start(world.subscope("serve --listen 127.0.0.1:0"))?;
    obey(world, &format!("hooks install --harness {}", harness.name()))?;
    let (ended, stopped) = thread::scope(|scope| {
        let stops = scope.spawn(|| stop(world));
        (stage.run(0), stops.join())
    });
    check_end(&ended?, findings);
    let took = stopped.map_err(|_| anyhow!("the one who stops an agent broke"))??;
    let tree = settled(world)?;
    let status = |name| agent(&tree, name).map(|agent| agent.status);
    findings.same("stop: the agent", status("a"), Some(AgentStatus::Stopped));
    findings.same("stop: the other", status("b"), Some(AgentStatus::Completed));
    findings.same(
        "stop: the main thread",
        tree.agents.first().map(|root| root.status),
        Some(AgentStatus::Completed),
    );
    let calls = agent(&tree, "a").map_or(0, |agent| agent.tool_calls);
    findings.same("stop: the agent made fewer calls than it would", calls < 8, true);
    findings.note(format!("stop: ended {} ms after the order, {calls} calls", took.as_millis()));
    hub.end()?;
    obey(world, &format!("hooks remove --harness {}", harness.name()))
}

/// Stops the first agent once it has made a call; returns how long it took until the hub saw it end.
fn stop(world: &World) -> Result<Duration> {
    let began = tick();
    let wait = |ready: &dyn Fn(&Tree) -> bool| -> Result<Tree> {
        loop {
            if let Some(tree) = live_tree(world)?.filter(|tree| ready(tree)) {
                return Ok(tree);
            }
            if began.elapsed() > LIMIT {
                bail!("the agent was never at work, or never ended");
            }
            thread::sleep(POLL);
        }
    };
    let tree = wait(&|tree| {
        agent(tree, "a").is_some_and(|agent| agent.status == AgentStatus::Running && agent.tool_calls > 0)
    })?;
    let id = agent(&tree, "a").map(|agent| agent.id.to_string()).unwrap_or_default();
    let asked: Instant = tick();
    let order = subscope(world, &format!("stop {}/{id}", tree.session.id))?;
    if !order.status.success() {
        bail!("stop: {}", String::from_utf8_lossy(&order.stderr));
    }
    wait(&|tree| agent(tree, "a").is_some_and(|agent| !agent.status.is_live()))?;
    Ok(asked.elapsed())
}

fn agent<'t>(tree: &'t Tree, name: &str) -> Option<&'t Agent> {
    let described = format!("Task {name}");
    tree.agents.iter().find(|agent| agent.description.as_deref() == Some(&*described))
}
