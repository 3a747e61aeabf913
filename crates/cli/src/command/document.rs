//! Documents as TARGETs: recognizes checkpoints and ATIF trajectories, and reads them as lines that every command
//! understands.

use std::{
    fs::File,
    io::{BufReader, Read as _},
    path::Path,
};

use serde::{Deserialize, de::IgnoredAny};
use subscope_decode::{Dialect, EXECUTIONS, TRAJECTORIES};
use subscope_export::{CHECKPOINT_FILE, atif_lines, atif_version, checkpoint_lines, read_checkpoint};
use subscope_model::Problem;

use super::target::read_head;
use crate::prelude::*;

/// Most bytes of an ATIF document, which is in memory as a whole: as of any import.
pub(crate) const MAX_BYTES: u64 = 256 << 20;

/// Kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    /// A checkpoint's folder or file.
    Checkpoint,
    /// A trajectory, of whatever version.
    Atif,
}

/// Lines of one dialect that are in memory.
pub(crate) struct Lines {
    /// Name in problems.
    pub(crate) label: String,
    /// `None` if it was not recognized.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) bytes: Vec<u8>,
    /// Corrections made in them.
    pub(crate) problems: Vec<Problem>,
}

/// Reads a document, given its file or a checkpoint's folder.
///
/// # Errors
/// If it cannot be read, is damaged or has another version.
pub(crate) fn read(path: &Path, kind: DocumentKind) -> Result<Lines, CliError> {
    let label = path.display().to_string();
    match kind {
        DocumentKind::Checkpoint => {
            let (checkpoint, metadata) = read_checkpoint(path)?;
            let (bytes, problems) = checkpoint_lines(checkpoint, metadata.as_ref())?;
            Ok(Lines { label, dialect: Some(EXECUTIONS), bytes, problems })
        }
        DocumentKind::Atif => {
            let failed = |error| CliError::because(format!("cannot read {label}"), error);
            let mut bytes = Vec::new();
            File::open(path).map_err(failed)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
            read_atif(&bytes, label)
        }
    }
}

/// Reads an ATIF document.
///
/// # Errors
/// If it is damaged, larger than [`MAX_BYTES`] or has another version.
pub(crate) fn read_atif(bytes: &[u8], label: String) -> Result<Lines, CliError> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CliError::failed(format!("{label} has more than {} MiB", MAX_BYTES >> 20)));
    }
    let wrong = |error| CliError::new(ErrorKind::Input, format!("{label}: {error}"));
    let (bytes, problems) = atif_lines(bytes, &label).map_err(wrong)?;
    Ok(Lines { label, dialect: Some(TRAJECTORIES), bytes, problems })
}

/// Top-level fields that distinguish a document from a line of a recording.
#[derive(Deserialize)]
struct TopLevelFields {
    version: Option<IgnoredAny>,
    #[serde(rename = "type")]
    kind: Option<IgnoredAny>,
    schema: Option<IgnoredAny>,
    /// Conversations of other programs have a version, too.
    messages: Option<IgnoredAny>,
    schema_version: Option<serde_json::Value>,
}

/// Returns the kind of a document at a path, even of a damaged one: reading it reports where it is damaged.
pub(crate) fn kind_of(path: &Path) -> Option<DocumentKind> {
    if path.is_dir() {
        return path.join(CHECKPOINT_FILE).exists().then_some(DocumentKind::Checkpoint);
    }
    if path.file_name().is_some_and(|name| name == CHECKPOINT_FILE) {
        return Some(DocumentKind::Checkpoint);
    }
    // Regular files only: peeking at a pipe would consume its data.
    // A file of a harness may have the same fields.
    if !path.is_file() || subscope_harness::classify(path).session.is_some() {
        return None;
    }
    // Recordings have lines, often very long ones.
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        return damaged_kind(&read_head(path).ok()?).filter(|kind| *kind == DocumentKind::Atif);
    }
    // Only the first value, without keeping it.
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(File::open(path).ok()?));
    match TopLevelFields::deserialize(&mut json) {
        Ok(fields) => fields.document(),
        Err(_) => damaged_kind(&read_head(path).ok()?),
    }
}

impl TopLevelFields {
    fn document(&self) -> Option<DocumentKind> {
        let named = self.schema_version.as_ref().and_then(serde_json::Value::as_str);
        if named.and_then(atif_version).is_some() {
            return Some(DocumentKind::Atif);
        }
        let is_other = self.kind.is_some() || self.schema.is_some() || self.messages.is_some();
        let is_checkpoint = self.version.is_some() && !is_other;
        is_checkpoint.then_some(DocumentKind::Checkpoint)
    }
}

/// Returns the kind of a document that is no JSON as a whole, by the fields at its beginning.
pub(crate) fn damaged_kind(head: &[u8]) -> Option<DocumentKind> {
    let head = String::from_utf8_lossy(head);
    for (field, value) in first_fields(head.trim_start_matches('\u{feff}')) {
        if field == "schema_version" && value.strip_prefix('"').and_then(atif_version).is_some() {
            return Some(DocumentKind::Atif);
        }
        if field == "subagentTraces" {
            return Some(DocumentKind::Checkpoint);
        }
    }
    None
}

/// Returns the fields of the object that a text begins with, each with the text of its value and all that follows, as far
/// as the text goes. Fields of nested objects are left out.
fn first_fields(text: &str) -> Vec<(&str, &str)> {
    let (mut fields, mut depth, mut string, mut is_escaped) = (Vec::new(), 0_usize, None, false);
    let mut last = "";
    for (at, byte) in text.bytes().enumerate() {
        match (string, byte) {
            (Some(_), _) if std::mem::take(&mut is_escaped) => {}
            (Some(_), b'\\') => is_escaped = true,
            (Some(start), b'"') => (string, last) = (None, text.get(start..at).unwrap_or_default()),
            (Some(_), _) => {}
            (None, b'"') => string = Some(at + 1),
            (None, b'{' | b'[') => depth += 1,
            (None, b'}' | b']') => depth = depth.saturating_sub(1),
            (None, b':') if depth == 1 => {
                fields.push((last, text.get(at + 1..).unwrap_or_default().trim_start()));
            }
            (None, _) => {}
        }
        let is_object = depth > 0 || byte.is_ascii_whitespace();
        if !is_object {
            // The object has ended, or none begins here.
            break;
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn tell_a_document_from_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let check_kind = |text: &str, expected: Option<DocumentKind>| {
            let path = folder.path().join("file");
            fs::write(&path, text).unwrap();
            assert_eq!(kind_of(&path), expected, "{text}");
        };
        let check = |text: &str, is_checkpoint: bool| {
            check_kind(text, is_checkpoint.then_some(DocumentKind::Checkpoint));
        };
        for text in [
            r#"{"schema_version":"ATIF-v1.4","steps":[]}"#,
            r#"{"steps":[{"type":"x"}],"version":1,"schema_version":"ATIF-v9"}"#,
            "\u{feff}{\"schema_version\": \"ATIF-v1.8\", \"steps\": [",
        ] {
            check_kind(text, Some(DocumentKind::Atif));
        }
        check(r#"{"schema_version":"1.0"}"#, false);
        check("{\"input\":{\"schema_version\":\"ATIF-v1.8\"}}\n{\"schema_version\":\"ATIF-v1.8\"", false);
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
        assert_eq!((kind_of(Path::new("-")), kind_of(folder.path())), (None, None));
        fs::write(folder.path().join(CHECKPOINT_FILE), "").unwrap();
        assert_eq!(kind_of(folder.path()), Some(DocumentKind::Checkpoint));
    }
}
