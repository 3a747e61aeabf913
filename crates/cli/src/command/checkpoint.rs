//! Checkpoints as TARGETs: recognises their folders and files, and reads them as lines that every command understands.

use std::{fs::File, io::BufReader, path::Path};

use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{Dialect, EXECUTIONS};
use subscope_export::{CHECKPOINT_FILE, checkpoint_lines, read_checkpoint};
use subscope_model::Problem;

use super::target::read_head;
use crate::prelude::*;

/// Lines of one dialect that are in memory.
pub(crate) struct Lines {
    /// Name in problems.
    pub(crate) label: String,
    /// `None` if it was not recognised.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) bytes: Vec<u8>,
    /// What was corrected in them.
    pub(crate) problems: Vec<Problem>,
}

/// Reads a checkpoint, given its folder or file.
///
/// # Errors
/// If it cannot be read, is damaged or has another version.
pub(crate) fn read(path: &Path) -> Result<Lines, CliError> {
    let (checkpoint, metadata) = read_checkpoint(path)?;
    let (bytes, problems) = checkpoint_lines(checkpoint, metadata.as_ref())?;
    Ok(Lines { label: path.display().to_string(), dialect: Some(EXECUTIONS), bytes, problems })
}

/// Top-level fields that distinguish a checkpoint from a line of a recording.
#[derive(Deserialize)]
struct TopLevelFields {
    version: Option<IgnoredAny>,
    #[serde(rename = "type")]
    kind: Option<IgnoredAny>,
    schema: Option<IgnoredAny>,
}

/// Whether the path is a checkpoint's folder or file, even a damaged one: reading it reports where it is damaged.
pub(crate) fn is_checkpoint(path: &Path) -> bool {
    if path.is_dir() {
        return path.join(CHECKPOINT_FILE).exists();
    }
    if path.file_name().is_some_and(|name| name == CHECKPOINT_FILE) {
        return true;
    }
    // Regular files only: peeking at a pipe would consume its data. Recordings have lines, often very long ones.
    if !path.is_file() || path.extension().is_some_and(|extension| extension == "jsonl") {
        return false;
    }
    let Ok(file) = File::open(path) else { return false };
    // Only the first value, without keeping it.
    let first = TopLevelFields::deserialize(&mut serde_json::Deserializer::from_reader(BufReader::new(file)));
    match first {
        Ok(TopLevelFields { version, kind, schema }) => {
            version.is_some() && kind.is_none() && schema.is_none()
        }
        Err(_) => read_head(path).is_ok_and(|head| {
            // In a text of a recording the quotes would be escaped.
            let head = String::from_utf8_lossy(&head);
            head.trim_start().starts_with('{') && head.contains("\"subagentTraces\"")
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn tell_a_checkpoint_from_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, expected: bool| {
            let path = folder.path().join("file");
            fs::write(&path, text).unwrap();
            assert_eq!(is_checkpoint(&path), expected, "{text}");
        };
        check("{\n  \"version\": \"1.0.0\",\n  \"subagentTraces\": []\n}\n", true);
        check("{\"subagentTraces\":[],\"version\":\"2\"}", true);
        check("{\n  \"version\": \"1.0.0\",\n  \"subagentTraces\": [\n", true);
        check("{\"type\":\"user\",\"version\":\"2.1.0\",\"sessionId\":\"s\"}\n{\"type\":\"x\"}", false);
        check("{\"schema\":\"subscope.event/1\",\"id\":\"x\",\"version\":1}\n", false);
        check(
            "{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"a \\\"subagentTraces\\\"",
            false,
        );
        check("warning: x\n{\"type\":\"result\",\"session_id\":\"s\"}\n", false);
        check("hello", false);
        check("", false);
        assert!(!is_checkpoint(Path::new("-")) && !is_checkpoint(folder.path()));
        fs::write(folder.path().join(CHECKPOINT_FILE), "").unwrap();
        assert!(is_checkpoint(folder.path()));
    }
}
