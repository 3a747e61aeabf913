//! Claude Code pointed at `serve` by its OpenTelemetry alone: no hook runs, and the hub sees no transcript.

use std::{collections::BTreeMap, fs, path::Path, thread, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use subscope_client::{Address, Client, ListQuery, Queries as _};
use subscope_model::{SessionId, Tree};
use subscope_rig::tick;

use crate::{
    finding::Findings,
    served::{Hub, obey},
    truth,
    world::{POLL, Programs, World},
};

/// How long records may take to arrive after the program has ended: it sends the last of them before that.
const LIMIT: Duration = Duration::from_secs(20);

/// Plays a script.
pub(crate) fn play(programs: &Programs, script: &Path, findings: &mut Findings) -> Result<()> {
    let world = World::new(programs, script)?;
    let elsewhere = world.path("elsewhere");
    fs::create_dir_all(&elsewhere)?;
    let mut serve = world.subscope("serve --listen 127.0.0.1:0");
    serve.env("CLAUDE_CONFIG_DIR", &elsewhere);
    let hub = Hub::start(serve)?;
    let variables = variables(&world, &hub)?;
    findings.same("settings after hooks remove", world.settings().len(), 0);
    let mut claude = world.claude();
    claude.envs(&variables);
    let (ended, live) = thread::scope(|scope| {
        let watch = scope.spawn(|| most_agents(&hub));
        let ended = world.run(claude);
        (ended, watch.join())
    });
    let (ended, live) = (ended?, live.map_err(|_| anyhow!("the one who looks at the hub broke"))??);
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    if ended.status.code() != Some(world.scenario.exit_code)
        || !printed.trim_end().ends_with(&world.scenario.ends_with)
    {
        findings.fault(format!("claude: {}, {printed:?}, {:?}", ended.status, ended.stderr));
    }
    let session = world
        .transcript()?
        .file_stem()
        .context("a transcript without a name")?
        .to_string_lossy()
        .into_owned();
    let known = truth::known(&world.scenario, &world.stand_in.log());
    let wanted: BTreeMap<String, usize> =
        known.iter().map(|(id, agent)| (id.clone(), agent.calls.len())).collect();
    let tree = settled(&hub, &SessionId::from(session.as_str()), &wanted)?;
    truth::compare(&known, &tree, findings);
    if tree.agents.iter().flat_map(|agent| &agent.tools).any(|call| call.basis.is_guess()) {
        findings.fault("the owner of a call is guessed");
    }
    findings.same("requests for anything but the model", world.stand_in.others(), vec![]);
    hub.end()?;
    let summary = &tree.summary;
    findings.note(format!(
        "OpenTelemetry alone: {} agents, {} calls, {} agents seen while it ran: {:.1} s",
        summary.agents,
        summary.tool_calls,
        live,
        ended.took.as_secs_f64()
    ));
    Ok(())
}

/// Returns the variables that `hooks install --otel` sets. The settings are restored: hooks would report as well.
fn variables(world: &World, hub: &Hub) -> Result<BTreeMap<String, String>> {
    obey(world, &format!("hooks install --otel --url http://{}", hub.address))?;
    let settings = fs::read_to_string(world.path("home/.claude/settings.json"))?;
    let settings: serde_json::Value = serde_json::from_str(&settings)?;
    let variables =
        serde_json::from_value(settings["env"].clone()).context("no variables in the settings")?;
    obey(world, "hooks remove")?;
    Ok(variables)
}

/// Returns the most agents of any session that the hub showed until the program ended.
fn most_agents(hub: &Hub) -> Result<u32> {
    let mut client = Client::connect(Address::Tcp(hub.address))?;
    let (began, mut most) = (tick(), 0);
    while began.elapsed() < LIMIT * 6 {
        let page = client.sessions(&ListQuery::first(100))?;
        most = page.sessions.iter().map(|row| row.agents).max().unwrap_or(0).max(most);
        if page.sessions.iter().all(|row| row.running == 0) && most > 0 {
            break;
        }
        thread::sleep(POLL);
    }
    Ok(most)
}

/// Waits until the hub's tree has the agents with their calls; returns the last that it gave.
fn settled(hub: &Hub, session: &SessionId, wanted: &BTreeMap<String, usize>) -> Result<Tree> {
    let mut client = Client::connect(Address::Tcp(hub.address))?;
    let began = tick();
    loop {
        let tree = client.tree(session)?;
        let found = tree.as_ref().map(|tree| {
            let rows = tree.agents.iter().map(|agent| (agent.id.to_string(), agent.tools.len()));
            rows.collect::<BTreeMap<_, _>>()
        });
        match tree {
            Some(tree) if found.as_ref() == Some(wanted) || began.elapsed() > LIMIT => return Ok(tree),
            None if began.elapsed() > LIMIT => bail!("the hub does not know session {session}"),
            Some(_) | None => thread::sleep(POLL),
        }
    }
}
