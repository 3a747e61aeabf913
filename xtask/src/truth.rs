//! `cargo xtask truth`: counts the mistakes of subscope and other tools on every recording.
//!
//! The reference for Claude Code is `oracle/oracle.py`, a separate program that shares no code with our decoders and must
//! agree with the `truth.json` of each recording; for other harnesses it is that file. Other tools are run through
//! `oracle/rivals.py`. The table goes to stdout and `TRUTH.md`. Fails if the oracle disagrees, or if subscope is wrong.

mod recordings;
mod report;
mod rivals;
mod score;
mod wild;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::step::{announce, cargo, output, program, root, run as run_step};
use recordings::{Recording, numbers};
use report::{Row, Table};
use score::{AgentAnswer, Answer, Score};

/// Environment variable with the path of a built `subscope` to score instead of a new release build.
const BINARY_VARIABLE: &str = "SUBSCOPE_BIN";

/// Scores everything and writes `TRUTH.md`.
pub(crate) fn run() -> Result<()> {
    let mut recordings = recordings::all()?;
    recordings.extend(wild::all()?);
    announce("the oracle against truth.json");
    let truths: Vec<Answer> = recordings.iter().map(Recording::truth).collect::<Result<_>>()?;
    println!("the truth of {} recordings is known", recordings.len());

    let binary = binary()?;
    announce("subscope");
    let version = output(program(&binary).arg("--version")).unwrap_or_default();
    let version = version.split_whitespace().last().unwrap_or("").to_owned();
    let mut table = Table::new(&recordings);
    let ask = |recording: &Recording| Some(tree(&binary, recording));
    let subscope = score_all("subscope", version, &recordings, &truths, ask);
    let is_right = subscope.total(|_| true).wrong() == 0 && subscope.unanswered.is_empty();
    table.rows.push(subscope);
    for rival in rivals::RIVALS {
        announce(rival.name);
        match rivals::install(rival) {
            Ok(folder) => {
                let ask = |recording: &Recording| {
                    rival.reads.contains(&recording.harness).then(|| rivals::ask(rival, &folder, recording))
                };
                table.rows.push(score_all(rival.name, rival.version.to_owned(), &recordings, &truths, ask));
            }
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

/// Scores one tool on every recording; `None` is one of a harness that it does not read. No answer counts as one that
/// misses every agent and call.
fn score_all(
    name: &str,
    version: String,
    recordings: &[Recording],
    truths: &[Answer],
    ask: impl Fn(&Recording) -> Option<Result<Answer>>,
) -> Row {
    let mut row = Row { name: name.to_owned(), version, scores: Vec::new(), unanswered: Vec::new() };
    let mut columns = Vec::new();
    let mut answers = Vec::new();
    for (at, recording) in recordings.iter().enumerate() {
        answers.push(match ask(recording) {
            None => None,
            Some(Ok(answer)) => {
                columns.clone_from(&answer.columns);
                Some(Some(answer))
            }
            Some(Err(error)) => {
                println!("{} {}: {error:#}", recording.harness, recording.name);
                row.unanswered.push((at, format!("{error:#}")));
                Some(None)
            }
        });
    }
    for (truth, answer) in truths.iter().zip(answers) {
        row.scores.push(answer.map(|answer| {
            let answer = answer.unwrap_or_else(|| Answer { columns: columns.clone(), ..Answer::default() });
            Score::of(truth, &answer)
        }));
    }
    println!("{name}: {}", row.total(|_| true).to_cell());
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
    summary: TreeSummary,
}

#[derive(Deserialize)]
struct TreeSummary {
    usage: Option<serde_json::Map<String, serde_json::Value>>,
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

/// Runs `subscope tree --json` on the file that names the session; it finds the other files from there. A session of a home
/// with several is asked for by its id.
fn tree(binary: &Path, recording: &Recording) -> Result<Answer> {
    let mut command = program(binary);
    command.args(["tree", "--json"]);
    match &recording.session {
        Some(session) if recording.harness == "claude-code" => {
            let data = recording.folder.join("no-data");
            command.env("CLAUDE_CONFIG_DIR", &recording.folder).env("SUBSCOPE_DATA_DIR", data);
            command.env("SUBSCOPE_NO_AUTOSTART", "1").arg(session)
        }
        _ => command.arg(recording.target()?),
    };
    let json = output(&mut command)?;
    let tree: Tree = serde_json::from_str(&json).context("this is no subscope.tree/1")?;
    Ok(answer_of(tree))
}

fn answer_of(tree: Tree) -> Answer {
    let agents = tree.agents.into_iter().map(|agent| {
        let says = AgentAnswer {
            parent: agent.parent_id,
            status: Some(agent.status),
            usage: numbers(agent.usage.unwrap_or_default()),
            calls: Some(agent.tools.into_iter().filter_map(|tool| Some((tool.id?, tool.name))).collect()),
            ..AgentAnswer::default()
        };
        (agent.id, says)
    });
    Answer {
        columns: score::COLUMNS.map(str::to_owned).to_vec(),
        agents: agents.collect(),
        total: tree.summary.usage.map(numbers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_a_tree_in_the_public_shape() {
        let json = r#"{"schema":"subscope.tree/1","agents":[{"id":"root","parent_id":null,"status":"completed",
            "usage":{"input_tokens":3,"floor":false},"tools":[{"id":"t1","name":"Read","status":"ok"}]},
            {"id":"a1","parent_id":"root","status":"lost","usage":null,"tools":[{"id":null,"name":"Read"}]}],
            "summary":{"usage":{"input_tokens":5}}}"#;
        let answer = answer_of(serde_json::from_str(json).unwrap());
        assert_eq!(answer.total.as_ref().unwrap()["input_tokens"], 5);
        let root = &answer.agents["root"];
        assert_eq!(root.usage.get("input_tokens"), Some(&3));
        assert_eq!(root.usage.len(), 1, "floor is no number of tokens");
        assert_eq!(root.calls.as_ref().unwrap()["t1"], "Read");
        assert_eq!(answer.agents["a1"].parent.as_deref(), Some("root"));
        assert!(answer.agents["a1"].calls.as_ref().unwrap().is_empty());
    }
}
