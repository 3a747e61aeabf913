//! `cargo xtask truth`: counts the mistakes of subscope and other tools on every recording.
//!
//! The reference is `oracle/oracle.py`, a separate program that shares no code with our decoders and must agree with
//! the `truth.json` of each recording. Other tools are run through `oracle/rivals.py`. The table goes to stdout and
//! `TRUTH.md`. Fails if the oracle disagrees, or if subscope is wrong.

mod report;
mod rivals;
mod score;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::step::{announce, cargo, output, program, root, run as run_step};
use report::{Row, Table};
use score::{AgentAnswer, Answer, Score};

/// Environment variable with the path of a built `subscope` to score instead of a new release build.
const BINARY_VARIABLE: &str = "SUBSCOPE_BIN";

/// Scores everything and writes `TRUTH.md`.
pub(crate) fn run() -> Result<()> {
    let recordings = recordings()?;
    announce("the oracle against truth.json");
    let truths: Vec<Answer> = recordings.iter().map(|recording| oracle(recording)).collect::<Result<_>>()?;
    println!("the oracle agrees with truth.json of {} recordings", recordings.len());

    let mut table = Table::new(recordings.iter().map(|recording| short_name(recording)).collect());
    let binary = binary()?;
    announce("subscope");
    let version = output(program(&binary).arg("--version")).unwrap_or_default();
    let version = version.split_whitespace().last().unwrap_or("").to_owned();
    let subscope = score_all("subscope", version, &recordings, &truths, |recording| tree(&binary, recording));
    let is_right = subscope.total().wrong() == 0 && subscope.unanswered.is_empty();
    table.rows.push(subscope);
    for rival in rivals::RIVALS {
        announce(rival.name);
        match rivals::install(rival) {
            Ok(folder) => table.rows.push(score_all(
                rival.name,
                rival.version.to_owned(),
                &recordings,
                &truths,
                |recording| rivals::ask(rival, &folder, recording),
            )),
            Err(error) => {
                println!("not run: {error:#}");
                table.not_run.push((rival.name.to_owned(), format!("{error:#}")));
            }
        }
    }
    table.not_run.extend(rivals::NOT_RUN.iter().map(|(name, why)| ((*name).to_owned(), (*why).to_owned())));

    let text = table.to_markdown();
    println!("\n{text}");
    fs::write(root().join("TRUTH.md"), &text).context("cannot write TRUTH.md")?;
    if !is_right {
        bail!("subscope is wrong; TRUTH.md says where");
    }
    Ok(())
}

/// Installs `agentsview` and returns its command.
pub(crate) fn agentsview() -> Result<PathBuf> {
    let name = "agentsview";
    let rival = rivals::RIVALS.iter().find(|rival| rival.name == name).context("it is no rival")?;
    Ok(rivals::install(rival)?.join(name))
}

/// Returns the folders with a `truth.json`, sorted.
fn recordings() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for version in folders(&root().join("fixtures/claude-code"))? {
        found.extend(folders(&version)?.into_iter().filter(|folder| folder.join("truth.json").exists()));
    }
    if found.is_empty() {
        bail!("there are no recordings in fixtures/claude-code");
    }
    Ok(found)
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    found.retain(|path| path.is_dir());
    found.sort();
    Ok(found)
}

/// `<version>/<scenario>`
fn short_name(recording: &Path) -> String {
    let fixtures = root().join("fixtures/claude-code");
    recording.strip_prefix(&fixtures).unwrap_or(recording).display().to_string()
}

fn oracle(recording: &Path) -> Result<Answer> {
    let json =
        output(program("python3").arg(root().join("xtask/oracle/oracle.py")).arg(recording).arg("--check"))
            .with_context(|| format!("the oracle disagrees with {}/truth.json", short_name(recording)))?;
    serde_json::from_str(&json).context("cannot read what the oracle prints")
}

/// Scores one tool on every recording. No answer counts as one that misses every agent and call.
fn score_all(
    name: &str,
    version: String,
    recordings: &[PathBuf],
    truths: &[Answer],
    ask: impl Fn(&Path) -> Result<Answer>,
) -> Row {
    let mut row = Row { name: name.to_owned(), version, scores: Vec::new(), unanswered: Vec::new() };
    let mut columns = Vec::new();
    let mut answers = Vec::new();
    for recording in recordings {
        match ask(recording) {
            Ok(answer) => {
                columns.clone_from(&answer.columns);
                answers.push(Some(answer));
            }
            Err(error) => {
                println!("{}: {error:#}", short_name(recording));
                row.unanswered.push((short_name(recording), format!("{error:#}")));
                answers.push(None);
            }
        }
    }
    for (truth, answer) in truths.iter().zip(answers) {
        let answer = answer.unwrap_or_else(|| Answer { columns: columns.clone(), ..Answer::default() });
        row.scores.push(Score::of(truth, &answer));
    }
    println!("{name}: {}", row.total().to_cell());
    row
}

#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

/// Builds the release binary, unless another is named.
fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(path.into());
    }
    run_step("build", cargo().args(["build", "--release", "--quiet", "--bin", "subscope"]))?;
    let json = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata: Metadata = serde_json::from_str(&json).context("cannot read what cargo metadata prints")?;
    Ok(metadata.target_directory.join("release/subscope"))
}

/// The parts of `subscope.tree/1` that are scored.
#[derive(Deserialize)]
struct Tree {
    agents: Vec<TreeAgent>,
}

#[derive(Deserialize)]
struct TreeAgent {
    id: String,
    parent_id: Option<String>,
    status: String,
    usage: Option<serde_json::Map<String, serde_json::Value>>,
    tools: Vec<TreeTool>,
}

#[derive(Deserialize)]
struct TreeTool {
    id: Option<String>,
    name: String,
}

/// Runs `subscope tree --json` on the main transcript; it finds the other files from there.
fn tree(binary: &Path, recording: &Path) -> Result<Answer> {
    let transcript = transcript(recording)?;
    let json = output(program(binary).args(["tree", "--json"]).arg(transcript))?;
    let tree: Tree = serde_json::from_str(&json).context("this is no subscope.tree/1")?;
    Ok(answer_of(tree))
}

fn answer_of(tree: Tree) -> Answer {
    let agents = tree.agents.into_iter().map(|agent| {
        let number = |(kind, value): (String, serde_json::Value)| Some((kind, value.as_u64()?));
        let says = AgentAnswer {
            parent: agent.parent_id,
            status: Some(agent.status),
            usage: agent.usage.unwrap_or_default().into_iter().filter_map(number).collect(),
            calls: Some(agent.tools.into_iter().filter_map(|tool| Some((tool.id?, tool.name))).collect()),
            ..AgentAnswer::default()
        };
        (agent.id, says)
    });
    Answer { columns: score::COLUMNS.map(str::to_owned).to_vec(), agents: agents.collect() }
}

fn transcript(recording: &Path) -> Result<PathBuf> {
    for project in folders(&recording.join("projects"))? {
        for entry in fs::read_dir(project)? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.ends_with(".jsonl") && !name.starts_with("agent-") {
                return Ok(path);
            }
        }
    }
    bail!("{} has no transcript", recording.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_a_tree_in_the_public_shape() {
        let json = r#"{"schema":"subscope.tree/1","agents":[{"id":"root","parent_id":null,"status":"completed",
            "usage":{"input_tokens":3,"floor":false},"tools":[{"id":"t1","name":"Read","status":"ok"}]},
            {"id":"a1","parent_id":"root","status":"lost","usage":null,"tools":[{"id":null,"name":"Read"}]}]}"#;
        let answer = answer_of(serde_json::from_str(json).unwrap());
        let root = &answer.agents["root"];
        assert_eq!(root.usage.get("input_tokens"), Some(&3));
        assert_eq!(root.usage.len(), 1, "floor is no number of tokens");
        assert_eq!(root.calls.as_ref().unwrap()["t1"], "Read");
        assert_eq!(answer.agents["a1"].parent.as_deref(), Some("root"));
        assert!(answer.agents["a1"].calls.as_ref().unwrap().is_empty());
    }

    #[test]
    fn agree_with_truth_json_on_every_recording() {
        for recording in recordings().unwrap() {
            let truth = oracle(&recording).unwrap();
            assert!(truth.agents.contains_key("root"), "{}", recording.display());
        }
    }
}
