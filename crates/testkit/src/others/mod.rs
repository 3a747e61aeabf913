//! The recordings of the harnesses other than Claude Code: `fixtures/<harness>/<version>/<scenario>/` with the harness's
//! own files, what its processes printed, sent or posted, and `truth.json`. [`differences`] compares a tree with that.

mod compare;

use std::path::{Path, PathBuf};

use serde_json::Value;
use subscope_collect::{Found, expand, read::read_file};
use subscope_harness::{Role, recognize};
use subscope_session::{Dialect, SourceOrigin, SourceSpec};

pub use self::compare::differences;
use crate::{
    fixtures::{self, entries, name},
    sessions::Part,
};

/// File names of a harness's sources in a recording.
struct Sources {
    harness: &'static str,
    /// The harness's own files: the first that is there counts.
    on_disk: &'static [&'static str],
    /// Prefixes of the names of printed, sent and posted sources.
    streams: &'static [&'static str],
    /// How many recordings there are at least.
    least: usize,
}

const HARNESSES: &[Sources] = &[
    Sources { harness: "cline", on_disk: &["dot_cline"], streams: &["stdout", "hooks"], least: 8 },
    Sources { harness: "codex", on_disk: &["sessions"], streams: &["stdout", "hooks", "rpc"], least: 8 },
    Sources { harness: "copilot", on_disk: &["dot_copilot"], streams: &["stdout", "hooks"], least: 6 },
    Sources { harness: "gemini", on_disk: &["dot_gemini_tmp"], streams: &["stdout", "hooks"], least: 4 },
    Sources { harness: "kilo", on_disk: &["kilo.db"], streams: &["stdout"], least: 8 },
    Sources { harness: "kimi", on_disk: &["dot_kimi"], streams: &["stdout", "hooks"], least: 9 },
    Sources { harness: "omp", on_disk: &["dot_omp"], streams: &["stdout"], least: 10 },
    Sources {
        harness: "opencode",
        on_disk: &["opencode.db", "storage"],
        streams: &["stdout", "event", "global_event", "hooks"],
        least: 8,
    },
    Sources { harness: "qwen", on_disk: &["dot_qwen"], streams: &["stdout", "hooks"], least: 2 },
];

/// Connections over ACP: the folder below `fixtures/acp`, the harness, and its own files.
const CONNECTIONS: &[(&str, Sources)] = &[
    ("claude-agent", Sources { harness: "claude-code", on_disk: &["projects"], streams: &["acp"], least: 2 }),
    ("codex", Sources { harness: "codex", on_disk: &["sessions"], streams: &["acp"], least: 2 }),
    ("kilo", Sources { harness: "kilo", on_disk: &["share"], streams: &["acp"], least: 1 }),
    ("kimi", Sources { harness: "kimi", on_disk: &["dot_kimi"], streams: &["acp"], least: 1 }),
    ("omp", Sources { harness: "omp", on_disk: &["dot_omp"], streams: &["acp"], least: 1 }),
];

/// One recording: the output of one scenario with one version of a harness.
#[derive(Clone, Debug)]
pub struct OtherRecording {
    /// The harness, as `codex`.
    pub harness: &'static str,
    /// Its folder.
    pub folder: PathBuf,
    /// The right answer.
    pub truth: Value,
    /// The harness's own files: a TARGET.
    pub on_disk: PathBuf,
    /// What was printed, sent or posted: for each kind of source the files, one for each process.
    pub streams: Vec<Vec<PathBuf>>,
}

/// Returns all recordings of the other harnesses, by harness, version and scenario.
pub fn other_recordings() -> Vec<OtherRecording> {
    HARNESSES.iter().flat_map(recordings_of).collect()
}

/// Returns the recordings of connections over ACP, with the files that the agents wrote meanwhile.
pub fn acp_recordings() -> Vec<OtherRecording> {
    let of = |(folder, sources): &(&str, Sources)| {
        recordings_below(&fixtures::root().join("acp").join(folder), sources)
    };
    CONNECTIONS.iter().flat_map(of).collect()
}

fn recordings_of(sources: &Sources) -> Vec<OtherRecording> {
    recordings_below(&fixtures::root().join(sources.harness), sources)
}

fn recordings_below(folder: &Path, sources: &Sources) -> Vec<OtherRecording> {
    let versions = entries(folder).into_iter().filter(|path| path.is_dir());
    let scenarios = versions.flat_map(|at| entries(&at));
    let recorded = scenarios.filter(|folder| folder.join("truth.json").is_file());
    let all: Vec<OtherRecording> = recorded.map(|folder| recording(sources, folder)).collect();
    assert!(all.len() >= sources.least, "{} recordings of {}", all.len(), sources.harness);
    all
}

fn recording(sources: &Sources, folder: PathBuf) -> OtherRecording {
    let files = entries(&folder);
    let stream = |prefix: &&str| {
        let is_one = |file: &&PathBuf| name(file).split('.').next() == Some(prefix);
        let mut found: Vec<PathBuf> = files.iter().filter(is_one).cloned().collect();
        // The second process of a session has a number: `stdout.jsonl`, `stdout.2.jsonl`.
        found.sort_by_key(|file| name(file).split('.').nth(1).and_then(|number| number.parse::<u32>().ok()));
        found
    };
    let on_disk = sources.on_disk.iter().map(|name| folder.join(name)).find(|path| path.exists());
    OtherRecording {
        harness: sources.harness,
        truth: serde_json::from_slice(&fixtures::bytes(&folder.join("truth.json")))
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display())),
        on_disk: on_disk.unwrap_or_else(|| panic!("no files of {} in {}", sources.harness, folder.display())),
        streams: sources.streams.iter().map(stream).filter(|files| !files.is_empty()).collect(),
        folder,
    }
}

impl OtherRecording {
    /// `harness/version/scenario`, for messages.
    pub fn name(&self) -> String {
        let below = self.folder.strip_prefix(fixtures::root()).unwrap_or(&self.folder);
        below.display().to_string()
    }

    /// The session's own files, as they are found on disk.
    pub fn disk(&self) -> Vec<Part> {
        let found = expand(&self.on_disk).unwrap_or_else(|error| panic!("{}: {error}", self.name()));
        found.groups.into_iter().flat_map(|group| group.files).map(found_part).collect()
    }

    /// The files of one kind of stream. Of those whose lines name no session the session is given.
    pub fn stream(files: &[PathBuf]) -> Vec<Part> {
        files.iter().map(|file| stream_part(file)).collect()
    }

    /// Each source alone, then all together, each with a name.
    pub fn choices(&self) -> Vec<(String, Vec<Part>)> {
        let disk = self.disk();
        let streams: Vec<Vec<Part>> = self.streams.iter().map(|files| Self::stream(files)).collect();
        let all = [vec![disk.clone()], streams.clone()].concat().concat();
        let mut choices = vec![(format!("{} Transcript", self.name()), disk)];
        for (files, parts) in self.streams.iter().zip(streams) {
            let kind = if name(&files[0]).starts_with("hooks") { "Hooks" } else { "Stream" };
            choices.push((format!("{} {kind}", self.name()), parts));
        }
        choices.push((format!("{} merged", self.name()), all));
        choices
    }
}

fn stream_part(file: &Path) -> Part {
    let mut part = Part::new(&name(file), fixtures::bytes(file));
    if recognize(&part.bytes).is_some_and(Dialect::is_anonymous) {
        let truth = file.with_file_name("truth.json");
        let truth: Value = serde_json::from_slice(&fixtures::bytes(&truth)).unwrap_or_default();
        part.spec.session = truth["session"]["id"].as_str().map(str::to_owned);
    }
    part
}

/// A file as it was found on disk.
fn found_part(found: Found) -> Part {
    let mut bytes = Vec::new();
    read_file(found.place(), 0, &mut Vec::new(), &mut |_, chunk| bytes.extend_from_slice(chunk))
        .unwrap_or_else(|error| panic!("{}: {error}", found.path.display()));
    let spec = SourceSpec {
        label: label(&found.path),
        origin: SourceOrigin::TailedFile,
        // Of a main transcript only the content is certain.
        dialect: found.what.dialect.filter(|_| found.what.role != Role::Main),
        by_path: found.what.dialect,
        session: found.what.session.clone(),
        agent: found.what.agent.clone(),
        ..SourceSpec::default()
    };
    Part { spec, bytes }
}

/// The name of a file with that of its folder: files of agents may have equal names.
fn label(path: &Path) -> String {
    format!("{}/{}", name(path.parent().unwrap_or(path)), name(path))
}
