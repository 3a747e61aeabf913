//! The recordings of all harnesses, with what is true of each.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::score::{AgentAnswer, Answer};
use crate::step::{output, program, root};

/// The harnesses by their names in the registry, in the order of the page, with their titles.
pub(super) const HARNESSES: [(&str, &str); 10] = [
    ("claude-code", "Claude Code"),
    ("cline", "Cline CLI"),
    ("codex", "Codex"),
    ("copilot", "Copilot CLI"),
    ("gemini", "Gemini CLI"),
    ("kilo", "Kilo CLI"),
    ("kimi", "Kimi Code"),
    ("omp", "oh-my-pi"),
    ("opencode", "OpenCode"),
    ("qwen", "Qwen Code"),
];

/// The output of one scenario with one version of a harness.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) harness: &'static str,
    /// `VERSION/SCENARIO`.
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// The session that is asked for among those of the folder; `None`: the only one.
    pub(super) session: Option<String>,
    /// What is true of it; `None`: what the oracle or its `truth.json` says.
    pub(super) truth: Option<Answer>,
}

/// Returns the recordings with a `truth.json`, by harness, version and scenario. None of a harness is an error.
pub(super) fn all() -> Result<Vec<Recording>> {
    let mut found = Vec::new();
    for (harness, _) in HARNESSES {
        let fixtures = root().join("fixtures").join(harness);
        let before = found.len();
        for version in folders(&fixtures)? {
            for folder in folders(&version)?.into_iter().filter(|folder| folder.join("truth.json").exists()) {
                let name = folder.strip_prefix(&fixtures).unwrap_or(&folder).display().to_string();
                found.push(Recording { harness, name, folder, session: None, truth: None });
            }
        }
        if found.len() == before {
            bail!("there are no recordings in {}", fixtures.display());
        }
    }
    Ok(found)
}

/// The parts of `truth.json` that are scored.
#[derive(Deserialize)]
struct Truth {
    session: TruthSession,
    agents: Vec<TruthAgent>,
    summary: TruthSummary,
}

#[derive(Deserialize)]
struct TruthSession {
    id: String,
}

#[derive(Deserialize)]
struct TruthSummary {
    usage: Map<String, Value>,
}

#[derive(Deserialize)]
struct TruthAgent {
    id: String,
    parent_id: Option<String>,
    /// The accepted words.
    status: Vec<String>,
    usage: Option<Map<String, Value>>,
    tools: Vec<TruthTool>,
}

#[derive(Deserialize)]
struct TruthTool {
    id: String,
    name: String,
}

impl Recording {
    /// Returns its truth: of Claude Code by the oracle, which must agree with its `truth.json`, of others by that file.
    pub(super) fn truth(&self) -> Result<Answer> {
        if let Some(truth) = &self.truth {
            return Ok(truth.clone());
        }
        if self.harness == "claude-code" {
            let oracle = root().join("xtask/oracle/oracle.py");
            let json = output(program("python3").arg(oracle).arg(&self.folder).arg("--check"))
                .with_context(|| format!("the oracle disagrees with {}/truth.json", self.name))?;
            return serde_json::from_str(&json).context("cannot read what the oracle prints");
        }
        Ok(answer_of(self.truth_json()?))
    }

    fn truth_json(&self) -> Result<Truth> {
        let text = fs::read_to_string(self.folder.join("truth.json"))?;
        serde_json::from_str(&text).with_context(|| format!("{}/truth.json", self.name))
    }

    /// Returns the file that names the session; the others are found from there.
    pub(super) fn target(&self) -> Result<PathBuf> {
        let folder = &self.folder;
        let found = match self.harness {
            "claude-code" => find(&folder.join("projects"), &|name| {
                name.ends_with(".jsonl") && !name.starts_with("agent-")
            })?,
            "codex" if self.truth.is_none() => {
                let end = format!("{}.jsonl", self.truth_json()?.session.id);
                find(&folder.join("sessions"), &|name| name.starts_with("rollout-") && name.ends_with(&end))?
            }
            // The parent may have no file.
            "codex" => find(&folder.join("sessions"), &|name| name.starts_with("rollout-"))?,
            "copilot" => find(&folder.join("dot_copilot"), &|name| name == "events.jsonl")?,
            "gemini" => find(&folder.join("dot_gemini_tmp"), &|name| name.starts_with("session-"))?,
            "kimi" => {
                let main = PathBuf::from("agents/main/wire.jsonl");
                find(&folder.join("dot_kimi"), &|name| name == "state.json")?
                    .and_then(|state| Some(state.parent()?.join(main)))
            }
            "cline" => {
                let main = format!("{}.messages.json", self.truth_json()?.session.id);
                find(&folder.join("dot_cline"), &|name| name == main)?
            }
            "omp" => {
                let main = format!("_{}.jsonl", self.truth_json()?.session.id);
                find(&folder.join("dot_omp"), &|name| name.ends_with(&main))?
            }
            "qwen" => {
                let chat = format!("{}.jsonl", self.truth_json()?.session.id);
                find(&folder.join("dot_qwen"), &|name| name == chat)?
            }
            // A version without a database has a folder.
            _ => ["kilo.db", "opencode.db", "storage"]
                .map(|name| folder.join(name))
                .into_iter()
                .find(|path| path.exists()),
        };
        found.with_context(|| format!("{} has no transcript", folder.display()))
    }
}

fn answer_of(truth: Truth) -> Answer {
    let agents = truth.agents.into_iter().map(|agent| {
        let mut words = agent.status.into_iter();
        let says = AgentAnswer {
            parent: agent.parent_id,
            status: words.next(),
            also: words.collect(),
            usage: numbers(agent.usage.unwrap_or_default()),
            calls: Some(agent.tools.into_iter().map(|tool| (tool.id, tool.name)).collect()),
            ..AgentAnswer::default()
        };
        (agent.id, says)
    });
    Answer { columns: Vec::new(), agents: agents.collect(), total: Some(numbers(truth.summary.usage)) }
}

/// The figures of an object.
pub(super) fn numbers<T: FromIterator<(String, u64)>>(object: Map<String, Value>) -> T {
    object.into_iter().filter_map(|(kind, value)| Some((kind, value.as_u64()?))).collect()
}

/// Returns the first file below a folder with such a name.
fn find(folder: &Path, is_it: &dyn Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
        paths.sort();
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(file) =
            paths.iter().find(|path| path.is_file() && name(path).is_some_and(|it| is_it(&it)))
        {
            return Ok(Some(file.clone()));
        }
        open.extend(paths.into_iter().filter(|path| path.is_dir()));
    }
    Ok(None)
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    found.retain(|path| path.is_dir());
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_has_a_truth_and_a_target() {
        for recording in all().unwrap() {
            let truth = recording.truth().unwrap();
            assert!(truth.agents.contains_key("root"), "{}", recording.name);
            assert!(recording.target().unwrap().exists(), "{}", recording.name);
        }
    }
}
