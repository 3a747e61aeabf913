//! The recordings under `fixtures/`: real output of real harnesses, never edited.
//!
//! `claude-code/<version>/<scenario>/` holds `projects/` (the harness's own folder), `stream.jsonl` or
//! `stream.<n>.jsonl` (one for each process), `hooks.jsonl`, `otel-*.jsonl` where recorded, and `truth.json`.
//! Interactive recordings (`interactive-…`) have no stream, but the model's own log (`api-requests.jsonl`,
//! `api-replies.jsonl`). `unseen/<version>/<scenario>/` is the same without `truth.json`;
//! `stopped/<version>/<scenario>/` also has `stop-orders.jsonl`, which stopped one of the agents, and a truth that
//! includes the stop.

use std::{
    fs,
    path::{Path, PathBuf},
};

use subscope_model::Millis;

use crate::truth::Truth;

/// One recording: the output of one scenario with one version of a harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The version of the harness, as `2.1.330`.
    pub version: String,
    /// The scenario, as `b-parallel`.
    pub scenario: String,
    /// The recording's folder.
    pub folder: PathBuf,
}

/// Returns the folder of all fixtures.
pub fn root() -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    // The plain path, so that messages and redacted output show no `..`.
    fixtures.canonicalize().unwrap_or(fixtures)
}

/// Returns all recordings of Claude Code, oldest version first, then by scenario. Never empty.
pub fn recordings() -> Vec<Recording> {
    let mut found = below("claude-code");
    found.retain(|recording| recording.folder.join("truth.json").is_file());
    assert!(!found.is_empty(), "no recordings below {}", root().display());
    found
}

/// Returns the recordings of odd cases, which have no `truth.json`: snapshots guard them against change.
pub fn odd_recordings() -> Vec<Recording> {
    let found = below("unseen");
    assert!(!found.is_empty(), "no odd recordings below {}", root().display());
    found
}

/// Returns the recordings in which a person stopped one of the agents, oldest version first.
pub fn stopped_recordings() -> Vec<Recording> {
    let found = below("stopped");
    assert!(!found.is_empty(), "no stopped recordings below {}", root().display());
    found
}

fn below(folder: &str) -> Vec<Recording> {
    let mut found: Vec<Recording> = entries(&root().join(folder))
        .iter()
        .flat_map(|version| entries(version))
        .map(|folder| Recording {
            version: name(folder.parent().unwrap_or(&folder)),
            scenario: name(&folder),
            folder,
        })
        .collect();
    found.sort_by_key(|recording| (version_numbers(&recording.version), recording.scenario.clone()));
    found
}

/// Returns the recording of that version and scenario, as `("2.1.330", "c-nested")`.
pub fn recording(version: &str, scenario: &str) -> Recording {
    let folder = root().join("claude-code").join(version).join(scenario);
    assert!(folder.is_dir(), "no recording {version}/{scenario}");
    Recording { version: version.to_owned(), scenario: scenario.to_owned(), folder }
}

impl Recording {
    /// `version/scenario`, for messages.
    pub fn name(&self) -> String {
        format!("{}/{}", self.version, self.scenario)
    }

    /// The folder in place of `~/.claude/projects`.
    pub fn projects(&self) -> PathBuf {
        self.folder.join("projects")
    }

    /// The main transcripts. Never empty; one in all recordings so far.
    pub fn mains(&self) -> Vec<PathBuf> {
        self.transcripts(|file, stem| {
            stem.ends_with(".jsonl") && !stem.starts_with("agent-") && !is_below(file, "subagents")
        })
    }

    /// The transcripts of subagents, by path. Empty for 1.0.x, where they are part of the main file.
    pub fn agents(&self) -> Vec<PathBuf> {
        self.transcripts(|_, stem| stem.starts_with("agent-") && stem.ends_with(".jsonl"))
    }

    /// The `agent-<id>.meta.json` files. Empty before 2.1.110.
    pub fn metas(&self) -> Vec<PathBuf> {
        self.transcripts(|_, stem| stem.ends_with(".meta.json"))
    }

    /// Whether a person typed prompts into a terminal: such a process prints no stream.
    pub fn is_interactive(&self) -> bool {
        self.scenario.starts_with("interactive-")
    }

    /// What each process printed, in order of start. Empty only where [`Recording::is_interactive`].
    pub fn streams(&self) -> Vec<PathBuf> {
        self.own(|stem| stem.starts_with("stream.") && stem.ends_with(".jsonl"))
    }

    /// The log of hook payloads, one per line.
    pub fn hooks(&self) -> PathBuf {
        self.folder.join("hooks.jsonl")
    }

    /// The orders that agents stop. There only in [`stopped_recordings`].
    pub fn stop_orders(&self) -> PathBuf {
        self.folder.join("stop-orders.jsonl")
    }

    /// The bodies of OTLP posts, one per line. Empty where none were recorded.
    pub fn otel(&self) -> Vec<PathBuf> {
        self.own(|stem| stem.starts_with("otel-") && stem.ends_with(".jsonl"))
    }

    /// When each line of `file` (a stream or the hook log) was received. Streams and hook logs carry no time of
    /// receipt themselves.
    pub fn received(&self, file: &Path) -> Vec<Millis> {
        let times = file.with_extension("recv_ns.txt");
        let nanos = |line: &str| -> Millis {
            line.trim()
                .parse::<i64>()
                .unwrap_or_else(|error| panic!("{}: {error}: {line:?}", times.display()))
        };
        text(&times).lines().map(|line| nanos(line) / 1_000_000).collect()
    }

    /// All files that a reader of transcripts reads: mains, agents, metas.
    pub fn conversation(&self) -> Vec<PathBuf> {
        [self.mains(), self.agents(), self.metas()].concat()
    }

    /// The right answer.
    pub fn truth(&self) -> Truth {
        let path = self.folder.join("truth.json");
        Truth::parse(&text(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn transcripts(&self, keep: impl Fn(&Path, &str) -> bool) -> Vec<PathBuf> {
        let mut files = Vec::new();
        walk(&self.projects(), &mut files);
        files.retain(|file| keep(file, &name(file)) && !is_below(file, "tool-results"));
        files
    }

    fn own(&self, keep: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let mut files = entries(&self.folder);
        files.retain(|file| keep(&name(file)));
        files
    }
}

/// Returns the bytes of a fixture.
pub fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text of a fixture.
pub fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in entries(folder) {
        if entry.is_dir() {
            walk(&entry, files);
        } else {
            files.push(entry);
        }
    }
}

/// Returns all files below a folder, at any depth, by name.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries(folder).into_iter().flat_map(below).collect()
}

/// The entries of a folder, by name.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut entries: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_below(file: &Path, folder: &str) -> bool {
    file.ancestors().skip(1).any(|ancestor| name(ancestor) == folder)
}

fn version_numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_recordings_finds_every_version_in_order() {
        let all = recordings();
        let mut versions: Vec<&str> = all.iter().map(|recording| recording.version.as_str()).collect();
        versions.dedup();
        assert_eq!(versions, ["1.0.128", "2.0.76", "2.1.50", "2.1.330"]);
        assert!(all.contains(&recording("2.1.330", "k-big")));
    }

    #[test]
    fn files_of_each_recording_are_there_and_tell_apart() {
        for recording in recordings() {
            let what = recording.name();
            assert_eq!(recording.mains().len(), 1, "{what}");
            assert!(recording.hooks().is_file(), "{what}");
            assert_eq!(recording.streams().is_empty(), recording.is_interactive(), "{what}");
            let truth = recording.truth();
            let subagents = truth.agents.len() - 1;
            assert_eq!(
                recording.agents().len(),
                if recording.version.starts_with('1') { 0 } else { subagents },
                "{what}"
            );
            // `/clear` has copied one into the session that it began.
            let copied = usize::from(recording.scenario == "interactive-clear");
            assert_eq!(
                recording.metas().len(),
                if recording.version == "2.1.330" { subagents + copied } else { 0 },
                "{what}"
            );
            for file in recording.streams().into_iter().chain([recording.hooks()]) {
                assert_eq!(
                    recording.received(&file).len(),
                    text(&file).lines().count(),
                    "{}",
                    file.display()
                );
            }
        }
        assert_eq!(recording("2.1.330", "g-resume").streams().len(), 3);
        assert_eq!(recording("2.1.330", "j-otel-nested").otel().len(), 3);
        assert!(recording("2.1.330", "a-single").otel().is_empty());
    }

    #[test]
    fn truth_of_each_recording_agrees_with_itself() {
        for recording in recordings() {
            let truth = recording.truth();
            let what = recording.name();
            assert_eq!(truth.schema, "subscope.truth/1");
            assert_eq!(truth.session.harness_version, recording.version, "{what}");
            assert_eq!(truth.summary.agents as usize, truth.agents.len() - 1, "{what}");
            for agent in &truth.agents {
                assert_eq!(agent.tools.len() as u32, agent.tool_calls, "{what} {}", agent.id);
                assert_eq!(agent.usage.kinds().iter().sum::<u64>(), agent.usage.total_tokens, "{what}");
                for tool in &agent.tools {
                    assert_eq!(truth.owner(&tool.id).map(|(owner, _)| &owner.id), Some(&agent.id), "{what}");
                }
            }
            assert!(truth.agent("root").is_some() && truth.agent("nobody").is_none());
        }
    }
}
