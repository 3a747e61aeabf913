//! `subscope import FILE`: prints a checkpoint as a tree; feeds and recorded streams are passed to `tree`.

use std::{fs::File, io::BufReader, path::Path};

use serde::{Deserialize, de::IgnoredAny};
use subscope_export::{CHECKPOINT_FILE, checkpoint_tree, read_checkpoint};
use subscope_render::{TreeOptions, render_tree};

use super::{target::read_head, tree};
use crate::prelude::*;

pub(crate) fn run(args: &ImportArgs, context: &Context) -> Result<(), CliError> {
    let path = Path::new(&args.file);
    if !is_checkpoint(path) {
        let args = TreeArgs {
            targets: vec![args.file.clone()],
            json: args.json,
            detail: args.detail,
            ..TreeArgs::default()
        };
        return tree::run(&args, context);
    }
    let (checkpoint, metadata) = read_checkpoint(path)?;
    let tree = checkpoint_tree(&checkpoint, metadata.as_ref());
    if args.json {
        output::print_json(&tree)?;
    } else {
        // Agents of a checkpoint have ended: no running timers.
        let detail = context.settings().subagent_tracing_detail;
        output::print(&render_tree(&tree, &TreeOptions { now: None, ..context.tree_options(detail) }))?;
    }
    context.report(&tree.problems)
}

/// Top-level fields that distinguish a checkpoint from a line of a recording.
#[derive(Deserialize)]
struct TopLevelFields {
    version: Option<IgnoredAny>,
    #[serde(rename = "type")]
    kind: Option<IgnoredAny>,
    schema: Option<IgnoredAny>,
}

/// Whether the path is a checkpoint's directory or file. A file that starts an object but is neither valid JSON nor a
/// recording counts as a damaged checkpoint: reading it as one reports where it is damaged.
fn is_checkpoint(path: &Path) -> bool {
    if path.is_dir() {
        return path.join(CHECKPOINT_FILE).exists();
    }
    if path.file_name().is_some_and(|name| name == CHECKPOINT_FILE) {
        return true;
    }
    // Regular files only: peeking at a pipe would consume its data.
    if !path.is_file() {
        return false;
    }
    let Ok(file) = File::open(path) else { return false };
    // Only the first value, without keeping it: a recording's first line can be very long.
    let first = TopLevelFields::deserialize(&mut serde_json::Deserializer::from_reader(BufReader::new(file)));
    match first {
        Ok(TopLevelFields { version, kind, schema }) => {
            version.is_some() && kind.is_none() && schema.is_none()
        }
        Err(_) => read_head(path).is_ok_and(|head| {
            head.trim_ascii_start().starts_with(b"{") && subscope_harness::recognise(&head).is_none()
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
        check("{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"cut", false);
        check("warning: x\n{\"type\":\"result\",\"session_id\":\"s\"}\n", false);
        check("hello", false);
        check("", false);
        assert!(!is_checkpoint(Path::new("-")) && !is_checkpoint(folder.path()));
        fs::write(folder.path().join(CHECKPOINT_FILE), "").unwrap();
        assert!(is_checkpoint(folder.path()));
    }
}
