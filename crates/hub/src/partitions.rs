//! What programs hand over, as sources of a fold: each partition (a source, its dialect and the session that its lines are of)
//! is one, and stays open, so that order within it counts and what it said before is known.

use std::collections::{BTreeSet, HashMap};

use subscope_fold::{Dialect, Fold, SourceSpec};
use subscope_model::{Millis, SourceId};
use subscope_store::{Part, ReceivedInput};

use crate::command::LinePlace;

/// Bytes that were handed over, and what was said of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputChunk<'h> {
    /// The source by its name.
    pub(crate) source: &'h str,
    /// `None` where the content has to tell.
    pub(crate) dialect: Option<Dialect>,
    /// The session of lines that name none.
    pub(crate) session: Option<&'h str>,
    pub(crate) received_ms: Millis,
    /// Where the lines stand in a body of several sessions; otherwise they are counted on.
    pub(crate) begins: Option<LinePlace>,
    /// Whole lines.
    pub(crate) body: &'h [u8],
}

impl<'h> InputChunk<'h> {
    /// What was received before, part by part.
    pub(crate) fn of(received: &'h ReceivedInput) -> impl Iterator<Item = Self> {
        let ReceivedInput { source, session, received_ms, body, parts, .. } = received;
        let dialect = subscope_harness::dialect(&received.dialect);
        let session = session.as_deref();
        let whole = Self { source, dialect, session, received_ms: *received_ms, begins: None, body };
        let divided = parts.iter().map(move |part| whole.part(part));
        divided.chain(parts.is_empty().then_some(whole))
    }

    /// A part of a body of several sessions.
    pub(crate) fn part(self, part: &'h Part) -> Self {
        let begins = Some(LinePlace { line: part.line, offset: part.offset });
        Self { session: Some(part.session.as_str()), begins, body: &part.body, ..self }
    }
}

/// The partitions that a fold knows.
#[derive(Default)]
pub(crate) struct Partitions {
    sources: HashMap<(String, Option<Dialect>, Option<String>), SourceId>,
    /// Which session the lines of a source were of last, where they say so themselves.
    last: HashMap<(String, Option<Dialect>), String>,
    /// How many groups were ever numbered.
    groups: u32,
}

impl Partitions {
    /// The session that all of these bytes are said to be of; what says nothing goes on where its source was.
    pub(crate) fn named(&mut self, handed: &InputChunk<'_>) -> Option<String> {
        let of = (handed.source.to_owned(), handed.dialect);
        if let Some(session) = handed.session {
            if handed.begins.is_some() {
                self.last.insert(of, session.to_owned());
            }
            return Some(session.to_owned());
        }
        match handed.dialect?.session_of(handed.body) {
            Some(session) => {
                self.last.insert(of, session.clone());
                Some(session)
            }
            None => self.last.get(&of).cloned(),
        }
    }

    /// Pushes bytes as those of their partition, and returns its source.
    pub(crate) fn push(&mut self, fold: &mut Fold, handed: &InputChunk<'_>) -> SourceId {
        let named = self.named(handed);
        self.push_named(fold, handed, named.as_deref())
    }

    /// The same where it is known what they are said to be of.
    pub(crate) fn push_named(
        &mut self,
        fold: &mut Fold,
        handed: &InputChunk<'_>,
        named: Option<&str>,
    ) -> SourceId {
        let Self { sources, groups, .. } = self;
        let InputChunk { source, dialect, received_ms, begins, body, .. } = *handed;
        let partition = (source.to_owned(), dialect, named.map(str::to_owned));
        let source = *sources.entry(partition).or_insert_with(|| {
            // Files number their groups from 0.
            let group = u32::MAX - *groups;
            *groups += 1;
            fold.open(SourceSpec {
                label: source.to_owned(),
                dialect,
                group,
                session: named.map(str::to_owned),
                is_kept: true,
                ..SourceSpec::default()
            })
        });
        fold.receive_at(Some(received_ms));
        if let Some(LinePlace { line, offset }) = begins {
            fold.skip_to(source, line, offset);
        }
        fold.push(source, body);
        if dialect.is_none() {
            // Whole lines are all there is to tell a dialect by: more of them would not tell it better.
            fold.flush(source);
        }
        source
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Forgets these: the fold has let go of them.
    pub(crate) fn forget(&mut self, gone: &BTreeSet<SourceId>) {
        self.sources.retain(|_, source| !gone.contains(source));
    }
}
