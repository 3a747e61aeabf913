//! The script of the model, in TOML.
//!
//! ```toml
//! name = "example"
//! about = "one subagent that reads a file"
//! prompt = "Ask an agent what README.md says."   # what `claude -p` is asked
//! args = []                                      # more options for it
//! env = { CLAUDE_CODE_MAX_RETRIES = "1" }        # more variables
//! ends_with = "It says hello."                   # the last words of the run, as `claude -p` prints them
//! exit_code = 0                                  # its exit code
//!
//! [agents]                                       # .claude/agents/NAME.md
//! lead = "---\nname: lead\n…"
//!
//! [[actor]]                                      # who answers
//! id = "main"
//! match = "Ask an agent what README.md says."
//! [[actor.step]]                                 # the first answer
//! delay_ms = 300
//! text = "I'll ask."
//! tools = [{ name = "Agent", input = { description = "Read", prompt = "Read README.md.", subagent_type = "Explore" } }]
//! [[actor.step]]                                 # the second, and last
//! text = "It says hello."
//! ```
//!
//! A request is answered by the actor whose `match` occurs in the newest user text that any actor matches, the longest
//! match first; the step is the number of the model's messages after that text. Actors therefore need no memory, and
//! agents that run side by side cannot mix. Beyond the last step an actor says "Done.".
//!
//! `{{REPO}}` is replaced by the folder of the run, `{{re:REGEX}}` in texts and inputs by the last match (group 1) over
//! all that the agent has read, for ids that only Claude Code knows.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};

/// Error of reading a script.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It has an invalid format.
    #[error("{path} is no scenario")]
    Malformed {
        /// The file.
        path: String,
        /// Why, and where.
        source: Box<toml::de::Error>,
    },
    /// It is inconsistent.
    #[error("{path}: {what}")]
    Wrong {
        /// The file.
        path: String,
        /// What does not fit.
        what: String,
    },
}

/// A script: the prompt, and the model's answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Short description.
    pub about: String,
    /// Prompt of `claude -p`.
    pub prompt: String,
    /// The last words of the run.
    pub ends_with: String,
    /// How the run ends.
    #[serde(default)]
    pub exit_code: i32,
    /// More options of `claude`.
    #[serde(default)]
    pub args: Vec<String>,
    /// More variables of its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Types of agents of the project: name, and text of `.claude/agents/NAME.md`.
    #[serde(default)]
    pub agents: BTreeMap<String, String>,
    /// Agents that stall under limits of a few seconds: what each waits for meanwhile, by the id of its actor.
    #[serde(default)]
    pub stalls: BTreeMap<String, String>,
    /// The actors.
    #[serde(rename = "actor")]
    pub actors: Vec<Actor>,
}

/// An actor: answers for the main thread or an agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// Its name in the log.
    pub id: String,
    /// Text that occurs in the messages it answers.
    #[serde(rename = "match")]
    pub matches: String,
    /// Its answers in order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// How long the model thinks first.
    pub delay_ms: u64,
    /// Waits first until another actor has requested a step: `ACTOR/STEP`, counted from 0.
    pub after: Option<String>,
    /// Its thoughts.
    pub thinking: Option<String>,
    /// Its words.
    pub text: Option<String>,
    /// The tools that it calls, in one message.
    pub tools: Vec<Tool>,
    /// The tokens that it claims, in place of plausible ones.
    pub usage: Map<String, Value>,
    /// Fails in place of an answer.
    pub error: Option<Failure>,
    /// Ends the connection in the middle of the answer, so many times.
    pub cut: u32,
}

/// A call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The tool's name. `Agent` is called `Task` where the request offers only that (up to 2.1.50).
    pub name: String,
    /// The group of tools that it belongs to, in APIs that have such groups.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Its arguments.
    pub input: Value,
}

/// An answer that is an error.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// The error's type, as `overloaded_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says.
    pub message: String,
    /// So many times, then the step is answered; without it, always.
    pub times: Option<u32>,
    /// Seconds for the header `retry-after`.
    pub retry_after: Option<u32>,
}

impl Scenario {
    /// Reads a script whose run is in the folder `repository`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is no script, or names actors that it does not have.
    pub fn load(path: &Path, repository: &Path) -> Result<Self, ScenarioError> {
        let shown = || path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|source| ScenarioError::Unreadable { path: shown(), source })?;
        let text = text.replace("{{REPO}}", &repository.to_string_lossy());
        let scenario: Self = toml::from_str(&text)
            .map_err(|source| ScenarioError::Malformed { path: shown(), source: Box::new(source) })?;
        match scenario.fault() {
            Some(what) => Err(ScenarioError::Wrong { path: shown(), what }),
            None => Ok(scenario),
        }
    }

    /// Returns the inconsistency of the script, if any.
    fn fault(&self) -> Option<String> {
        let has = |id: &str| self.actors.iter().find(|actor| actor.id == id);
        let awaited =
            self.actors.iter().flat_map(|actor| &actor.steps).filter_map(|step| step.after.as_ref());
        for place in awaited {
            let step =
                place.split_once('/').and_then(|(id, step)| Some((has(id)?, step.parse::<usize>().ok()?)));
            if step.is_none_or(|(actor, step)| step >= actor.steps.len()) {
                return Some(format!("after = {place:?}: no actor has that step"));
            }
        }
        let stranger = self.stalls.keys().find(|id| has(id).is_none());
        stranger.map(|id| format!("stalls names {id:?}, which is no actor"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Scenario, ScenarioError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Scenario::load(file.path(), Path::new("/repo"))
    }

    const HEAD: &str = "name = 'a'\nabout = 'b'\nprompt = 'c'\nends_with = 'd'\n";

    #[test]
    fn replaces_the_folder_of_the_run() {
        let script = format!(
            "{HEAD}[[actor]]\nid = 'm'\nmatch = 'c'\n[[actor.step]]\ntools = [{{ name = 'Read', input = {{ file_path = '{{{{REPO}}}}/x' }} }}]"
        );
        let scenario = load(&script).unwrap();
        assert_eq!(scenario.actors[0].steps[0].tools[0].input["file_path"], "/repo/x");
    }

    #[test]
    fn refuses_a_place_that_no_actor_has() {
        let script = format!("{HEAD}[[actor]]\nid = 'm'\nmatch = 'c'\n[[actor.step]]\nafter = 'm/1'");
        assert!(load(&script).unwrap_err().to_string().ends_with("after = \"m/1\": no actor has that step"));
        assert!(load(&script.replace("m/1", "m/0")).is_ok());
    }

    #[test]
    fn refuses_a_word_that_it_does_not_know() {
        let script = format!("{HEAD}color = 'red'\nactor = []");
        assert!(matches!(load(&script).unwrap_err(), ScenarioError::Malformed { .. }));
    }
}
