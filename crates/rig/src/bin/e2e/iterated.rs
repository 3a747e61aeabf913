//! A repeated run that is killed in its third iteration: everything observed until then is stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use subscope_model::{AgentStatus, Tree};
use subscope_rig::{Exchange, tick};

use crate::{
    finding::Findings,
    truth,
    world::{POLL, Programs, World},
};

/// How long three times may take.
const LIMIT: Duration = Duration::from_secs(120);

/// A record, as its `meta.json` says.
struct Record {
    folder: PathBuf,
    meta: Value,
}

/// Plays a script five times under `run`, which is killed in the third, once an agent of that was seen.
pub(crate) fn play(programs: &Programs, script: &Path, findings: &mut Findings) -> Result<()> {
    let world = World::new(programs, script)?;
    let mut command = world.subscope("run --no-store --iterations 5 --name five --");
    command.arg(world.path("bin/claude")).args(world.arguments());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start subscope")?;
    let seen = third_is_seen(&world);
    child.kill()?;
    child.wait()?;
    seen?;
    let listed = world.run(world.subscope("ls --iterations --json"))?;
    let listed: Value = serde_json::from_slice(&listed.stdout).context("ls --iterations --json")?;
    let rows = listed["iterations"].as_array().into_iter().flatten();
    let statuses: Vec<&str> = rows.filter_map(|row| row["status"].as_str()).collect();
    findings.same("iterations: statuses", statuses, vec!["cut", "completed", "completed"]);
    let log = world.stand_in.log();
    for Record { folder, meta } in records(&world) {
        let number = meta["iteration"].as_u64().unwrap_or_default();
        let known = known_of(&world, &log, &meta);
        let tree = world.tree(&folder)?;
        let agents =
            |tree: &Tree| tree.agents.iter().map(|agent| agent.id.to_string()).collect::<BTreeSet<_>>();
        let wanted: BTreeSet<String> = known.keys().cloned().collect();
        if number == 3 {
            // The log goes on after the kill.
            let found = agents(&tree);
            if found.len() < 2 || !found.is_subset(&wanted) {
                findings.fault(format!("iteration 3: agents {found:?} of {wanted:?}"));
            }
            continue;
        }
        findings.same(format!("iteration {number}: agents"), agents(&tree), wanted);
        for agent in &tree.agents {
            findings.same(format!("iteration {number}: {}", agent.id), agent.status, AgentStatus::Completed);
            let calls: BTreeSet<String> =
                agent.tools.iter().filter_map(|call| call.id.as_ref()).map(ToString::to_string).collect();
            let told = known.get(agent.id.as_str()).into_iter().flat_map(|known| &known.calls);
            let told: BTreeSet<String> = told.map(|(id, _)| id.clone()).collect();
            findings.same(format!("iteration {number}: calls of {}", agent.id), calls, told);
        }
    }
    findings.note("killed in the third of five runs: two records whole, the third as far as it was seen");
    Ok(())
}

/// The log entries of a record's session.
fn known_of(world: &World, log: &[Exchange], meta: &Value) -> BTreeMap<String, truth::Known> {
    let own = |exchange: &&Exchange| exchange.session.as_deref() == meta["session_id"].as_str();
    let own: Vec<_> = log.iter().filter(own).cloned().collect();
    truth::known(&world.scenario, &own)
}

/// Waits until the third record and the log have an agent: the agent exists before its first request.
fn third_is_seen(world: &World) -> Result<()> {
    let began = tick();
    while began.elapsed() < LIMIT {
        let third = records(world).into_iter().find(|record| record.meta["iteration"] == 3);
        let trace = third.as_ref().and_then(|record| fs::read(record.folder.join("trace.json")).ok());
        let trace: Option<Value> = trace.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let has_asked = |record: &Record| known_of(world, &world.stand_in.log(), &record.meta).len() > 1;
        if trace.is_some_and(|trace| trace["stats"]["totalSubagents"] == 1)
            && third.as_ref().is_some_and(has_asked)
        {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    bail!("the third iteration has seen no agent in {LIMIT:?}")
}

fn records(world: &World) -> Vec<Record> {
    let folders = fs::read_dir(world.path("work/.subscope/iterations")).into_iter().flatten().flatten();
    let read = |folder: PathBuf| {
        let meta = serde_json::from_slice(&fs::read(folder.join("meta.json")).ok()?).ok()?;
        Some(Record { folder, meta })
    };
    folders.filter_map(|entry| read(entry.path())).collect()
}
