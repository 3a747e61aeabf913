//! What tool calls of all harnesses have in common: the class of the tool, and the file or other target of the call.

use std::borrow::Cow;

use serde_json::{Value, value::RawValue};
use subscope_decode::{ToolArguments, lenient::LineText};
use subscope_model::{CallBegin, SpawnInput, ToolClass};

/// The tool, and the command of a shell, that applies patches.
const PATCH_TOOL: &str = "apply_patch";
/// First and last line of a patch.
const PATCH_BEGINS: &str = "*** Begin Patch";
const PATCH_ENDS: &str = "*** End Patch";
/// Beginnings of the lines of a patch that name a file.
const PATCH_FILES: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// The tools of one harness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tools {
    /// The one that starts an agent.
    pub(crate) spawn: &'static str,
    /// Those that end at once unless the user must allow them.
    pub(crate) instant: &'static [&'static str],
    /// Those that ask the person, with what they ask for.
    pub(crate) asking: &'static [(&'static str, ToolClass)],
    /// Those that write the file named by their arguments; patches name theirs ([`patched_files`]).
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

/// Returns the files that a call changes by a patch, each once, as the patch names them. The format is that of `apply_patch`, which
/// Codex brought and others offer to the same models: a tool of that name, or a command by which a shell calls it. A patch in
/// other arguments, such as those of a tool that writes a text, changes nothing.
pub(crate) fn patched_files(tool: &str, json: &str) -> Vec<String> {
    let mut files = Vec::new();
    if json.contains(PATCH_BEGINS) {
        let arguments = serde_json::from_str(json).unwrap_or_else(|_| Value::from(json));
        add_patched_files(&arguments, tool == PATCH_TOOL, &mut files);
    }
    files
}

fn add_patched_files(value: &Value, is_patch: bool, files: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let Some((before, patch)) = text.split_once(PATCH_BEGINS) else { return };
            let calls = before.trim_end().lines().next_back().is_some_and(|line| line.contains(PATCH_TOOL));
            let lines = patch.lines().take_while(|line| line.trim_end() != PATCH_ENDS);
            for line in lines.filter(|_| is_patch || calls) {
                let file = PATCH_FILES.iter().find_map(|words| line.strip_prefix(words)).map(str::trim);
                files.extend(file.filter(|file| !files.iter().any(|known| known == file)).map(str::to_owned));
            }
        }
        Value::Array(words) => {
            let calls = words.first().is_some_and(|word| word == PATCH_TOOL);
            words.iter().for_each(|word| add_patched_files(word, is_patch || calls, files));
        }
        Value::Object(fields) => {
            fields.values().for_each(|value| add_patched_files(value, is_patch, files));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
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
        let mut writes: Vec<_> =
            arguments.file().filter(|_| self.writing.contains(&name)).cloned().into_iter().collect();
        if name == PATCH_TOOL {
            writes.extend(patched_files(name, json).into_iter().map(Cow::Owned));
        }
        CallBegin { writes, detail: arguments.detail(), ..call }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_name_their_files_whatever_carries_them() {
        let patch = "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n@@\n-*** Add File: no.rs\n+x\n\
            *** Add File: \u{e9}.md\r\n+*** Delete File: no.rs\n*** Delete File: src/a.rs\n*** End Patch\n*** Add File: after.rs\n";
        let files = ["src/a.rs", "src/b.rs", "\u{e9}.md"];
        for (tool, arguments) in [
            ("apply_patch", json!(patch)),
            ("apply_patch", json!({"input": patch})),
            ("apply_patch", json!({"patchText": patch})),
            ("shell", json!({"command": ["apply_patch", patch]})),
            ("shell", json!({"command": ["bash", "-lc", format!("apply_patch <<'EOF'\n{patch}EOF\n")]})),
            (
                "exec_command",
                json!({"cmd": format!("cd x && apply_patch <<'EOF'\n{patch}EOF"), "workdir": "/shop"}),
            ),
        ] {
            assert_eq!(patched_files(tool, &arguments.to_string()), files, "{arguments}");
        }
        for (tool, arguments) in [
            ("write", json!({"filePath": "/doc.md", "content": format!("A patch:\n{patch}")})),
            ("spawn_agent", json!({"message": format!("Apply this:\n{patch}")})),
            ("exec_command", json!({"cmd": format!("cat > apply_patch.md <<'EOF'\nA patch:\n{patch}EOF")})),
        ] {
            assert!(patched_files(tool, &arguments.to_string()).is_empty(), "{arguments}");
        }
        assert_eq!(patched_files("apply_patch", patch), files);
        for other in
            ["", "{", r#"{"cmd":"ls"}"#, r#"{"cmd":"*** Begin Patch"}"#, r#"{"n":1,"b":[true,null]}"#]
        {
            assert!(patched_files("apply_patch", other).is_empty(), "{other}");
        }
    }
}
