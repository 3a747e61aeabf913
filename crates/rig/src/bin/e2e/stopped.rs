//! `stop` under `run -- claude -p`: one subagent is stopped by the hooks of that run alone, and an agent that is served
//! as an MCP tool with its processes. Their siblings go on.

use std::{path::Path, process::Output, thread, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use subscope_model::{Agent, AgentStatus, Tree};
use subscope_rig::tick;

use crate::{
    finding::Findings,
    world::{POLL, Programs, World},
};

/// How long an agent may take to be at work, and the hub to know that it has ended.
const LIMIT: Duration = Duration::from_secs(60);

/// The server of the agent that is called as a tool.
const SERVERS: &str = r#"{"mcpServers":{"shop":{"command":"subscope","args":["mcp","agent","--name","worker","--","sleep","600"]}}}"#;

/// Plays it once, under `run`.
pub(crate) fn play(programs: &Programs, script: &Path, findings: &mut Findings) -> Result<()> {
    let world = World::new(programs, script)?;
    world.write("work/mcp.json", SERVERS);
    let before = world.settings();
    let mut command = world.subscope("run --");
    command.env_remove("SUBSCOPE_NO_AUTOSTART").arg(world.path("bin/claude")).args(world.arguments());
    let (ended, stopped) = thread::scope(|scope| {
        let stops = scope.spawn(|| stop_both(&world));
        (world.run(command), stops.join())
    });
    stopped.map_err(|_| anyhow!("the one who stops agents broke"))??;
    let ended = ended?;
    findings.same("stop: exit code", ended.status.code(), Some(world.scenario.exit_code));
    let printed = String::from_utf8_lossy(&ended.stdout).trim_end().to_owned();
    findings.same("stop: stdout", printed, world.scenario.ends_with.clone());
    findings.same("stop: settings", world.settings(), before);
    let session = world.tree(&world.transcript()?)?.session.id.to_string();
    let began = tick();
    let tree = loop {
        let tree = world.tree(Path::new(&session))?;
        let is_over = tree.agents.iter().all(|agent| !agent.status.is_live());
        if (is_over && tree.agents.len() == 5) || began.elapsed() > LIMIT {
            break tree;
        }
        thread::sleep(POLL);
    };
    let caller = agent(&tree, "Ask the worker").map(|agent| agent.id.to_string());
    let mut statuses: Vec<_> = tree
        .agents
        .iter()
        .map(|agent| {
            let name = agent.description.as_deref().unwrap_or(agent.id.as_str()).to_owned();
            (name, agent.status, agent.parent_id.as_ref().map(ToString::to_string))
        })
        .collect();
    statuses.sort_by(|one, other| one.0.cmp(&other.0));
    let root = || Some("root".to_owned());
    let wanted = [
        ("Ask the worker", AgentStatus::Completed, root()),
        ("Check inventory", AgentStatus::Completed, root()),
        ("Check pricing", AgentStatus::Stopped, root()),
        ("root", AgentStatus::Completed, None),
        ("run-of-the-worker", AgentStatus::Stopped, caller),
    ];
    findings.same(
        "stop: agents",
        statuses,
        wanted.map(|(name, status, parent)| (name.to_owned(), status, parent)).to_vec(),
    );
    let worker = tree.agents.iter().find(|agent| agent.id.as_str() == "run-of-the-worker");
    let is_linked = worker.is_some_and(|agent| agent.spawned_by.is_some());
    findings.same("stop: the call of the worker is known", is_linked, true);
    findings
        .note(format!("run, two agents stopped, their siblings went on: {:.1} s", ended.took.as_secs_f64()));
    world.run(world.subscope("serve --stop"))?;
    Ok(())
}

fn agent<'t>(tree: &'t Tree, name: &str) -> Option<&'t Agent> {
    tree.agents.iter().find(|agent| agent.description.as_deref() == Some(name) || agent.id.as_str() == name)
}

/// Stops both as soon as they are at work.
fn stop_both(world: &World) -> Result<()> {
    let began = tick();
    while !world.path("data/subscope/hub.sock").exists() {
        if began.elapsed() > LIMIT {
            bail!("no hub was started");
        }
        thread::sleep(POLL);
    }
    for name in ["Check pricing", "run-of-the-worker"] {
        let mut why = "it was never at work".to_owned();
        loop {
            if let Some(tree) = live_tree(world)?
                && let Some(agent) = agent(&tree, name).filter(|agent| agent.status == AgentStatus::Running)
            {
                let asked = subscope(world, &format!("stop {}/{}", tree.session.id, agent.id))?;
                if asked.status.success() {
                    break;
                }
                why = String::from_utf8_lossy(&asked.stderr).into_owned();
            }
            if began.elapsed() > LIMIT {
                bail!("{name} is not stopped: {why}");
            }
            thread::sleep(POLL);
        }
    }
    Ok(())
}

/// The tree of the newest session that the hub knows.
pub(crate) fn live_tree(world: &World) -> Result<Option<Tree>> {
    let shown = subscope(world, "tree last --json")?;
    Ok(shown.status.success().then(|| serde_json::from_slice(&shown.stdout)).transpose()?)
}

/// Runs subscope concurrently with the run.
pub(crate) fn subscope(world: &World, words: &str) -> Result<Output> {
    world.subscope(words).output().with_context(|| format!("subscope {words}"))
}
