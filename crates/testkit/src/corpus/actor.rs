//! Actors of a generated session: identity, plan, and fields of their lines.

use subscope_model::{Millis, Usage};

use super::{MadeAgent, Options, Source, wire::Tag};
use crate::random::Random;

pub(super) const ROOT_MODEL: &str = "claude-opus-5-5";
pub(super) const AGENT_MODEL: &str = "claude-sonnet-5-5";

#[derive(Debug)]
pub(super) enum Phase {
    /// Its prompt comes next.
    Open,
    /// Its next message comes next.
    Think,
    /// The result of its last call comes next.
    Result { uuid: String, input: String },
    /// It waits for the agents that it started.
    Wait { left: usize, uuid: String, children: Vec<usize> },
    /// It has ended.
    Done,
}

#[derive(Debug)]
pub(super) struct Actor {
    pub(super) made: MadeAgent,
    pub(super) parent: usize,
    pub(super) source: Source,
    pub(super) prompt: String,
    pub(super) report: String,
    pub(super) run_id: String,
    pub(super) model: &'static str,
    pub(super) batches: Vec<Vec<usize>>,
    pub(super) batches_done: usize,
    pub(super) turns: usize,
    pub(super) turns_done: usize,
    pub(super) last_uuid: Option<String>,
    pub(super) last_usage: Usage,
    pub(super) written: u64,
    pub(super) phase: Phase,
}

impl Actor {
    /// An agent before its start; `children` are those that it will start.
    pub(super) fn new(
        options: &Options,
        number: usize,
        parent: usize,
        depth: usize,
        children: &[usize],
    ) -> Self {
        let made = MadeAgent {
            id: if number == 0 { "root".to_owned() } else { String::new() },
            parent: None,
            spawned_by: None,
            depth,
            agent_type: None,
            description: String::new(),
            usage: Usage::default(),
            responses: 0,
            calls: Vec::new(),
            started: options.start,
            ended: options.start,
        };
        Self {
            made,
            parent,
            source: Source::Main,
            prompt: String::new(),
            report: String::new(),
            run_id: String::new(),
            model: if number == 0 { ROOT_MODEL } else { AGENT_MODEL },
            batches: children.chunks(options.parallel.max(1)).map(<[usize]>::to_vec).collect(),
            batches_done: 0,
            turns: if number == 0 { options.root_turns } else { options.turns },
            turns_done: 0,
            last_uuid: None,
            last_usage: Usage::default(),
            written: 0,
            phase: Phase::Open,
        }
    }

    /// The subagent for its lines; `None` for the root and before it is started.
    pub(super) fn tag(&self) -> Option<Tag<'_>> {
        let made = &self.made;
        Some(Tag {
            id: &made.id,
            kind: made.agent_type?,
            description: &made.description,
            call: made.spawned_by.as_deref()?,
            run_id: &self.run_id,
        })
    }

    /// The arguments of the call that starts it.
    pub(super) fn spawn_input(&self) -> String {
        let (description, kind) = (&self.made.description, self.made.agent_type.unwrap_or_default());
        let prompt = &self.prompt;
        format!(
            "{{\"description\":\"{description}\",\"prompt\":\"{prompt}\",\"subagent_type\":\"{kind}\",\"run_in_background\":false}}"
        )
    }

    /// The figures that the stream's `task_*` lines carry.
    pub(super) fn task_usage(&self, now: Millis) -> String {
        let (tokens, calls) = (self.last_usage.total_tokens, self.made.calls.len());
        format!(
            "{{\"total_tokens\":{tokens},\"tool_uses\":{calls},\"duration_ms\":{}}}",
            now - self.made.started
        )
    }
}

/// Result of an agent for its caller.
pub(super) struct HandBack {
    pub(super) call: String,
    pub(super) input: String,
    /// Text for the model.
    pub(super) content: String,
    /// Result stored by the harness.
    pub(super) response: String,
}

impl HandBack {
    pub(super) fn of(child: &Actor, now: Millis) -> Self {
        let Actor { made, prompt, report, last_usage, model, .. } = child;
        let (id, kind) = (&made.id, made.agent_type.unwrap_or_default());
        let (lasted, tokens, calls) = (now - made.started, last_usage.total_tokens, made.calls.len());
        let content = format!(
            "[{{\"type\":\"text\",\"text\":\"[Subagent hand-back] The agent has ended.\\n  {report}\"}},\
             {{\"type\":\"text\",\"text\":\"agentId: {id}\\n<usage>subagent_tokens: {tokens}\\ntool_uses: {calls}\\n\
             duration_ms: {lasted}</usage>\"}}]"
        );
        let response = format!(
            "{{\"status\":\"completed\",\"prompt\":\"{prompt}\",\"agentId\":\"{id}\",\"agentType\":\"{kind}\",\
             \"content\":[{{\"type\":\"text\",\"text\":\"{report}\"}}],\"resolvedModel\":\"{model}\",\
             \"totalDurationMs\":{lasted},\"totalTokens\":{tokens},\"totalToolUseCount\":{calls},\"canContinueAgent\":true}}"
        );
        let call = made.spawned_by.clone().unwrap_or_default();
        Self { call, input: child.spawn_input(), content, response }
    }
}

/// The parent of each agent; of the root, the root. A chain that reaches the depth, then parents drawn from all agents
/// that may have a child.
pub(super) fn parents(options: &Options, random: &mut Random) -> Vec<usize> {
    let mut parents = vec![0];
    let mut depths = vec![0usize];
    let mut candidates = vec![0usize];
    for number in 1..=options.agents {
        let parent = if number <= options.depth {
            number - 1
        } else {
            candidates[random.below(candidates.len() as u64) as usize]
        };
        parents.push(parent);
        depths.push(depths[parent] + 1);
        if depths[number] < options.depth {
            candidates.push(number);
        }
    }
    parents
}

/// Arguments of a call. All calls of a session have different ones, so that no agent is flagged as looping or
/// colliding.
pub(super) fn input(name: &str, cwd: &str, number: usize, turn: usize) -> String {
    match name {
        "Read" => format!("{{\"file_path\":\"{cwd}/src/part{number}_{turn}.rs\"}}"),
        "Bash" => format!(
            "{{\"command\":\"cargo test -p part{number} case_{turn}\",\"description\":\"Run tests\"}}"
        ),
        "Grep" => format!("{{\"pattern\":\"fn part{number}_{turn}\"}}"),
        "Edit" => format!(
            "{{\"file_path\":\"{cwd}/src/part{number}_{turn}.rs\",\"old_string\":\"one\",\"new_string\":\"two\"}}"
        ),
        "Glob" => format!("{{\"pattern\":\"**/part{number}_{turn}*.rs\"}}"),
        _ => format!("{{\"url\":\"http://127.0.0.1/part{number}/{turn}\",\"prompt\":\"Sum it up\"}}"),
    }
}
