//! Sessions between prompts: each recording is played up to a moment at which only the user could continue, and then an
//! hour passes.

use std::collections::BTreeMap;

use serde_json::Value;
use subscope_model::{Millis, iso8601, parse_rfc3339};
use subscope_testkit::{
    clock::START,
    corpus::Source,
    fixtures::{Recording, recordings, text},
    waits::TimedLine,
};

use super::{
    TOGETHER,
    theater::{Act, Seen, play},
};

const HOUR: Millis = 3_600_000;

/// Sources of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The harness's files and its hooks.
    All,
    /// Its hooks.
    Hooks,
    /// Its files.
    Files,
}

fn field<'v>(line: &'v Value, name: &str) -> &'v str {
    line[name].as_str().unwrap_or_default()
}

/// Moments after which no agent runs until the user sends a prompt: no turn of the root is open, and no subagent runs.
fn rests(recording: &Recording) -> Vec<Millis> {
    let log = recording.hooks();
    let (mut is_idle, mut open, mut rests) = (false, BTreeMap::new(), Vec::new());
    for (line, at) in text(&log).lines().zip(recording.received(&log)) {
        let payload: Value = serde_json::from_str(line).unwrap();
        let agent = field(&payload, "agent_id");
        match field(&payload, "hook_event_name") {
            "SessionStart" => is_idle |= field(&payload, "source") != "compact",
            "Stop" | "StopFailure" if agent.is_empty() => is_idle = true,
            "UserPromptSubmit" => is_idle = false,
            "PreToolUse" if agent.is_empty() => is_idle = false,
            "SubagentStart" => *open.entry(agent.to_owned()).or_insert(0) += 1,
            "SubagentStop" => {
                open.remove(agent);
            }
            _ => {}
        }
        if is_idle && open.is_empty() {
            rests.push(at);
        }
    }
    rests
}

/// All lines of a recording's sources, with their times of arrival.
fn lines(recording: &Recording, told: Told) -> Vec<(Millis, Source, String)> {
    let mut all = Vec::new();
    if told != Told::Files {
        let log = recording.hooks();
        let times = recording.received(&log);
        all.extend(text(&log).lines().zip(times).map(|(line, at)| (at, Source::Hooks, line.to_owned())));
    }
    let mut began = BTreeMap::new();
    for file in [recording.mains(), recording.agents()].concat().iter().filter(|_| told != Told::Hooks) {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let agent = name.strip_prefix("agent-").map(str::to_owned);
        let source = agent.as_deref().map_or(Source::Main, |id| Source::Agent(id.into()));
        let mut at = None;
        for line in text(file).lines() {
            let told = serde_json::from_str::<Value>(line).unwrap();
            at = parse_rfc3339(field(&told, "timestamp")).max(at);
            // A line without a time gets the time of the line before it; such lines at the front are dropped.
            let Some(at) = at else { continue };
            began.entry(agent.clone()).or_insert(at);
            all.push((at, source.clone(), line.to_owned()));
        }
    }
    for file in recording.metas().iter().filter(|_| told != Told::Hooks) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let agent = name.trim_start_matches("agent-").trim_end_matches(".meta.json");
        // The meta file of an agent without lines here is a copy: it exists from the session's beginning.
        let at = began.get(&Some(agent.to_owned())).or(began.values().min());
        all.extend(at.map(|at| (*at, Source::Meta(agent.into()), text(file))));
    }
    all.sort_by_key(|(at, ..)| *at);
    all
}

/// Rewrites a line as if the session had begun at another time with another id.
fn moved(line: &str, session: &str, to: &str, by: Millis) -> String {
    let mut told: Value = serde_json::from_str(line).unwrap();
    if let Some(at) = told["timestamp"].as_str().and_then(parse_rfc3339) {
        told["timestamp"] = iso8601(at + by).into();
    }
    told.to_string().replace(session, to)
}

/// A session for each idle moment: the recording up to it, then an hour without input.
fn acts(recording: &Recording, told: Told) -> Vec<Act> {
    let (lines, session) = (lines(recording, told), recording.truth().session.id);
    let rests = rests(recording);
    let first = lines.iter().map(|(at, ..)| *at).min().unwrap_or_default();
    let mut spans: BTreeMap<&Source, [Millis; 2]> = BTreeMap::new();
    for (at, source, _) in lines.iter().filter(|(_, source, _)| matches!(source, Source::Agent(_))) {
        spans.entry(source).or_insert([*at, *at])[1] = *at;
    }
    // Hooks of 2.0.76 do not report warm-up agents at once; the agents' own lines do.
    let is_at_work = |rest: Millis| spans.values().any(|[from, to]| *from <= rest && rest < *to);
    rests
        .into_iter()
        .filter(|rest| *rest >= first && !is_at_work(*rest))
        .enumerate()
        .map(|(number, rest)| {
            let name = format!("{}-{told:?}-{number}", recording.name().replace('/', "-"));
            let played = lines.iter().filter(|(at, ..)| *at <= rest);
            let lines = played.map(|(at, source, line)| TimedLine {
                at: at - first,
                source: source.clone(),
                text: moved(line, &session, &name, START - first),
            });
            Act { lines: lines.collect(), look: None, end: rest - first + HOUR, session: name }
        })
        .collect()
}

fn faults<'s>(seen: impl Iterator<Item = &'s Seen>) -> Vec<String> {
    let of = |seen: &Seen| {
        let stalls = seen.stalls.iter().map(|stall| format!("{}: {stall:?}", seen.session));
        let others = seen.restless.iter().map(|row| format!("{}: {row}", seen.session));
        stalls.chain(others).collect::<Vec<_>>()
    };
    seen.flat_map(of).collect()
}

fn check(told: Told) {
    let mut acts: Vec<Act> = recordings().iter().flat_map(|recording| acts(recording, told)).collect();
    assert!(acts.len() > 100, "{} moments of rest", acts.len());
    // Sessions of about the same length are played together.
    acts.sort_by_key(|act| act.end);
    let seen: Vec<Vec<Seen>> = std::thread::scope(|scope| {
        let play = |part: &[Act]| play(part.to_vec(), None);
        let hubs: Vec<_> = acts.chunks(TOGETHER).map(|part| scope.spawn(move || play(part))).collect();
        hubs.into_iter().map(|hub| hub.join().unwrap()).collect()
    });
    assert_eq!(faults(seen.iter().flatten()), Vec::<String>::new(), "of {}", acts.len());
}

#[test]
fn nobody_stalls_or_is_lost_in_an_hour_between_prompts() {
    check(Told::All);
}

#[test]
fn nobody_stalls_or_is_lost_in_an_hour_between_prompts_by_hooks_alone() {
    check(Told::Hooks);
}

#[test]
fn nobody_stalls_or_is_lost_in_an_hour_between_prompts_by_files_alone() {
    check(Told::Files);
}
