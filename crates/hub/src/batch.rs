//! Reads existing files once into a router, on all cores; no thread is kept.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread::{self, ThreadId},
};

use subscope_collect::{CollectError, Expanded, Found, expand, read::SpanReader, work_tree};
use subscope_model::{Payload, Problem, SessionId, SourceId, replace_lone_surrogates};
use subscope_session::{Dialect, EventScope, FactDetail, RouterOptions, SessionRouter, SourceSpec};
use subscope_store::ReceivedInput;

use crate::{
    duplicates,
    loader::{FileLoader, file_spec, load_input},
    partitions::Partitions,
};

/// Result of reading TARGETs.
pub struct BatchRead {
    /// Facts of all files.
    pub router: SessionRouter,
    /// Files that could not be read.
    pub problems: Vec<Problem>,
    /// Number of files read.
    pub files: usize,
    /// Files by source number; sources without a file come after them.
    paths: Vec<PathBuf>,
    /// Input that cannot be read again, by source and offset; filled if payloads are to be found.
    bodies: BTreeMap<(SourceId, u64), Vec<u8>>,
    keeps_bodies: bool,
    /// Readers of payloads, one for each thread that reads them: each keeps the part of the file that it read last.
    readers: Mutex<HashMap<ThreadId, SpanReader>>,
}

/// A file to read, with its group number.
type FileJob = (u32, Found);

/// Input per thread below which more threads do not pay: starting and joining one costs about as much as reading this.
const MIN_THREAD_BYTES: u64 = 1 << 20;

/// Distributes files over threads so that each gets about the same number of bytes.
fn distribute(jobs: Vec<FileJob>) -> Vec<Vec<FileJob>> {
    let total: u64 = jobs.iter().map(|(_, found)| found.len).sum();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let useful = usize::try_from(total / MIN_THREAD_BYTES).unwrap_or(usize::MAX).max(1);
    let count = cores.min(useful);
    let mut shares: Vec<(u64, Vec<FileJob>)> = (0..count).map(|_| (0, Vec::new())).collect();
    // Greedy and in order: a share keeps the order of its files, and a file is never divided.
    for job in jobs {
        if let Some((bytes, share)) = shares.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            *bytes += job.1.len;
            share.push(job);
        }
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

/// Reads each share on its own thread.
fn read_parts(
    mut shares: Vec<Vec<FileJob>>,
    options: &RouterOptions,
    dialect: Option<Dialect>,
) -> Vec<BatchRead> {
    let last = shares.pop().unwrap_or_default();
    thread::scope(|scope| {
        let others: Vec<_> =
            shares.into_iter().map(|share| scope.spawn(move || read_part(share, options, dialect))).collect();
        let own = read_part(last, options, dialect);
        // A panic of a reader is a bug of ours: resume it here.
        let joined =
            others.into_iter().map(|it| it.join().unwrap_or_else(|it| std::panic::resume_unwind(it)));
        joined.chain([own]).collect()
    })
}

fn read_part(share: Vec<FileJob>, options: &RouterOptions, dialect: Option<Dialect>) -> BatchRead {
    let mut part = BatchRead::new(options.clone());
    let mut loader = FileLoader::default();
    for (group, found) in share {
        let spec = file_spec(&found, group, dialect);
        let source = part.router.open(spec);
        if let Err(unread) = loader.load(found.place(), source, &mut part.router) {
            part.problems.push(unread.problem());
        }
        part.files += 1;
        part.paths.push(found.kept_at.unwrap_or(found.path));
    }
    part
}

impl BatchRead {
    fn new(options: RouterOptions) -> Self {
        Self {
            keeps_bodies: options.keep == FactDetail::Payloads,
            readers: Mutex::default(),
            router: SessionRouter::new(options).with_work_trees(work_tree),
            problems: Vec::new(),
            files: 0,
            paths: Vec::new(),
            bodies: BTreeMap::new(),
        }
    }

    /// Whether anything was read of a session.
    pub fn has_session(&self, session: &SessionId) -> bool {
        self.router.sessions().any(|known| known == session)
    }

    /// The files that were read, where their bytes are.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads the files of several expanded TARGETs, each file once.
    pub fn read(expanded: Expanded, options: RouterOptions, dialect: Option<Dialect>) -> Self {
        let jobs = (0..).zip(expanded.groups);
        let jobs = jobs.flat_map(|(group, files)| files.files.into_iter().map(move |found| (group, found)));
        let mut parts = read_parts(distribute(jobs.collect()), &options, dialect).into_iter();
        // The first part is used as it is: nothing in it has to be renumbered.
        let mut batch = parts.next().unwrap_or_else(|| Self::new(options));
        for part in parts {
            batch.router.join(part.router);
            batch.files += part.files;
            batch.paths.extend(part.paths);
            batch.problems.extend(part.problems);
        }
        let skipped = expanded.skipped.into_iter();
        let skipped = skipped.map(|it| Problem { at: it.path.display().to_string(), what: it.why });
        batch.problems.splice(0..0, skipped);
        duplicates::mark_duplicates(&mut batch.router);
        batch
    }

    /// Expands TARGETs and merges the results. Files whose lines name no session belong to that of the others, if these are
    /// of one.
    ///
    /// # Errors
    /// If a TARGET cannot be expanded.
    pub fn expand(targets: &[PathBuf]) -> Result<Expanded, CollectError> {
        let none = Expanded { groups: Vec::new(), skipped: Vec::new() };
        let all: Result<Expanded, CollectError> =
            targets.iter().try_fold(none, |all, target| Ok(all.merge(expand(target)?)));
        all.map(Expanded::with_anonymous)
    }

    /// Reads standard input, or any other stream, as one more source with a name for problems.
    ///
    /// # Errors
    /// If the stream cannot be read; what was read before stays.
    pub fn read_stream(
        &mut self,
        input: impl io::Read,
        label: &str,
        dialect: Option<Dialect>,
    ) -> io::Result<()> {
        let label = label.to_owned();
        let group = self.router.new_group();
        let source = self.router.open(SourceSpec { label, dialect, group, ..SourceSpec::default() });
        let (router, mut body) = (&mut self.router, self.keeps_bodies.then(Vec::new));
        let outcome = subscope_collect::stdin::read_chunks(input, &mut |_, bytes| {
            router.push(source, bytes);
            body.iter_mut().for_each(|body| body.extend_from_slice(bytes));
        });
        self.bodies.extend(body.map(|body| ((source, 0), body)));
        self.router.flush(source);
        self.files += 1;
        outcome.map(|_| ())
    }

    /// Adds input from programs, in the order of its arrival.
    pub fn receive(&mut self, received: &[ReceivedInput]) {
        let mut partitions = Partitions::default();
        let mut ends: BTreeMap<SourceId, u64> = BTreeMap::new();
        for input in received {
            load_input(input, &mut partitions, &mut self.router, &mut |source, chunk| {
                // As in the decoder: offsets of a source never decrease.
                let end = ends.entry(source).or_default();
                let start = chunk.begins.map_or(*end, |begins| begins.offset.max(*end));
                *end = start + chunk.body.len() as u64;
                if self.keeps_bodies {
                    self.bodies.insert((source, start), chunk.body.to_vec());
                }
            });
        }
        self.router.receive_at(None);
    }

    /// Frees the facts: payloads can still be read, nothing more can be derived.
    pub fn release_facts(&mut self) {
        self.router = SessionRouter::new(RouterOptions {
            keep: FactDetail::Rows,
            cutoff: None,
            events: EventScope::Nothing,
        });
    }

    fn read_span(&self, path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let readers = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = thread::current().id();
        let mut reader = readers().remove(&thread).unwrap_or_default();
        let read = reader.read(path, offset, len);
        readers().insert(thread, reader);
        read
    }

    /// Returns the JSON text of a payload, read again from its file if needed.
    pub fn payload(&self, payload: &Payload) -> Option<String> {
        let text = match payload {
            Payload::Inline(text) => return Some(text.to_string()),
            Payload::At { source, offset, len } => {
                let before = self.bodies.range((*source, 0)..=(*source, *offset)).next_back();
                let bytes = match before {
                    Some(((_, start), body)) => {
                        let from = usize::try_from(offset - start).ok()?;
                        body.get(from..from.checked_add(*len as usize)?)?.to_vec()
                    }
                    None => {
                        let SourceId(number) = *source;
                        let path = self.paths.get(number as usize)?;
                        self.read_span(path, *offset, *len as usize).ok()?
                    }
                };
                String::from_utf8(bytes).ok()?
            }
        };
        Some(match replace_lone_surrogates(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(replaced) => replaced,
        })
    }
}
