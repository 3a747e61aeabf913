//! Our own export, read again as OpenTelemetry records, gives the exported tree.

use subscope_model::{Basis, EventKind, SourceId};
use subscope_session::passages::{PassageClass, PassageReader};
use subscope_testkit::fixtures::{Recording, odd_recordings, recordings, stopped_recordings};

use super::*;
use crate::redact::redact;

/// The fields of a call that an export preserves.
type Call<'t> = (Option<&'t str>, &'t str, &'static str, Basis);

/// The fields of an agent that an export preserves.
#[derive(Debug, PartialEq)]
struct Row<'t> {
    id: &'t str,
    parent: Option<&'t str>,
    spawned_by: Option<&'t str>,
    depth: u32,
    agent_type: Option<&'t str>,
    description: Option<&'t str>,
    model: Option<&'t str>,
    status: &'static str,
    usage: Option<[u64; 4]>,
    is_floor: bool,
    calls: Vec<Call<'t>>,
}

fn rows(tree: &Tree) -> Vec<Row<'_>> {
    let rows = tree.agents.iter().map(|agent| {
        let mut calls: Vec<Call<'_>> = agent
            .tools
            .iter()
            .map(|call| (call.id.as_deref(), &*call.name, call.status.as_str(), call.basis))
            .collect();
        calls.sort();
        Row {
            id: agent.id.as_str(),
            parent: agent.parent_id.as_ref().map(|id| id.as_str()),
            spawned_by: agent.spawned_by.as_deref(),
            depth: agent.depth,
            agent_type: agent.agent_type.as_deref().or(agent.name.as_deref()),
            description: agent.description.as_deref(),
            model: agent.model.as_deref(),
            status: agent.status.as_str(),
            usage: agent.usage.map(|usage| usage.kinds()),
            is_floor: agent.usage.is_some_and(|usage| usage.floor),
            calls,
        }
    });
    let mut rows: Vec<Row<'_>> = rows.collect();
    rows.sort_by_key(|row| row.id);
    rows
}

fn again(read: &Read) -> Option<Tree> {
    let mut lines = Vec::new();
    write_otlp(&requests(read, None), &mut lines);
    Some(read_at(&[Part::new("otlp.jsonl", lines)], None)?.tree)
}

#[test]
fn own_export_read_again_gives_the_tree_that_it_was_made_of() {
    let all: Vec<Recording> = [recordings(), odd_recordings(), stopped_recordings()].concat();
    let (mut seen, mut wrong) = (0, Vec::new());
    for recording in all {
        let has_hooks = recording.hooks().is_file();
        let every = if has_hooks { &Telling::ALL[..] } else { &[Telling::Transcript, Telling::Stream] };
        for tellings in [&[Telling::Transcript][..], &[Telling::Stream], every] {
            let parts = parts_of(&recording, tellings);
            let Some(read) = read_at(&parts, None).filter(|read| !requests(read, None).is_empty()) else {
                continue;
            };
            let what = format!("{} {tellings:?}", recording.name());
            let Some(tree) = again(&read) else {
                wrong.push(format!("{what}: no session"));
                continue;
            };
            seen += 1;
            if tree.session.harness != read.tree.session.harness
                || tree.session.runs != read.tree.session.runs
            {
                wrong.push(format!("{what}: {:?} {:?}", tree.session, read.tree.session));
            }
            let (one, other) = (rows(&read.tree), rows(&tree));
            let differ = one.iter().zip(&other).find(|(one, other)| one != other);
            if let Some((one, other)) = differ {
                wrong.push(format!("{what}:\n - {one:?}\n + {other:?}"));
            } else if one.len() != other.len() {
                wrong.push(format!("{what}: {} agents, then {}", one.len(), other.len()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 100);
}

/// A text of an agent.
type Said = (String, PassageClass, String);

/// Returns what the search index finds in lines, but arguments and results.
fn found(lines: &[u8]) -> Vec<Said> {
    let mut found = Vec::new();
    let router = read(
        &[Part::new("otlp.jsonl", lines)],
        RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing },
    );
    let mut reader = PassageReader::new(router.dialect(SourceId(0)).unwrap(), None);
    let mut keep = |passage: subscope_session::passages::Passage<'_>| {
        if !matches!(passage.class, PassageClass::ToolInput | PassageClass::ToolResult) {
            found.push((passage.agent.to_owned(), passage.class, passage.text.into_owned()));
        }
    };
    reader.push(lines, &mut keep);
    reader.flush(&mut keep);
    found
}

/// Returns the texts of exported responses, and the prompts of agents that have some.
fn said(read: &Read, texts: &[SessionText], all: &[Span]) -> Vec<Said> {
    let chats: Vec<&Span> = all.iter().filter(|span| is(span, "chat")).collect();
    let resolve = |_: &Payload| None;
    let mut said = BTreeSet::new();
    for text in texts {
        if text.kind == EventKind::UserPrompt {
            continue;
        }
        let is_thought = text.kind == EventKind::Reasoning;
        let class = if is_thought { PassageClass::Thought } else { PassageClass::Message };
        let response = text.message_id.as_deref();
        let is_exported =
            |span: &&Span| response.is_some() && super::text(span, "gen_ai.response.id") == response;
        if let Some(chat) = chats.iter().copied().find(is_exported) {
            let words = redact(&text.read(&resolve).unwrap()).into_owned();
            said.insert((
                agent_of(chat).to_owned(),
                format!("{class:?}"),
                response.map(str::to_owned),
                words,
            ));
        }
    }
    let mut all: Vec<Said> = said
        .into_iter()
        .map(|(agent, class, _, words)| {
            let class = if class == "Thought" { PassageClass::Thought } else { PassageClass::Message };
            (agent, class, words)
        })
        .collect();
    // A prompt is exported with the first response to it.
    let runs =
        chats.iter().filter(|chat| agent_of(chat) == "root").filter_map(|chat| int(chat, "subscope.run"));
    for run in runs.collect::<BTreeSet<i64>>() {
        let own =
            texts.iter().filter(|text| text.kind == EventKind::UserPrompt && i64::from(text.run) == run);
        let prompts: Vec<String> = own.filter_map(|text| text.read(&resolve)).collect();
        if !prompts.is_empty() {
            all.push(("root".to_owned(), PassageClass::Prompt, redact(&prompts.join("\n\n")).into_owned()));
        }
    }
    for agent in read.tree.agents.iter().filter(|agent| !agent.id.is_root()) {
        if let Some(prompt) =
            agent.prompt.as_deref().filter(|_| chats.iter().any(|chat| agent_of(chat) == agent.id.as_str()))
        {
            all.push((agent.id.to_string(), PassageClass::Prompt, redact(prompt).into_owned()));
        }
    }
    all
}

#[test]
fn own_export_with_contents_has_each_prompt_and_answer_once() {
    let key = |(agent, class, words): &Said| (agent.clone(), format!("{class:?}"), words.clone());
    let mut seen = 0;
    for recording in recordings() {
        let what = recording.name();
        let read = read_at(&parts_of(&recording, &[Telling::Transcript]), None).unwrap();
        let texts = texts(&read);
        let resolve = |payload: &Payload| inline(payload).map(str::to_owned);
        let requests = requests(&read, Some(Contents { texts: &texts, resolve: &resolve }));
        let mut lines = Vec::new();
        write_otlp(&requests, &mut lines);
        // Sent twice, it is there once.
        let all = found(&[lines.clone(), lines.clone()].concat());
        let mut expected: Vec<_> = said(&read, &texts, &spans_in(&requests)).iter().map(key).collect();
        let mut all: Vec<_> = all.iter().map(key).collect();
        expected.sort();
        all.sort();
        assert_eq!(all, expected, "{what}");
        seen += all.len();
        let again = read_at(&[Part::new("otlp.jsonl", lines)], None).unwrap_or_else(|| panic!("{what}"));
        let asked = |tree: &Tree| -> BTreeMap<String, Option<String>> {
            let agents = tree.agents.iter().filter(|agent| !agent.id.is_root());
            agents
                .map(|agent| {
                    (agent.id.to_string(), agent.prompt.as_deref().map(|prompt| redact(prompt).into_owned()))
                })
                .collect()
        };
        let (one, other) = (asked(&read.tree), asked(&again.tree));
        for (agent, prompt) in other.iter().filter(|(_, prompt)| prompt.is_some()) {
            assert_eq!(one[agent], *prompt, "{what} {agent}");
        }
    }
    assert!(seen > 300, "{seen}");
}
