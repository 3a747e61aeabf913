//! What tool calls of all harnesses have in common: the class of the tool, and the file or other target of the call.

use serde_json::value::RawValue;
use subscope_decode::{ToolArguments, lenient::LineText};
use subscope_model::{CallBegin, SpawnInput, ToolClass};

/// The tools of one harness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tools {
    /// The one that starts an agent.
    pub(crate) spawn: &'static str,
    /// Those that end at once unless the user must allow them.
    pub(crate) instant: &'static [&'static str],
    /// Those that ask the person, with what they ask for.
    pub(crate) asking: &'static [(&'static str, ToolClass)],
    /// Those that write the file named by their arguments.
    pub(crate) writing: &'static [&'static str],
    /// Whether ids of calls are unique in their session alone: programs that serve models number calls.
    pub(crate) has_local_ids: bool,
}

/// Returns the class of a tool that starts no agent.
pub(crate) fn class_of(tool: &str, instant: &[&str], asking: &[(&str, ToolClass)]) -> ToolClass {
    match asking.iter().find(|(name, _)| *name == tool) {
        Some((_, class)) => *class,
        None if instant.contains(&tool) => ToolClass::Instant,
        None => ToolClass::Other,
    }
}

impl Tools {
    /// Returns the class of a tool.
    pub(crate) fn class(&self, tool: &str) -> ToolClass {
        if tool == self.spawn { ToolClass::Spawn } else { class_of(tool, self.instant, self.asking) }
    }

    /// Builds a call's begin from its name and raw arguments; `spawn` reads those of the tool that starts an agent.
    pub(crate) fn begin<'a>(
        &self,
        id: Option<&'a str>,
        name: &'a str,
        input: Option<&'a RawValue>,
        line: LineText<'a>,
        digest: u64,
        spawn: impl FnOnce(&'a str) -> SpawnInput<'a>,
    ) -> CallBegin<'a> {
        let class = self.class(name);
        let (has_local_id, raw) = (self.has_local_ids, input.map(|raw| line.raw(raw)));
        let call = CallBegin { id, name, class, input: raw, digest, has_local_id, ..CallBegin::default() };
        let Some(json) = input.map(RawValue::get) else { return call };
        if class == ToolClass::Spawn {
            let spawn = spawn(json);
            let detail = spawn.description.clone().or_else(|| spawn.agent_type.clone());
            return CallBegin { detail, spawn: Some(spawn), ..call };
        }
        let arguments = ToolArguments::parse(json);
        let writes = arguments.file().filter(|_| self.writing.contains(&name)).cloned();
        CallBegin { writes, detail: arguments.detail(), ..call }
    }
}
