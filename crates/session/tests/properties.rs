//! Properties of any input, however it is cut, ordered, repeated, distributed over routers or damaged.

#![allow(clippy::unwrap_used)]

use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::Value;
use subscope_harness::{dialects, recognize};
use subscope_model::{Millis, Payload, Tree, Usage, parse_rfc3339};
use subscope_session::{Dialect, FactDetail, RouterOptions, SessionRouter};
use subscope_testkit::{
    corpus::{self, Memory},
    fixtures::{Recording, recording, recordings},
    others::{acp_recordings, other_recordings},
    sessions::{self, LATER, Part, Telling, options, parts_of, parts_of_memory, read, tree, tree_at},
    strategies::{chunkings, duplicated, interleavings, mutations},
};

/// Larger sources are left to other tests: a case must be fast without optimization.
const BIG_BYTES: usize = 400_000;

fn cases(count: u32) -> ProptestConfig {
    // Inputs come from fixtures and seeds: a failure is printed completely, so no regression file is written.
    ProptestConfig { failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::with_cases(count) }
}

/// Any small recording of any harness, with any choice of its dialects.
fn recorded() -> impl Strategy<Value = (String, Vec<Part>)> {
    prop_oneof![recorded_of_claude_code(), recorded_of_others()]
}

/// Any recording of another harness: one of its sources, or all.
fn recorded_of_others() -> impl Strategy<Value = (String, Vec<Part>)> {
    let recordings = other_recordings().into_iter().chain(acp_recordings());
    let mut all: Vec<_> = recordings.flat_map(|recording| recording.choices()).collect();
    // Two processes that print no times: which of them was the first, and so whose last words count, is not known.
    let has_times = |parts: &[Part]| tree(parts).agents.iter().any(|row| row.started_at_ms.is_some());
    all.retain(|(name, parts)| !(name.ends_with(" Stream") && parts.len() > 1) || has_times(parts));
    (0..all.len()).prop_map(move |number| all[number].clone())
}

/// Any small recording, with any non-empty choice of its dialects.
fn recorded_of_claude_code() -> impl Strategy<Value = (String, Vec<Part>)> {
    let all: Vec<Recording> = recordings();
    (0..all.len(), 1..8u8).prop_filter_map("too big", move |(number, choice)| {
        let tellings = chosen(choice);
        let parts = parts_of(&all[number], &tellings);
        let size: usize = parts.iter().map(|part| part.bytes.len()).sum();
        // An interactive session prints no stream.
        (size <= BIG_BYTES && !parts.is_empty())
            .then(|| (format!("{} {tellings:?}", all[number].name()), parts))
    })
}

fn chosen(choice: u8) -> Vec<Telling> {
    let bits = Telling::ALL.iter().enumerate().filter(|(bit, _)| choice & (1 << bit) != 0);
    bits.map(|(_, telling)| *telling).collect()
}

/// Any small generated session.
fn made() -> impl Strategy<Value = (corpus::Made, Memory)> {
    (any::<u64>(), 0..12usize, 1..4usize, 1..6usize, 0..4usize).prop_map(
        |(seed, agents, depth, parallel, turns)| {
            let options = corpus::Options {
                seed,
                agents,
                depth: depth.min(agents),
                parallel,
                turns,
                result_bytes: 200,
                errors_permille: 200,
                ..corpus::Options::default()
            };
            corpus::in_memory(&options)
        },
    )
}

fn json(tree: &Tree) -> String {
    serde_json::to_string_pretty(tree).unwrap()
}

/// The first line in which two trees differ.
fn difference(one: &Tree, other: &Tree) -> Option<(String, String)> {
    if one == other {
        return None;
    }
    let (one, other) = (json(one), json(other));
    let lines = one.lines().zip(other.lines()).find(|(one, other)| one != other);
    let (one, other) = lines.unwrap_or(("one is longer", ""));
    Some((one.trim().to_owned(), other.trim().to_owned()))
}

/// Pushes pieces of sources in the given order.
fn fold_pieces(parts: &[Part], pieces: &[(usize, Vec<u8>)]) -> SessionRouter {
    let mut router = SessionRouter::new(options(false));
    let sources: Vec<_> = parts.iter().map(|part| router.open(part.spec.clone())).collect();
    for (part, bytes) in pieces {
        router.push(sources[*part], bytes);
    }
    for source in sources {
        router.flush(source);
    }
    router
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn any_chunking_gives_the_same_tree(
        (name, parts, chunks) in recorded().prop_flat_map(|(name, parts)| {
            let chunks: Vec<_> = parts.iter().map(|part| chunkings(part.bytes.clone())).collect();
            (Just(name), Just(parts), chunks)
        })
    ) {
        let pieces: Vec<(usize, Vec<u8>)> =
            chunks.into_iter().enumerate().flat_map(|(part, chunks)| chunks.into_iter().map(move |chunk| (part, chunk))).collect();
        let cut = tree_at(&fold_pieces(&parts, &pieces), LATER);
        prop_assert_eq!(difference(&tree(&parts), &cut), None, "{}", name);
    }

    #[test]
    fn any_order_between_sources_gives_the_same_tree(
        (name, parts, pieces) in recorded().prop_flat_map(|(name, parts)| {
            let order = interleavings(parts.iter().map(Part::lines).collect());
            (Just(name), Just(parts), order)
        })
    ) {
        let mixed = tree_at(&fold_pieces(&parts, &pieces), LATER);
        prop_assert_eq!(difference(&tree(&parts), &mixed), None, "{}", name);
    }

    #[test]
    fn any_order_between_sources_of_a_made_up_session_gives_what_was_made(
        (made, parts, pieces) in made().prop_flat_map(|(made, memory)| {
            let parts = parts_of_memory(&memory, &Telling::ALL);
            let order = interleavings(parts.iter().map(Part::lines).collect());
            (Just(made), Just(parts), order)
        })
    ) {
        let mixed = tree_at(&fold_pieces(&parts, &pieces), LATER);
        prop_assert_eq!(difference(&tree(&parts), &mixed), None);
        prop_assert_eq!(agents_of(&mixed), made_agents(&made));
    }

    #[test]
    fn repeated_lines_with_ids_change_nothing(
        (name, parts, doubled) in recorded().prop_flat_map(|(name, mut parts)| {
            parts.retain(has_ids);
            let doubled: Vec<_> = parts.iter().map(|part| duplicated(part.lines())).collect();
            (Just(name), Just(parts), doubled)
        })
    ) {
        prop_assume!(!parts.is_empty());
        let again: Vec<Part> = parts
            .iter()
            .zip(doubled)
            .map(|(part, lines)| Part { bytes: without_repeats_of_lines_without_id_and_time(lines), ..part.clone() })
            .collect();
        prop_assert_eq!(difference(&tree(&parts), &tree(&again)), None, "{}", name);
    }

    #[test]
    fn any_choice_of_dialects_tells_the_same_agents((made, memory) in made(), choice in 1..8u8) {
        let parts = parts_of_memory(&memory, &chosen(choice));
        prop_assert_eq!(agents_of(&tree(&parts)), made_agents(&made), "{:?}", chosen(choice));
    }

    #[test]
    fn transcripts_of_some_agents_beside_stream_and_hooks_tell_the_same_agents(
        (made, memory) in made(),
        kept in vec(any::<bool>(), 13),
    ) {
        let mut parts = parts_of_memory(&memory, &Telling::ALL);
        let mut number = 0;
        parts.retain(|part| {
            number += usize::from(part.spec.agent.is_some());
            part.spec.agent.is_none() || kept[number % kept.len()]
        });
        prop_assert_eq!(agents_of(&tree(&parts)), made_agents(&made));
    }

    #[test]
    fn sources_dealt_out_to_several_folds_and_joined_give_one_tree(
        (name, parts, dealt) in recorded().prop_flat_map(|(name, parts)| {
            let count = parts.len();
            (Just(name), Just(parts), vec(0..3usize, count))
        })
    ) {
        let whole = with_payloads(&parts);
        let mut hands: Vec<Vec<Part>> = vec![Vec::new(); 3];
        for (part, hand) in parts.iter().zip(dealt) {
            hands[hand].push(part.clone());
        }
        let mut joined = SessionRouter::new(payload_options());
        for hand in &hands {
            joined.join(with_payloads(hand));
        }
        let (one, other) = (tree_at(&whole, LATER), tree_at(&joined, LATER));
        prop_assert_eq!(difference(&one, &without_positions(&other, &one)), None, "{}", &name);
        let order: Vec<Part> = hands.concat();
        prop_assert_eq!(payloads(&one, &parts), payloads(&other, &order), "{}", name);
    }

    #[test]
    fn lines_of_rubbish_between_others_take_nothing_away(
        (name, parts, rubbish) in recorded().prop_flat_map(|(name, parts)| {
            let count = parts.len();
            (Just(name), Just(parts), vec(vec((any::<Index>(), rubbish()), 0..4), count))
        })
    ) {
        let clean = tree(&parts);
        let mut dirty = parts;
        for (part, rubbish) in dirty.iter_mut().zip(rubbish) {
            if is_object(part) {
                continue;
            }
            let mut lines = part.lines();
            for (place, bytes) in rubbish {
                lines.insert(place.index(lines.len() + 1), bytes);
            }
            part.bytes = lines.concat();
        }
        let mut tree = tree(&dirty);
        tree.problems.clone_from(&clean.problems);
        prop_assert_eq!(difference(&clean, &tree), None, "{}", name);
    }

    #[test]
    fn usage_of_agents_and_of_nobody_is_the_summarys((name, parts) in recorded()) {
        prop_assert_eq!(sums(&tree(&parts)), Ok(()), "{}", name);
    }

    #[test]
    fn usage_of_made_up_agents_is_what_was_made((made, memory) in made()) {
        let tree = tree(&parts_of_memory(&memory, &Telling::ALL));
        prop_assert_eq!(sums(&tree), Ok(()));
        prop_assert_eq!(tree.summary.usage, Some(made.usage()));
        for agent in &made.agents {
            let row = tree.agents.iter().find(|row| row.id.as_str() == agent.id).unwrap();
            prop_assert_eq!((row.usage, u64::from(row.messages)), (Some(agent.usage), agent.responses));
        }
    }

    #[test]
    fn transcript_at_a_time_is_the_file_cut_there((name, part, cut) in single_transcript(), place in any::<Index>()) {
        let (time, end) = cut[place.index(cut.len())];
        let at_time = RouterOptions { cutoff: Some(time), ..options(false) };
        let cut = Part { bytes: part.bytes[..end].to_vec(), ..part.clone() };
        let dropped = tree_at(&read(std::slice::from_ref(&part), at_time), time);
        let mut short = tree_at(&read(&[cut], options(false)), time);
        // A title is written when the session has ended and has no time of its own.
        short.session.title.clone_from(&dropped.session.title);
        prop_assert_eq!(difference(&dropped, &short), None, "{} at {}", name, time);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..3000), dialect in any_dialect()) {
        survive(&bytes, dialect);
    }

    #[test]
    fn damaged_fixtures_never_panic(bytes in damaged(), dialect in any_dialect()) {
        survive(&bytes, dialect);
    }
}

fn any_dialect() -> impl Strategy<Value = Option<Dialect>> {
    (0..=dialects().count()).prop_map(|number| dialects().nth(number))
}

/// A window of some lines out of a small source, damaged.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let sources: Vec<Part> = [
        ("1.0.128", "a-single"),
        ("2.0.76", "c-nested"),
        ("2.1.330", "l-hostile-output"),
        ("2.1.330", "g-resume"),
    ]
    .iter()
    .flat_map(|(version, scenario)| parts_of(&recording(version, scenario), &Telling::ALL))
    .collect();
    (any::<Index>(), any::<Index>()).prop_flat_map(move |(source, start)| {
        let lines = sources[source.index(sources.len())].lines();
        let start = start.index(lines.len());
        let window: Vec<u8> = lines[start..].iter().take(12).flatten().take(24 << 10).copied().collect();
        mutations(window)
    })
}

/// Reads bytes, derives the tree and builds the feed; none may panic.
fn survive(bytes: &[u8], dialect: Option<Dialect>) {
    let mut part = Part::new("damaged.jsonl", bytes);
    part.spec.dialect = dialect;
    let mut router = read(&[part], options(true));
    let sessions: Vec<_> = router.sessions().cloned().collect();
    let prices = subscope_model::PriceTable::default();
    for session in sessions {
        let now = sessions::now(LATER, &prices);
        let tree = router.tree(&session, &now).unwrap();
        assert_eq!(tree.agents.first().map(|row| row.depth), Some(0));
        router.whole_feed(&session, &now);
    }
}

/// A line that belongs to no dialect.
fn rubbish() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"warning: something\n".to_vec()),
        Just(b"{\"type\":\n".to_vec()),
        Just(b"[1,2,3]\n".to_vec()),
        Just(b"null\n".to_vec()),
        Just(b"\xff\xfe\x00\x1b[2J\n".to_vec()),
        vec(any::<u8>(), 0..60).prop_map(|mut bytes| {
            bytes.retain(|byte| !b"\n{".contains(byte));
            bytes.push(b'\n');
            bytes
        }),
    ]
}

/// One agent: id, parent, spawn call, status, calls.
type AgentSummary = (String, Option<String>, Option<String>, &'static str, Vec<String>);

/// The agents of a tree: id, parent, spawn call, status, and each call with its owner.
fn agents_of(tree: &Tree) -> Vec<AgentSummary> {
    let mut all: Vec<_> = tree
        .agents
        .iter()
        .map(|row| {
            let mut calls: Vec<String> =
                row.tools.iter().filter_map(|call| Some(call.id.as_ref()?.to_string())).collect();
            calls.sort();
            (
                row.id.to_string(),
                row.parent_id.as_ref().map(ToString::to_string),
                row.spawned_by.as_ref().map(ToString::to_string),
                row.status.as_str(),
                calls,
            )
        })
        .collect();
    all.sort();
    all
}

fn made_agents(made: &corpus::Made) -> Vec<AgentSummary> {
    let mut all: Vec<_> = made
        .agents
        .iter()
        .map(|agent| {
            let mut calls: Vec<String> = agent.calls.iter().map(|call| call.id.clone()).collect();
            calls.sort();
            (agent.id.clone(), agent.parent.clone(), agent.spawned_by.clone(), "completed", calls)
        })
        .collect();
    all.sort();
    all
}

/// Whether lines of the source have ids. Those of hooks have none, so two equal ones can be two events.
fn has_ids(part: &Part) -> bool {
    !part.spec.label.starts_with("hooks") && !is_object(part)
}

/// Whether the source is one object, which is read as a whole: a line of rubbish in it damages all of it.
fn is_object(part: &Part) -> bool {
    part.spec.dialect.or_else(|| recognize(&part.bytes)).is_some_and(Dialect::is_object)
}

fn without_repeats_of_lines_without_id_and_time(lines: Vec<Vec<u8>>) -> Vec<u8> {
    let mut seen = std::collections::HashSet::new();
    let mut bytes = Vec::new();
    let mut is_over = false;
    let results = lines.iter().filter(|line| is_result(line)).collect::<std::collections::HashSet<_>>().len();
    let mut counted = 0;
    for line in &lines {
        let has_id = serde_json::from_slice::<Value>(line).is_ok_and(|value| {
            // Lines without times are ordered by offset: an old line after a new one is a new event.
            value["uuid"].is_string() && value["timestamp"].is_string()
        });
        let is_new = seen.insert(line.clone());
        counted += usize::from(is_new && is_result(line));
        if is_new || (has_id && !is_over) {
            bytes.extend_from_slice(line);
        }
        // Lines after a stream's last result are a run without a result, even if they repeat earlier ones.
        is_over = results > 0 && counted == results;
    }
    bytes
}

fn is_result(line: &[u8]) -> bool {
    line.windows(15).any(|window| window == b"\"type\":\"result\"")
}

fn payload_options() -> RouterOptions {
    RouterOptions { keep: FactDetail::Payloads, ..options(false) }
}

fn with_payloads(parts: &[Part]) -> SessionRouter {
    read(parts, payload_options())
}

/// The tree with the payloads of another of the same calls, since positions name sources by their number.
fn without_positions(tree: &Tree, like: &Tree) -> Tree {
    let mut tree = tree.clone();
    for (row, other) in tree.agents.iter_mut().zip(&like.agents) {
        for (call, other) in row.tools.iter_mut().zip(&other.tools) {
            (call.input, call.result) = (other.input.clone(), other.result.clone());
        }
    }
    tree
}

/// The text of each payload, read at the position given by the tree.
fn payloads(tree: &Tree, parts: &[Part]) -> Vec<(String, Option<Value>, Option<Value>)> {
    let read = |payload: Option<&Payload>| -> Option<Value> {
        let text = match payload? {
            Payload::Inline(text) => text.to_string(),
            Payload::At { source, offset, len } => {
                let bytes = &parts[source.0 as usize].bytes;
                let start = usize::try_from(*offset).unwrap();
                String::from_utf8(bytes[start..start + *len as usize].to_vec()).unwrap()
            }
        };
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    };
    let calls = tree.agents.iter().flat_map(|row| &row.tools);
    calls
        .map(|call| {
            (
                format!("{:?} {}", call.id, call.name),
                read(call.input.as_deref()),
                read(call.result.as_deref()),
            )
        })
        .collect()
}

/// Whether the sums of the tree are those of its rows.
fn sums(tree: &Tree) -> Result<(), String> {
    let own = tree.agents.iter().filter_map(|row| row.usage).fold(Usage::default(), |sum, usage| sum + usage);
    let nobodys = tree.summary.unattributed_usage.unwrap_or_default();
    let all = tree.summary.usage.unwrap_or_default();
    if (own + nobodys).kinds() != all.kinds() {
        return Err(format!("agents {own:?} and unattributed {nobodys:?} are not {all:?}"));
    }
    let tops = tree.agents.iter().filter(|row| row.parent_id.is_none());
    let subtrees = tops.filter_map(|row| row.subtree.usage).fold(Usage::default(), |sum, usage| sum + usage);
    if subtrees.kinds() != own.kinds() {
        return Err(format!("subtrees {subtrees:?} are not {own:?}"));
    }
    Ok(())
}

/// A main transcript with the places where it can be cut: the time of a line with no later line before it and no
/// earlier line after it, and the offset of the next line with a time.
fn single_transcript() -> impl Strategy<Value = (String, Part, Vec<(Millis, usize)>)> {
    let all: Vec<(String, Part)> = recordings()
        .iter()
        .map(|recording| (recording.name(), parts_of(recording, &[Telling::Transcript]).swap_remove(0)))
        .filter(|(_, part)| part.bytes.len() <= BIG_BYTES)
        .collect();
    any::<Index>().prop_map(move |number| {
        let (name, part) = all[number.index(all.len())].clone();
        let mut end = 0;
        let lines: Vec<(Option<Millis>, usize)> = part
            .lines()
            .iter()
            .map(|line| {
                end += line.len();
                let value: Value = serde_json::from_slice(line).unwrap();
                (value["timestamp"].as_str().and_then(parse_rfc3339), end)
            })
            .collect();
        // Before its first entry a file names no session.
        let first = part
            .lines()
            .iter()
            .position(|line| line.windows(13).any(|window| window == b"\"type\":\"user\""));
        let cuts =
            lines.iter().enumerate().skip(first.unwrap_or_default()).filter_map(|(number, (time, _))| {
                let time = (*time)?;
                // A line without a time has that of the line before it.
                let timeless = lines[number + 1..].iter().take_while(|(time, _)| time.is_none()).count();
                let (_, end) = lines[number + timeless];
                let before = lines[..number].iter().filter_map(|(time, _)| *time).all(|other| other <= time);
                let after =
                    lines[number + 1..].iter().filter_map(|(time, _)| *time).all(|other| other > time);
                (before && after).then_some((time, end))
            });
        let cuts = cuts.collect();
        (name, part, cuts)
    })
}
