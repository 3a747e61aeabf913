//! Our own export, read again as OpenTelemetry records, gives the exported tree.

use subscope_model::Basis;
use subscope_testkit::fixtures::{Recording, odd_recordings, recordings, stopped_recordings};

use super::*;

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
    write_otlp(requests(read, None), &mut lines).unwrap();
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
