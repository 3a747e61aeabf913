//! Exact numbers of a generated session.

use std::path::{Path, PathBuf};

use subscope_model::{Millis, Usage};

/// Content of a generated session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The session's id.
    pub session: String,
    /// The folder that the session works in.
    pub cwd: String,
    /// The agents: the root first, then by order of start.
    pub agents: Vec<MadeAgent>,
    /// Lines of all transcripts.
    pub transcript_lines: u64,
    /// Bytes of all transcripts, line ends included.
    pub transcript_bytes: u64,
    /// Lines of the stream; 0 where none is written.
    pub stream_lines: u64,
    /// Lines of the hook log; 0 where none is written.
    pub hook_lines: u64,
    /// The time of the last line.
    pub ended: Millis,
}

/// One agent of a made-up session. All of them complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeAgent {
    /// `root`, or the harness's id.
    pub id: String,
    /// The parent's id; `None` for the root.
    pub parent: Option<String>,
    /// The tool call that started it; `None` for the root.
    pub spawned_by: Option<String>,
    /// 0 for the root.
    pub depth: usize,
    /// Its type; `None` for the root.
    pub agent_type: Option<&'static str>,
    /// Its task in short; empty for the root.
    pub description: String,
    /// The sum over its API responses.
    pub usage: Usage,
    /// How many API responses it has.
    pub responses: u64,
    /// Its tool calls, spawns included, in order of begin.
    pub calls: Vec<MadeCall>,
    /// The time of its first line.
    pub started: Millis,
    /// The time of its last line.
    pub ended: Millis,
}

/// One tool call of a made-up session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeCall {
    /// The harness's id.
    pub id: String,
    /// The tool's name; `Agent` for a spawn.
    pub name: &'static str,
    /// Whether its result is an error.
    pub failed: bool,
}

impl Made {
    /// The agent of that id.
    pub fn agent(&self, id: &str) -> Option<&MadeAgent> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    /// The agent that made the tool call of that id.
    pub fn owner(&self, tool_use_id: &str) -> Option<&MadeAgent> {
        self.agents.iter().find(|agent| agent.calls.iter().any(|call| call.id == tool_use_id))
    }

    /// The sum over all agents.
    pub fn usage(&self) -> Usage {
        self.agents.iter().fold(Usage::default(), |sum, agent| sum + agent.usage)
    }

    /// How many tool calls there are.
    pub fn calls(&self) -> usize {
        self.agents.iter().map(|agent| agent.calls.len()).sum()
    }

    /// How many tool calls failed.
    pub fn errors(&self) -> usize {
        self.agents.iter().flat_map(|agent| &agent.calls).filter(|call| call.failed).count()
    }

    /// The main transcript, for a session that was written into `folder`.
    pub fn main(&self, folder: &Path) -> PathBuf {
        folder.join(format!("projects/{}/{}.jsonl", self.cwd.replace('/', "-"), self.session))
    }

    /// The stream, for a session that was written into `folder`.
    pub fn stream(&self, folder: &Path) -> PathBuf {
        folder.join(format!("streams/{}.jsonl", self.session))
    }

    /// The hook log, for a session that was written into `folder`.
    pub fn hooks(&self, folder: &Path) -> PathBuf {
        folder.join(format!("hooks/{}.jsonl", self.session))
    }
}
