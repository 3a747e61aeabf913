//! `e2e --framework NAME --program PATH --subscope PATH --keep FOLDER`: a program of an agent framework plays a script
//! against the fake model server and exports its spans to a hub. `cargo xtask frameworks` installs the framework, builds
//! subscope and runs this.
//!
//! The hub's tree is looked at while the program runs, and compared with the log of the fake server at the end.
//! `crates/rig/frameworks` has the programs, and `frameworks.toml` what is known of each.

mod live;
mod recorder;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use recorder::Recorder;
use serde::Deserialize;
use serde_json::{Value, json};
use subscope_client::{Address, Client};
use subscope_model::Tree;
use subscope_rig::{Actor, Exchange, Outcome, Scenario, Spent, Step, Tool, tick};
use subscope_testkit::frameworks::{ASPECTS, differences};

use crate::{
    finding::Findings,
    served::Hub,
    world::{POLL, Programs, World, copy},
};

/// How long the hub may take to know everything after the program has ended.
const SETTLED: Duration = Duration::from_secs(10);
/// How long the first row may take after the first spans.
const FIRST_ROW: Duration = Duration::from_secs(1);
/// The tool that fails.
const FAILING: &str = "lookup";

/// The content of `frameworks.toml`.
#[derive(Debug, Deserialize)]
struct Frameworks {
    /// What of a tree may be false until all spans have come, with the place where that is documented.
    while_running: BTreeMap<String, String>,
    framework: Vec<Framework>,
}

/// A framework, and what is known of its spans.
#[derive(Clone, Debug, Deserialize)]
struct Framework {
    name: String,
    version: String,
    emitter: String,
    /// The file of its program.
    program: String,
    /// Name of the tool that asks another agent; `{}` stands for the agent's.
    #[serde(default = "ask")]
    ask: String,
    /// The argument of that tool.
    #[serde(default = "task")]
    task: String,
    /// Tool, and its argument, by which an agent gives its last answer; a text without it.
    answer: Option<[String; 2]>,
    /// Text in the first request whose spans are work of agents.
    #[serde(default = "first_span")]
    first_span: String,
    /// Aspects that its spans cannot show, with the reason.
    #[serde(default)]
    except: BTreeMap<String, String>,
}

fn ask() -> String {
    "ask_{}".to_owned()
}

fn first_span() -> String {
    "/v1/traces".to_owned()
}

fn task() -> String {
    "task".to_owned()
}

/// Plays the program of one framework; fails if something is wrong. Its last line is JSON: what was right.
pub(crate) fn play(name: &str, programs: &Programs, keep: &Path) -> Result<()> {
    let known = Frameworks::load()?;
    let framework = known.framework.iter().find(|framework| framework.name == name);
    let framework = framework.with_context(|| format!("no framework {name:?}"))?;
    let mut findings = Findings::default();
    let mut played = run(framework, &known.while_running, programs, keep, &mut findings)
        .inspect_err(|error| findings.fault(format!("{error:#}")))
        .unwrap_or_default();
    let title = format!("{name} {} ({})", framework.version, framework.emitter);
    let is_right = findings.print(&title) == 0;
    played["title"] = title.into();
    played["is_right"] = is_right.into();
    println!("{played}");
    if !is_right {
        bail!("{name} is not shown right");
    }
    Ok(())
}

/// Folder of the programs.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks")
}

fn run(
    framework: &Framework,
    while_running: &BTreeMap<String, String>,
    programs: &Programs,
    keep: &Path,
    findings: &mut Findings,
) -> Result<Value> {
    let folder = folder();
    let script = folder.with_file_name("scenarios").join("frameworks.toml");
    let scenario = framework.fit(Scenario::load(&script, Path::new(""))?);
    let world = World::of(programs, scenario, variables)?;
    let hub = Hub::start(world.subscope("serve --listen 127.0.0.1:0"))?;
    let recorder = Recorder::start(hub.address, framework.first_span.clone())?;
    // An earlier run may have recorded more connections.
    drop(fs::remove_dir_all(keep));
    // Node looks for packages beside and above a script: `keep` is in the folder where they are installed.
    copy(&folder, keep)?;
    let mut program = world.other(&programs.harness);
    program.arg(keep.join(&framework.program)).arg(&world.scenario.prompt);
    program.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", recorder.address));
    let (is_over, began) = (AtomicBool::new(false), tick());
    let (ended, trees, seen) = thread::scope(|scope| {
        let watch = scope.spawn(|| live::watch(hub.address, &world, &is_over));
        let ended = world.run(program);
        let trees = settled(framework, &hub, &truth(&world.scenario, &world.stand_in.log()));
        is_over.store(true, Ordering::Relaxed);
        (ended, trees, watch.join())
    });
    let (ended, trees) = (ended?, trees?);
    let seen = seen.map_err(|_| anyhow!("the thread that looks at the hub panicked"))??;
    let log = world.stand_in.log();
    let truth = truth(&world.scenario, &log);
    recorder.save(keep)?;
    fs::write(keep.join("trees.json"), serde_json::to_vec_pretty(&trees)?)?;
    fs::write(keep.join("truth.json"), serde_json::to_vec_pretty(&truth)?)?;
    fs::write(keep.join("looks.jsonl"), seen.lines(began))?;
    fs::write(keep.join("stderr"), &ended.stderr)?;
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    if !ended.status.success() || !printed.contains(&world.scenario.ends_with) {
        findings.fault(format!("the program: {}, {printed}{}", ended.status, ended.stderr));
    }
    requests(&world, &log, findings);
    let aspects = compare(framework, &trees, &truth, findings);
    let states = seen.false_states(&trees);
    let is_known = |what: &str| while_running.contains_key(what);
    for (what, state) in states.iter().filter(|(what, _)| !is_known(what)) {
        findings.fault(format!("while it ran: {what}: {state}"));
    }
    for (what, reason) in while_running {
        let of_it = states.iter().filter(|(other, _)| other == what).map(|(_, state)| state.as_str());
        let of_it: Vec<&str> = of_it.collect();
        if !of_it.is_empty() {
            findings.note(format!("while it ran, {what} ({reason}): {}", of_it.join(", ")));
        }
    }
    let delay = seen.first_row.zip(recorder.first_spans());
    let delay = delay.map(|(row, spans)| row.saturating_duration_since(spans));
    match delay {
        Some(delay) if delay <= FIRST_ROW => {}
        Some(delay) => {
            findings.fault(format!("the first row came {} ms after the first spans", delay.as_millis()))
        }
        None => findings.fault("no row, or no spans"),
    }
    let delay = delay.map(|delay| delay.as_millis() as u64);
    if let Some(delay) = delay {
        findings.note(format!("first row {delay} ms after the first spans"));
    }
    findings.note(format!("after their first request: {}", seen.delays(&log, &trees).join(", ")));
    findings.note(format!("{:.1} s", ended.took.as_secs_f64()));
    hub.end()?;
    Ok(json!({"aspects": aspects, "first_row_ms": delay}))
}

/// The variables of all programs.
fn variables(stand_in: &str) -> Vec<(&'static str, String)> {
    vec![
        ("OPENAI_BASE_URL", format!("{stand_in}/v1")),
        ("OPENAI_API_KEY", "none".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", stand_in.to_owned()),
        ("GOOGLE_API_KEY", "none".to_owned()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "200".to_owned()),
    ]
}

/// Requests that no program should make.
fn requests(world: &World, log: &[Exchange], findings: &mut Findings) {
    findings.same("requests for anything but the model", world.stand_in.others(), vec![]);
    let nobodys = log.iter().filter(|it| it.actor.is_none()).count();
    findings.same("requests that are no actor's", nobodys, 0);
    for actor in &world.scenario.actors {
        let count = log.iter().filter(|it| it.actor.as_ref() == Some(&actor.id)).count();
        findings.same(format!("requests of {}", actor.id), count, actor.steps.len());
    }
}

/// Waits until the trees show the truth as far as the spans can; returns the last ones.
fn settled(framework: &Framework, hub: &Hub, truth: &Value) -> Result<Vec<Tree>> {
    let mut client = Client::connect(Address::Tcp(hub.address))?;
    let began = tick();
    loop {
        let trees = live::trees(&mut client)?;
        let is_known = |aspect: &str| framework.except.contains_key(aspect);
        if differences(&trees, truth).iter().all(|(aspect, _)| is_known(aspect)) || began.elapsed() > SETTLED
        {
            return Ok(trees);
        }
        thread::sleep(POLL);
    }
}

/// What happened, by the log, in the form of the recordings in `fixtures/frameworks`.
fn truth(scenario: &Scenario, log: &[Exchange]) -> Value {
    let agent = |actor: &Actor| {
        let own = log.iter().filter(|it| it.actor.as_ref() == Some(&actor.id));
        let asks =
            |it: &&Exchange| it.calls.iter().any(|call| call.input.to_string().contains(&actor.matches));
        let (mut spent, mut calls, mut last) = (Spent::default(), Vec::new(), None);
        for exchange in own {
            spent += exchange.spent;
            last = Some(exchange.outcome);
            calls.extend(exchange.calls.iter().map(|call| {
                json!({"name": call.name, "status": if call.name == FAILING { "error" } else { "ok" }})
            }));
        }
        json!({"type": actor.id, "parent": log.iter().find(asks).and_then(|it| it.actor.clone()), "calls": calls,
            "tokens": {"input_with_cache": spent.input + spent.cache_read + spent.cache_write,
                "cache_read": spent.cache_read, "output": spent.output},
            "ending": if last == Some(Outcome::Answered) { "completed" } else { "failed" }})
    };
    json!({"sessions": 1, "agents": scenario.actors.iter().map(agent).collect::<Vec<_>>()})
}

/// Compares the trees with the truth; returns which aspects are right.
fn compare(
    framework: &Framework,
    trees: &[Tree],
    truth: &Value,
    findings: &mut Findings,
) -> BTreeMap<&'static str, bool> {
    let found = differences(trees, truth);
    let mut lines = BTreeSet::new();
    for (aspect, difference) in &found {
        match framework.except.get(*aspect) {
            Some(reason) => drop(lines.insert(format!("{aspect}: {reason}"))),
            None => findings.fault(format!("{aspect}: {difference}")),
        }
    }
    lines.into_iter().for_each(|line| findings.note(line));
    let aspects = ASPECTS.map(|aspect| (aspect, found.iter().all(|(other, _)| *other != aspect)));
    for (aspect, _) in
        aspects.iter().filter(|(aspect, is_right)| *is_right && framework.except.contains_key(*aspect))
    {
        findings.fault(format!("{aspect}: right, and frameworks.toml says that it cannot be"));
    }
    aspects.into_iter().collect()
}

impl Frameworks {
    fn load() -> Result<Self> {
        let path = folder().join("frameworks.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{}", path.display()))
    }
}

impl Framework {
    /// Gives the tools of a script the names that they have in this framework.
    fn fit(&self, mut scenario: Scenario) -> Scenario {
        for step in scenario.actors.iter_mut().flat_map(|actor| &mut actor.steps) {
            for tool in &mut step.tools {
                if let Some(agent) = tool.name.strip_prefix("ask_") {
                    tool.name = self.ask.replace("{}", agent);
                    tool.input = json!({ &self.task: tool.input["task"] });
                }
            }
            self.fit_answer(step);
        }
        scenario
    }

    /// Replaces a last text by a call, if the framework wants that.
    fn fit_answer(&self, step: &mut Step) {
        if let Some([name, argument]) = self.answer.as_ref().filter(|_| step.tools.is_empty())
            && let Some(text) = step.text.take()
        {
            step.tools.push(Tool { name: name.clone(), namespace: None, input: json!({ argument: text }) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        Scenario::load(&folder().with_file_name("scenarios").join("frameworks.toml"), Path::new("")).unwrap()
    }

    #[test]
    fn every_framework_has_its_program_and_its_own_names_of_tools() {
        let known = Frameworks::load().unwrap();
        assert!(known.framework.len() >= 8);
        for framework in &known.framework {
            assert!(folder().join(&framework.program).is_file(), "{}", framework.program);
            assert!(framework.except.keys().all(|aspect| ASPECTS.contains(&aspect.as_str())));
        }
        let named = |name: &str| known.framework.iter().find(|it| it.name == name).unwrap();
        let played = named("smolagents").fit(scenario());
        let main = &played.actors[0].steps;
        assert_eq!(
            (main[0].tools[0].name.as_str(), main[1].tools[0].name.as_str()),
            ("alpha", "final_answer")
        );
        let played = named("google-adk").fit(scenario());
        assert!(played.actors[0].steps[0].tools[1].input["request"].is_string());
    }

    /// The log of a run in which nothing went wrong.
    fn log(scenario: &Scenario) -> Vec<Exchange> {
        let steps = scenario.actors.iter().flat_map(|actor| {
            actor.steps.iter().enumerate().map(|(step, it)| {
                let calls = it.tools.iter().map(|tool| subscope_rig::Called {
                    id: String::new(),
                    name: tool.name.clone(),
                    input: tool.input.clone(),
                    told_at: None,
                });
                Exchange {
                    actor: Some(actor.id.clone()),
                    step,
                    session: None,
                    agent: None,
                    parent: None,
                    model: String::new(),
                    asked_at: tick(),
                    outcome: Outcome::Answered,
                    message: String::new(),
                    calls: calls.collect(),
                    spent: Spent { input: 1, output: 2, cache_read: 3, cache_write: 0 },
                }
            })
        });
        steps.collect()
    }

    #[test]
    fn finds_what_differs_from_the_log() {
        let truth = truth(&scenario(), &log(&scenario()));
        assert_eq!(truth["agents"][3]["parent"], "alpha");
        assert_eq!(truth["agents"][2]["calls"], json!([{"name": "lookup", "status": "error"}]));
        assert_eq!(truth["agents"][1]["tokens"]["input_with_cache"], 8);
        let missing = differences(&[], &truth);
        let of = |aspect: &str| missing.iter().filter(|(other, _)| *other == aspect).count();
        assert_eq!(ASPECTS.map(of), [5, 4, 4, 4, 4, 1], "{missing:?}");
    }
}
