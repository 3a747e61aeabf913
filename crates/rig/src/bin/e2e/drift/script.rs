//! Scripts that any harness can play: moves in place of calls of its tools.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Map;
use subscope_model::ToolStatus;
use subscope_rig::{Actor, Failure, Scenario, Step};

use super::{compare::ROOT, harness::Harness};

/// A script. Its actor `A` answers what holds `<<A>>`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) about: String,
    /// One for each process: the second one resumes the session of the first. The actor of each is the root.
    pub(crate) prompts: Vec<String>,
    #[serde(rename = "actor")]
    pub(crate) actors: Vec<Part>,
}

/// What one agent does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub(crate) id: String,
    #[serde(rename = "move")]
    moves: Vec<Move>,
}

/// What it does in one answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Move {
    think: Option<String>,
    say: Option<String>,
    /// The actors that it starts.
    spawn: Vec<String>,
    /// The commands that it runs.
    run: Vec<Run>,
    /// Waits for an agent that it started, if the harness needs a call for that.
    wait: Option<String>,
    /// Delays the answer until another actor has requested its last one.
    after: Option<String>,
    delay_ms: u64,
    error: Option<Failure>,
}

/// A command.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    command: String,
    /// How the call ends; well without it.
    ends: Option<ToolStatus>,
}

/// A script as one harness plays it.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) scenario: Scenario,
    /// Of each actor's step: how the calls of it may end, in order.
    pub(crate) ends: BTreeMap<(String, usize), Vec<&'static [ToolStatus]>>,
}

/// Delay before the root's last message, so that its agents' answers are written.
const SETTLING_MS: u64 = 1500;

impl Script {
    /// Reads one.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{}", path.display()))
    }

    /// Returns the part of it that the first process plays: its prompt, and the actors that it starts.
    pub(crate) fn of_first_process(mut self) -> Self {
        self.prompts.truncate(1);
        let mut kept: Vec<String> = Vec::new();
        loop {
            let is_played = |part: &&Part| {
                let starters = self.actors.iter().filter(|other| kept.contains(&other.id));
                let is_started = |other: &Part| other.moves.iter().any(|it| it.spawn.contains(&part.id));
                self.is_root(&part.id) || starters.into_iter().any(is_started)
            };
            let next: Vec<String> =
                self.actors.iter().filter(is_played).map(|part| part.id.clone()).collect();
            if next.len() == kept.len() {
                break;
            }
            kept = next;
        }
        self.actors.retain(|part| kept.contains(&part.id));
        self
    }

    /// The mark that identifies an actor.
    pub(crate) fn mark(id: &str) -> String {
        format!("<<{id}>>")
    }

    /// Whether an actor is the root of the session.
    pub(crate) fn is_root(&self, id: &str) -> bool {
        self.prompts.iter().any(|prompt| prompt.contains(&Self::mark(id)))
    }

    /// Returns the agents that a harness must have: the root, those that it starts, and theirs where they may.
    pub(crate) fn players(&self, harness: Harness) -> impl Iterator<Item = &str> {
        let is_started = move |part: &&Part| {
            let starts = |other: &Part| other.moves.iter().any(|it| it.spawn.contains(&part.id));
            let mut starters = self.actors.iter().filter(|other| starts(other));
            starters.any(|other| self.is_root(&other.id) || harness.nests())
        };
        let started = self.actors.iter().filter(is_started).map(|part| part.id.as_str());
        std::iter::once(ROOT).chain(started)
    }

    /// Returns the script in the calls of a harness.
    pub(crate) fn played_by(&self, harness: Harness) -> Played {
        let steps_of =
            |part: &Part| part.moves.iter().filter(|it| it.wait.is_none() || harness.waits()).count();
        let last: BTreeMap<&str, usize> =
            self.actors.iter().map(|part| (part.id.as_str(), steps_of(part).saturating_sub(1))).collect();
        let mut ends = BTreeMap::new();
        let actors = self.actors.iter().map(|part| {
            let is_root = self.is_root(&part.id);
            let moves = part.moves.iter().filter(|it| it.wait.is_none() || harness.waits());
            let steps = moves.enumerate().map(|(at, it)| {
                let (mut tools, mut of_calls) = (Vec::new(), Vec::new());
                for id in &it.spawn {
                    tools.push(harness.spawn(id, &format!("{} look", Self::mark(id))));
                    of_calls.push(if is_root || harness.nests() { ANY } else { REFUSED });
                }
                for run in &it.run {
                    tools.push(harness.shell(&run.command));
                    of_calls.push(harness.ending(run.ends.unwrap_or(ToolStatus::Ok)));
                }
                tools.extend(it.wait.as_ref().map(|_| harness.wait()));
                of_calls.extend(it.wait.as_ref().map(|_| ANY));
                let mut text = it.say.clone();
                if !is_root
                    && tools.is_empty()
                    && let Some(tool) = text.as_ref().and_then(|said| harness.last_words(said))
                {
                    text = None;
                    tools.push(tool);
                    of_calls.push(OK);
                }
                ends.insert((part.id.clone(), at), of_calls);
                let after = it
                    .after
                    .as_ref()
                    .map(|id| format!("{id}/{}", last.get(id.as_str()).copied().unwrap_or_default()));
                let delay_ms = if after.is_some() { SETTLING_MS } else { it.delay_ms.max(200) };
                Step {
                    delay_ms,
                    after,
                    thinking: it.think.clone(),
                    text,
                    tools,
                    usage: Map::new(),
                    error: it.error.clone(),
                    cut: 0,
                }
            });
            Actor { id: part.id.clone(), matches: Self::mark(&part.id), steps: steps.collect() }
        });
        let scenario = Scenario {
            actors: actors.collect(),
            name: self.name.clone(),
            about: self.about.clone(),
            prompt: String::new(),
            ends_with: String::new(),
            exit_code: 0,
            args: Vec::new(),
            env: BTreeMap::new(),
            agents: BTreeMap::new(),
            stalls: BTreeMap::new(),
        };
        Played { scenario, ends }
    }
}

const OK: &[ToolStatus] = &[ToolStatus::Ok];
/// A spawn of an agent that fails is an error in some harnesses; a call that waits for it, too.
const ANY: &[ToolStatus] = &[ToolStatus::Ok, ToolStatus::Error];
const REFUSED: &[ToolStatus] = &[ToolStatus::Error, ToolStatus::Denied];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_the_first_process_has_its_prompt_and_those_that_it_starts() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/drift");
        let ids = |name: &str| {
            let script = Script::load(&path.join(name)).unwrap().of_first_process();
            assert_eq!(script.prompts.len(), 1, "{name}");
            script.actors.into_iter().map(|part| part.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("endings.toml"), ["ROOT", "E", "D"]);
        let whole = Script::load(&path.join("parallel.toml")).unwrap();
        assert_eq!(ids("parallel.toml").len(), whole.actors.len());
    }
}
