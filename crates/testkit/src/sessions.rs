//! Runs sources through the product's own session router, for tests that need a tree or events.
//!
//! A [`Part`] is one source with its bytes, from hand-made lines, a recording or a generated session. [`sketch`]
//! formats a tree as text for expected values in tests.

use std::path::Path;

use subscope_model::{Event, Flag, PriceTable, SessionId, ToolStatus, Tree};
use subscope_session::{
    EventScope, FactDetail, Limits, Now, RouterOptions, SessionRouter, SourceOrigin, SourceSpec,
};

use crate::{
    corpus::{Memory, Source},
    fixtures::{self, Recording},
    lines::{Line, jsonl},
};

/// A time long after every recording and generated session: agents without an end are lost by then.
pub const LATER: i64 = 1_900_000_000_000;

/// Default chunk size.
const CHUNK_BYTES: usize = 1 << 16;

/// One source and its bytes.
#[derive(Clone, Debug)]
pub struct Part {
    /// Properties that its path would give.
    pub spec: SourceSpec,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Dialects of a session's sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Transcripts and meta files.
    Transcript,
    /// Printed output of the processes.
    Stream,
    /// The hook log.
    Hooks,
}

impl Telling {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Transcript, Self::Stream, Self::Hooks];
}

impl Part {
    /// Returns a source with a name; its dialect is recognized by content.
    pub fn new(label: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let spec =
            SourceSpec { label: label.to_owned(), origin: SourceOrigin::TailedFile, ..SourceSpec::default() };
        Self { spec, bytes: bytes.into() }
    }

    /// A source of hand-made lines.
    pub fn of(label: &str, lines: impl IntoIterator<Item = Line>) -> Self {
        Self::new(label, jsonl(lines))
    }

    /// The same, as the file of that subagent.
    #[must_use]
    pub fn by_agent(mut self, agent: &str) -> Self {
        self.spec.agent = Some(agent.to_owned());
        self
    }

    /// The source's lines with their line ends.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        self.bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }
}

/// A file of a recording.
fn part(path: &Path, telling: Telling) -> Part {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut part = Part::new(&name, fixtures::bytes(path));
    part.spec.session = session_of(path).filter(|_| telling == Telling::Transcript);
    part.spec.workflow = path
        .parent()
        .and_then(Path::file_name)
        .map(|folder| folder.to_string_lossy().into_owned())
        .filter(|folder| folder.starts_with("wf_") && telling == Telling::Transcript);
    let agent = name.strip_prefix("agent-").and_then(|rest| rest.split('.').next());
    match agent {
        Some(agent) if telling == Telling::Transcript => part.by_agent(agent),
        Some(_) | None => part,
    }
}

/// Returns the session id in the path of a transcript or meta file: `<session>.jsonl`, `<session>/subagents/agent-…`.
fn session_of(path: &Path) -> Option<String> {
    let named = path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "subagents"));
    let named = match named {
        Some(folder) => folder.parent()?.file_name()?,
        None => path.file_stem()?,
    };
    Some(named.to_string_lossy().into_owned()).filter(|name| !name.starts_with("agent-"))
}

/// The sources of a recording in the given dialects, in that order.
pub fn parts_of(recording: &Recording, tellings: &[Telling]) -> Vec<Part> {
    let files = |telling: &Telling| match telling {
        Telling::Transcript => recording.conversation(),
        Telling::Stream => recording.streams(),
        Telling::Hooks => vec![recording.hooks()],
    };
    let both = tellings.iter().flat_map(|telling| files(telling).into_iter().map(|file| (file, *telling)));
    both.map(|(file, telling)| part(&file, telling)).collect()
}

/// The sources of a made-up session in the given dialects.
pub fn parts_of_memory(memory: &Memory, tellings: &[Telling]) -> Vec<Part> {
    let telling = |source: &Source| match source {
        Source::Main | Source::Agent(_) | Source::Meta(_) => Telling::Transcript,
        Source::Stream => Telling::Stream,
        Source::Hooks => Telling::Hooks,
    };
    // One pass over the lines: a session of thousands of agents has twice as many sources.
    let mut places = std::collections::HashMap::new();
    let mut parts: Vec<Part> = Vec::new();
    for line in memory.lines.iter().filter(|line| tellings.contains(&telling(&line.source))) {
        let place = *places.entry(&line.source).or_insert_with(|| {
            parts.push(empty(&line.source));
            parts.len() - 1
        });
        let bytes = &mut parts[place].bytes;
        if matches!(line.source, Source::Meta(_)) {
            bytes.clear();
        }
        bytes.extend_from_slice(line.line.as_bytes());
        bytes.push(b'\n');
    }
    parts
}

fn empty(source: &Source) -> Part {
    match source {
        Source::Main => Part::new("main.jsonl", ""),
        Source::Agent(id) => Part::new(&format!("agent-{id}.jsonl"), "").by_agent(id),
        Source::Meta(id) => Part::new(&format!("agent-{id}.meta.json"), "").by_agent(id),
        Source::Stream => Part::new("stream.jsonl", ""),
        Source::Hooks => Part::new("hooks.jsonl", ""),
    }
}

/// Returns the router options of tests: rows, with events if `events`.
pub fn options(events: bool) -> RouterOptions {
    RouterOptions {
        keep: FactDetail::Rows,
        cutoff: None,
        events: if events { EventScope::All } else { EventScope::Nothing },
    }
}

/// Reads sources one after the other.
pub fn read(parts: &[Part], options: RouterOptions) -> SessionRouter {
    let mut router = SessionRouter::new(options);
    for part in parts {
        let source = router.open(part.spec.clone());
        for chunk in part.bytes.chunks(CHUNK_BYTES) {
            router.push(source, chunk);
        }
        router.flush(source);
    }
    router
}

/// Returns the router's view of time at `at`, with default limits.
pub fn now(at: i64, prices: &PriceTable) -> Now<'_> {
    Now { at, has_ended: false, is_growing: false, prices, limits: Limits::default() }
}

/// Returns the only session of a router; panics if there is not exactly one.
pub fn only_session(router: &SessionRouter) -> SessionId {
    let sessions: Vec<&SessionId> = router.sessions().collect();
    match sessions.as_slice() {
        [only] => (*only).clone(),
        other => panic!("{} sessions instead of one: {other:?}", other.len()),
    }
}

/// Returns the tree of the only session of a router, derived at `at`.
pub fn tree_at(router: &SessionRouter, at: i64) -> Tree {
    let session = only_session(router);
    let prices = PriceTable::default();
    router.tree(&session, &now(at, &prices)).unwrap_or_else(|| panic!("no tree of {session}"))
}

/// Returns the tree of sources of one session, derived at [`LATER`].
pub fn tree(parts: &[Part]) -> Tree {
    tree_at(&read(parts, options(false)), LATER)
}

/// Returns the whole feed of sources of one session.
pub fn events(parts: &[Part]) -> Vec<Event> {
    let mut router = read(parts, options(true));
    let session = only_session(&router);
    let prices = PriceTable::default();
    router.whole_feed(&session, &now(LATER, &prices))
}

/// Returns a tree as text, one line an agent:
///
/// ```text
/// root completed: Agent ok
///   a1 Explore completed: Bash ok, ~Read open
/// ```
///
/// A guessed owner is marked `~`; flags are in brackets.
pub fn sketch(tree: &Tree) -> String {
    let mut text = String::new();
    for row in &tree.agents {
        let indent = "  ".repeat(row.depth as usize);
        let kind = row.agent_type.as_deref().map(|kind| format!(" {kind}")).unwrap_or_default();
        let flags: Vec<&str> = row.flags.iter().map(|flag: &Flag| flag.as_str()).collect();
        let flags = if flags.is_empty() { String::new() } else { format!(" [{}]", flags.join(" ")) };
        let calls: Vec<String> = row
            .tools
            .iter()
            .map(|call| {
                let mark = if call.basis.is_guess() { "~" } else { "" };
                let status: ToolStatus = call.status;
                format!("{mark}{} {}", call.name, status.as_str())
            })
            .collect();
        let calls = if calls.is_empty() { String::new() } else { format!(": {}", calls.join(", ")) };
        text += &format!("{indent}{}{kind} {}{flags}{calls}\n", row.id, row.status.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{corpus, lines::transcript};

    #[test]
    fn parts_of_memory_hold_what_memory_holds() {
        let (_, memory) = corpus::in_memory(&corpus::Options::default());
        let parts = parts_of_memory(&memory, &Telling::ALL);
        assert_eq!(parts.len(), memory.sources().len());
        for (part, source) in parts.iter().zip(memory.sources()) {
            let bytes = memory.bytes(&source);
            assert_eq!(part.bytes.strip_suffix(b"\n"), Some(bytes.strip_suffix(b"\n").unwrap_or(&bytes)));
        }
    }

    #[test]
    fn sketch_writes_agents_states_and_calls() {
        let lines = [
            transcript::user("go"),
            transcript::tool_use("Bash", "t1").after_ms(1),
            transcript::assistant("Done.").stop("end_turn").after_ms(2),
        ];
        assert_eq!(sketch(&tree(&[Part::of("main.jsonl", lines)])), "root completed: Bash open\n");
    }
}
