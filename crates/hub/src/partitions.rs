//! Inbox partitions as sources of a router. A partition (source name, dialect, session of its lines) is one source and
//! stays open, so that order within it counts and the decoder keeps its state.

use std::collections::{BTreeSet, HashMap};

use subscope_model::{Millis, SourceId, true_id};
use subscope_session::{Dialect, SessionRouter, SourceOrigin, SourceSpec, is_noise};
use subscope_store::{ReceivedInput, SessionPart};

use crate::command::LinePlace;

/// A chunk of input from a program, with its metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputChunk<'a> {
    /// Name of the source.
    pub(crate) source: &'a str,
    /// `None` if it has to be recognized from the content.
    pub(crate) dialect: Option<Dialect>,
    /// Session of lines that name none.
    pub(crate) session: Option<&'a str>,
    pub(crate) received_ms: Millis,
    /// Position of the lines in a body of several sessions; otherwise lines are counted on.
    pub(crate) begins: Option<LinePlace>,
    /// Complete lines.
    pub(crate) body: &'a [u8],
}

impl<'a> InputChunk<'a> {
    /// Returns the chunks of saved input, one per session part.
    pub(crate) fn of(received: &'a ReceivedInput) -> impl Iterator<Item = Self> {
        let ReceivedInput { source, session, received_ms, body, parts, .. } = received;
        let dialect = subscope_harness::dialect(&received.dialect);
        let session = session.as_deref();
        let whole = Self { source, dialect, session, received_ms: *received_ms, begins: None, body };
        let divided = parts.iter().map(move |part| whole.part(part));
        divided.chain(parts.is_empty().then_some(whole))
    }

    /// Returns a part of a body of several sessions.
    pub(crate) fn part(self, part: &'a SessionPart) -> Self {
        let begins = Some(LinePlace { line: part.line, offset: part.offset });
        Self { session: Some(part.session.as_str()), begins, body: &part.body, ..self }
    }
}

/// Partitions that are open in a router.
#[derive(Default)]
pub(crate) struct Partitions {
    sources: HashMap<(String, Option<Dialect>, Option<String>), SourceId>,
    /// Session of the last lines of a source, for sources whose lines name it.
    last: HashMap<(String, Option<Dialect>), String>,
}

impl Partitions {
    /// Returns the session that a chunk names; a chunk that names none continues the last session of its source, unless
    /// nothing in it can be read: it may be anybody's.
    pub(crate) fn session_of(&self, chunk: &InputChunk<'_>) -> Option<String> {
        if let Some(session) = chunk.session {
            return Some(session.to_owned());
        }
        let named = chunk.dialect?.session_of(chunk.body);
        let last = || self.last.get(&(chunk.source.to_owned(), chunk.dialect)).cloned();
        named.or_else(|| {
            last().filter(|_| !chunk.dialect.is_some_and(|dialect| is_noise(dialect, chunk.body)))
        })
    }

    /// Whether a chunk itself names its session, rather than to continue that of its source.
    pub(crate) fn names_session(chunk: &InputChunk<'_>) -> bool {
        chunk.session.is_some()
            || chunk.dialect.is_some_and(|dialect| dialect.session_of(chunk.body).is_some())
    }

    /// Pushes a chunk into the source of its partition, and returns that source.
    pub(crate) fn push(&mut self, router: &mut SessionRouter, chunk: &InputChunk<'_>) -> SourceId {
        let named = self.session_of(chunk);
        self.push_named(router, chunk, named.as_deref())
    }

    /// The same with the session that [`Self::session_of`] returned.
    pub(crate) fn push_named(
        &mut self,
        router: &mut SessionRouter,
        chunk: &InputChunk<'_>,
        named: Option<&str>,
    ) -> SourceId {
        let Self { sources, last } = self;
        let InputChunk { source, dialect, session, received_ms, begins, body } = *chunk;
        if let Some(named) = named
            && (session.is_none() || begins.is_some())
        {
            last.insert((source.to_owned(), dialect), named.to_owned());
        }
        let partition = (source.to_owned(), dialect, named.map(str::to_owned));
        let source = *sources.entry(partition).or_insert_with(|| {
            let group = router.new_group();
            router.open(SourceSpec {
                label: source.to_owned(),
                dialect,
                group,
                session: named.map(|named| true_id(named).into_owned()),
                origin: SourceOrigin::Inbox,
                ..SourceSpec::default()
            })
        });
        router.receive_at(Some(received_ms));
        if let Some(LinePlace { line, offset }) = begins {
            router.skip_to(source, line, offset);
        }
        router.push(source, body);
        if dialect.is_none() {
            // The dialect has to be recognized from these complete lines: more of them would not help.
            router.flush(source);
        }
        router.end_body(source, Self::names_session(chunk));
        source
    }

    /// Forgets the partitions of sources that the router has evicted.
    pub(crate) fn remove(&mut self, evicted: &BTreeSet<SourceId>) {
        self.sources.retain(|_, source| !evicted.contains(source));
    }
}
