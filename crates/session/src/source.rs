//! Sources of a router, and the recognition of their dialects.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hasher},
    path::Path,
};

use subscope_decode::{Decoder, Dialect, Hint, Unrecognized};
use subscope_harness::{
    harness_of_service, is_lookalike, otel_sources, recognize, renamed_by_path, tool_class,
};
use subscope_model::{Claim, Decoded, Observation, SessionId, SourceId, SourceKind};

/// Most bytes buffered until a source's dialect is recognized.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// Description of a source to open.
#[derive(Clone, Debug, Default)]
pub struct SourceSpec {
    /// Display name, used in problems.
    pub label: String,
    /// Dialect; `None` to recognize it by content.
    pub dialect: Option<Dialect>,
    /// Dialect by its path, where its content is asked: of several programs that write the same lines, the one whose folder
    /// it is in wrote it.
    pub by_path: Option<Dialect>,
    /// Sources of one group belong to one session, whatever their paths are.
    pub group: u32,
    /// Session that its path names, or its sender.
    pub session: Option<String>,
    /// Only lines of this session are decoded, if the lines of its dialect name theirs; `None` for all lines.
    pub only: Option<SessionId>,
    /// Agent that its path names.
    pub agent: Option<String>,
    /// Workflow that its path names.
    pub workflow: Option<String>,
    /// Where its bytes come from.
    pub origin: SourceOrigin,
}

/// Where the bytes of a source come from, and so how its session is loaded again after it was evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceOrigin {
    /// A stream. Its sessions are never evicted.
    #[default]
    Stream,
    /// A file that a driver tails: the driver reads it again.
    TailedFile,
    /// A file that was read once.
    File,
    /// The inbox, which stores input by session.
    Inbox,
}

impl SourceOrigin {
    /// Whether a place in the source is no address: its bytes cannot be read again by it.
    pub(crate) fn is_read_once(self) -> bool {
        match self {
            Self::Stream | Self::Inbox => true,
            Self::TailedFile | Self::File => false,
        }
    }
}

/// An open source, with what is decoded of it.
#[derive(Default)]
pub(crate) struct OpenSource {
    pub(crate) spec: SourceSpec,
    pub(crate) id: SourceId,
    pub(crate) decoder: Option<Box<dyn Decoder>>,
    pub(crate) dialect: Option<Dialect>,
    /// Bytes buffered until the dialect is recognized.
    pub(crate) head: Vec<u8>,
    /// Counts lines read before the dialect was recognized.
    pub(crate) unrecognized: Option<Unrecognized>,
    /// Session named by the latest line that names one.
    pub(crate) session: Option<SessionId>,
    /// Number of the session of the latest line.
    pub(crate) number: Option<usize>,
    /// Session of the first line that belongs to one.
    pub(crate) first: Option<SessionId>,
    /// Sessions that its lines name, if those of its dialect name theirs; also those that are left out.
    pub(crate) named: Vec<SessionId>,
    /// Number of the session of the first line of the body that is being pushed.
    pub(crate) body: Option<usize>,
    /// Whether lines of several sessions came from it.
    pub(crate) is_shared: bool,
    /// Digests of its observations, if it is one object that its harness rewrites.
    pub(crate) observed: HashSet<u64>,
}

impl OpenSource {
    /// Begins to decode in a dialect.
    pub(crate) fn start(&mut self, dialect: Dialect) {
        self.dialect = Some(dialect);
        let mut decoder = dialect.decoder(&self.hint());
        if let Some(before) = self.unrecognized.take() {
            let (line, offset) = before.next_line();
            decoder.skip_to(line, offset);
        }
        self.decoder = Some(decoder);
    }

    pub(crate) fn hint(&self) -> Hint {
        Hint {
            source: self.id,
            session: self.spec.session.clone(),
            agent: self.spec.agent.clone(),
            workflow: self.spec.workflow.clone(),
            tool_class,
            harness_of_service,
            otel_sources,
        }
    }
}

/// Bytes of a body that are tried first to see whether it can be read.
const TRIED_BYTES: usize = 64 << 10;

/// Whether nothing but problems can be read from lines of a dialect.
pub fn is_noise(dialect: Dialect, lines: &[u8]) -> bool {
    let first = lines.get(..TRIED_BYTES).unwrap_or(lines);
    [first, lines].into_iter().all(|lines| {
        let (mut is_read, mut has_problem) = (false, false);
        let mut decoder = dialect.decoder(&OpenSource::default().hint());
        decoder.push(lines, &mut |decoded| match decoded {
            Decoded::Observation(_) => is_read = true,
            Decoded::Problem { .. } => has_problem = true,
        });
        !is_read && has_problem
    })
}

/// Returns a digest of an observation with its position.
pub(crate) fn digest(seen: &Observation<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{seen:?}").as_bytes());
    hasher.finish()
}

/// Recognizes the dialect of a source by the first complete lines, or by all there is if nothing will follow; `None` for a
/// file where an unsupported program keeps its sessions, whose lines look like a harness's.
pub(crate) fn recognize_head(spec: &SourceSpec, head: &[u8], is_all: bool) -> Option<Dialect> {
    let is_file = matches!(spec.origin, SourceOrigin::File | SourceOrigin::TailedFile);
    if is_file && is_lookalike(Path::new(&spec.label)) {
        return None;
    }
    let start = head.get(..HEAD_BYTES).unwrap_or(head);
    let found = match start.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => recognize(start.get(..end).unwrap_or_default()),
        None if is_all || head.len() >= HEAD_BYTES => recognize(start),
        None => None,
    };
    found.map(|dialect| renamed_by_path(dialect, spec.by_path))
}

/// Whether an observation without a time gets the receive time: hooks and old streams have no times.
pub(crate) fn needs_time(seen: &Observation<'_>) -> bool {
    matches!(seen.kind, SourceKind::Hook | SourceKind::Stream) || matches!(seen.claim, Claim::Silent)
}
