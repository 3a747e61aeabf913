use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use subscope_model::{Usage, parse_rfc3339};
use tempfile::tempdir;

use super::*;

fn values(memory: &Memory, source: &Source) -> Vec<Value> {
    memory
        .lines_of(source)
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn shapes() -> Vec<Options> {
    vec![
        Options::default(),
        chain(30),
        wide(45),
        Options { agents: 40, depth: 4, parallel: 7, errors_permille: 300, seed: 3, ..Options::default() },
        Options { agents: 0, root_turns: 0, ..Options::default() },
        Options { agents: 3, turns: 0, root_turns: 0, depth: 1, ..Options::default() },
        Options { main_bytes: 300_000, ..Options::default() },
    ]
}

/// Counts transcripts the plain way: responses once by message id, calls and results by id.
#[derive(Default, Debug, PartialEq, Eq)]
struct Count {
    usage: Usage,
    responses: u64,
    calls: Vec<(String, String, bool)>,
    spawned: Vec<String>,
}

fn count(lines: &[Value]) -> Count {
    let mut count = Count::default();
    let mut seen = HashSet::new();
    let mut errors = HashMap::new();
    for line in lines {
        let message = &line["message"];
        if line["type"] == "assistant" && seen.insert(message["id"].as_str().unwrap().to_owned()) {
            let number = |key: &str| message["usage"][key].as_u64().unwrap();
            count.responses += 1;
            count.usage += Usage::new(
                number("input_tokens"),
                number("output_tokens"),
                number("cache_read_input_tokens"),
                number("cache_creation_input_tokens"),
            );
        }
        for block in message["content"].as_array().into_iter().flatten() {
            let id = |key: &str| block[key].as_str().unwrap().to_owned();
            if block["type"] == "tool_use" {
                count.calls.push((id("id"), id("name"), false));
            } else if block["type"] == "tool_result" {
                assert!(errors.insert(id("tool_use_id"), block["is_error"] == true).is_none());
            }
        }
        if let Some(agent) = line["toolUseResult"]["agentId"].as_str() {
            count.spawned.push(agent.to_owned());
        }
    }
    assert_eq!(errors.len(), count.calls.len(), "every call has a result");
    for call in &mut count.calls {
        call.2 = errors[&call.0];
    }
    count
}

#[test]
fn count_of_transcripts_equals_what_was_made() {
    for options in shapes() {
        let (made, memory) = in_memory(&options);
        assert_eq!(made.agents.len(), options.agents + 1);
        let depth = made.agents.iter().map(|agent| agent.depth).max();
        assert_eq!(depth, Some(if options.agents == 0 { 0 } else { options.depth }));
        let mut lines = 0;
        for agent in &made.agents {
            let id = agent.id.as_str();
            let source = if id == "root" { Source::Main } else { Source::Agent(id.into()) };
            let values = values(&memory, &source);
            lines += values.len() as u64;
            let counted = count(&values);
            assert_eq!((counted.usage, counted.responses), (agent.usage, agent.responses));
            let calls: Vec<_> =
                agent.calls.iter().map(|call| (call.id.clone(), call.name.to_owned(), call.failed)).collect();
            assert_eq!(counted.calls, calls);
            check_lines(&values, &made, agent);
            if id != "root" {
                check_meta(&memory, &made, agent);
            }
        }
        assert_eq!(lines, made.transcript_lines);
    }
}

fn check_lines(values: &[Value], made: &Made, agent: &MadeAgent) {
    let mut last = Value::Null;
    let mut times = Vec::new();
    for line in values.iter().filter(|line| line["uuid"].is_string()) {
        assert_eq!(line["parentUuid"], last);
        last = line["uuid"].clone();
        assert_eq!(line["sessionId"], made.session.as_str());
        assert_eq!(line["agentId"].as_str(), agent.agent_type.map(|_| agent.id.as_str()));
        times.push(parse_rfc3339(line["timestamp"].as_str().unwrap()).unwrap());
    }
    assert!(times.is_sorted());
    assert_eq!((times.first(), times.last()), (Some(&agent.started), Some(&agent.ended)));
}

fn check_meta(memory: &Memory, made: &Made, agent: &MadeAgent) {
    let meta: Value = serde_json::from_slice(&memory.bytes(&Source::Meta(agent.id.as_str().into()))).unwrap();
    assert_eq!(meta["toolUseId"].as_str(), agent.spawned_by.as_deref());
    assert_eq!(meta["spawnDepth"], agent.depth);
    assert_eq!(meta["finished"], true);
    let parent = made.owner(agent.spawned_by.as_deref().unwrap()).unwrap();
    assert_eq!(agent.parent.as_deref(), Some(parent.id.as_str()));
    assert_eq!(agent.depth, parent.depth + 1);
    assert_eq!(meta["parentAgentId"].as_str(), Some(parent.id.as_str()).filter(|id| *id != "root"));
    assert!(parent.started <= agent.started && agent.ended <= parent.ended);
}

#[test]
fn stream_and_hooks_tell_the_same_calls_as_the_transcripts() {
    for options in shapes() {
        let (made, memory) = in_memory(&options);
        let stream = values(&memory, &Source::Stream);
        let hooks = values(&memory, &Source::Hooks);
        assert_eq!((stream.len() as u64, hooks.len() as u64), (made.stream_lines, made.hook_lines));
        let agents_of_calls: HashMap<&str, &str> = made
            .agents
            .iter()
            .filter_map(|agent| Some((agent.spawned_by.as_deref()?, agent.id.as_str())))
            .collect();
        let mut from_stream = BTreeMap::new();
        for line in &stream {
            let owner = line["parent_tool_use_id"].as_str().map_or("root", |call| agents_of_calls[call]);
            for block in line["message"]["content"].as_array().into_iter().flatten() {
                if block["type"] == "tool_use" {
                    from_stream.insert(block["id"].as_str().unwrap(), owner);
                }
            }
        }
        let mut from_hooks = BTreeMap::new();
        let mut ended = 0;
        for hook in &hooks {
            match hook["hook_event_name"].as_str().unwrap() {
                "PreToolUse" => {
                    let owner = hook["agent_id"].as_str().unwrap_or("root");
                    from_hooks.insert(hook["tool_use_id"].as_str().unwrap(), owner);
                }
                "PostToolUse" | "PostToolUseFailure" => ended += 1,
                _ => {}
            }
        }
        let owned: BTreeMap<&str, &str> = made
            .agents
            .iter()
            .flat_map(|agent| agent.calls.iter().map(|call| (call.id.as_str(), agent.id.as_str())))
            .collect();
        assert_eq!((&from_stream, &from_hooks), (&owned, &owned));
        assert_eq!(ended, made.calls());
        check_sum(&stream, &made);
        assert!(memory.lines.is_sorted_by_key(|line| line.at), "one order of time over all sources");
    }
}

/// The stream's last line names the exact sum, as the real one does.
fn check_sum(stream: &[Value], made: &Made) {
    let models = stream.last().unwrap()["modelUsage"].as_object().unwrap();
    let sum = models.values().fold(Usage::default(), |sum, model| {
        let number = |key: &str| model[key].as_u64().unwrap();
        let kinds = ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
        let [input, output, read, write] = kinds.map(number);
        sum + Usage::new(input, output, read, write)
    });
    assert_eq!(sum, made.usage());
}

#[test]
fn lines_of_stream_and_transcript_share_their_ids() {
    let (made, memory) = in_memory(&Options::default());
    let ids = |source: &Source, kind: &str| -> HashSet<String> {
        let lines = values(&memory, source).into_iter().filter(|line| line["type"] == kind);
        lines.map(|line| line["uuid"].as_str().unwrap().to_owned()).collect()
    };
    let kept: HashSet<String> = made
        .agents
        .iter()
        .map(|agent| if agent.depth == 0 { Source::Main } else { Source::Agent(agent.id.as_str().into()) })
        .flat_map(|source| ids(&source, "assistant"))
        .collect();
    assert_eq!(kept, ids(&Source::Stream, "assistant"));
}

#[test]
fn agents_of_one_batch_overlap_and_first_level_hides_deeper_ones() {
    let options = Options {
        agents: 20,
        depth: 2,
        parallel: 5,
        forwarding: Forwarding::FirstLevel,
        ..Options::default()
    };
    let (made, memory) = in_memory(&options);
    let overlap = made.agents.iter().skip(1).any(|one| {
        made.agents.iter().skip(1).any(|two| {
            one.id != two.id
                && one.parent == two.parent
                && two.started < one.ended
                && one.started < two.started
        })
    });
    assert!(overlap);
    let deep: HashSet<&str> =
        made.agents.iter().filter(|agent| agent.depth > 1).map(|agent| agent.id.as_str()).collect();
    assert!(!deep.is_empty());
    let stream = values(&memory, &Source::Stream);
    assert!(stream.iter().all(|line| line["agent_id"].as_str().is_none_or(|id| !deep.contains(id))));
    let told: HashSet<&str> = stream
        .iter()
        .filter(|line| line["subtype"] == "task_started")
        .filter_map(|line| line["task_id"].as_str())
        .collect();
    assert_eq!(told.len(), 20);
}

#[test]
fn same_options_give_the_same_bytes_and_another_seed_others() {
    let (one, two) = (in_memory(&Options::default()), in_memory(&Options::default()));
    assert!(one == two);
    let other = in_memory(&Options { seed: 8, ..Options::default() });
    assert_ne!(one.0.session, other.0.session);
}

#[test]
fn disk_holds_what_memory_holds() {
    let folder = tempdir().unwrap();
    let options = Options { agents: 6, ..Options::default() };
    let made = on_disk(&options, folder.path()).unwrap();
    let (same, memory) = in_memory(&options);
    assert_eq!(made, same);
    let main = made.main(folder.path());
    let subagents = main.with_extension("").join("subagents");
    for source in memory.sources() {
        let path = match &source {
            Source::Main => main.clone(),
            Source::Agent(id) => subagents.join(format!("agent-{id}.jsonl")),
            Source::Meta(id) => subagents.join(format!("agent-{id}.meta.json")),
            Source::Stream => made.stream(folder.path()),
            Source::Hooks => made.hooks(folder.path()),
        };
        assert!(std::fs::read(&path).unwrap() == memory.bytes(&source), "{}", path.display());
    }
    assert_eq!(std::fs::read_dir(subagents).unwrap().count(), 12);
}

#[test]
fn session_of_megabytes_has_that_size_in_lines_of_some_kilobytes() {
    let folder = tempdir().unwrap();
    let made = on_disk(&session_of(2), folder.path()).unwrap();
    let bytes = std::fs::read(made.main(folder.path())).unwrap();
    assert!((2_000_000..2_100_000).contains(&bytes.len()), "{}", bytes.len());
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!((1500..4000).contains(&(bytes.len() / lines)), "{}", bytes.len() / lines);
    assert_eq!((made.agents.len(), made.stream_lines, made.hook_lines), (9, 0, 0));
    assert!(
        bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .all(|line| serde_json::from_slice::<Value>(line).is_ok())
    );
}

#[test]
fn errors_follow_the_share_asked_for() {
    let options = |errors_permille| Options { agents: 20, turns: 20, errors_permille, ..Options::default() };
    assert_eq!(in_memory(&options(0)).0.errors(), 0);
    let made = in_memory(&options(250)).0;
    let tools = made.calls() - 20;
    assert!((tools / 6..tools / 3).contains(&made.errors()), "{} of {tools}", made.errors());
}

#[test]
fn idle_files_makes_as_many_sessions_over_several_projects() {
    let folder = tempdir().unwrap();
    let mains = idle_files(folder.path(), 120, |_| START).unwrap();
    let distinct: HashSet<_> = mains.iter().collect();
    assert_eq!(distinct.len(), 120);
    assert!(mains.iter().all(|main| main.is_file()));
    assert_eq!(std::fs::read_dir(folder.path().join("projects")).unwrap().count(), 3);
}
