//! `subscope import FILE`: takes a checkpoint, a trajectory, a feed or a recorded stream into the store.
//!
//! The hub takes the lines as any program's input. Equal content is taken once, and facts that the store has by their
//! ids count once, so that it may be imported again after it has grown.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use schemars::JsonSchema;
use serde::Serialize;
use subscope_harness::recognize;
use subscope_model::{SessionId, Tree, event_id};
use subscope_render::text::plural;

use super::{
    document::{self, DocumentKind, Lines, MAX_BYTES},
    target::{STDIN, load_lines},
    tree,
    watch::live::{self, ConnectedHub},
};
use crate::prelude::*;

/// Most bytes from which the dialect is recognized.
const HEAD_BYTES: usize = 64 << 10;

/// Output of `--json` (subscope.import/1).
#[derive(Serialize, JsonSchema)]
pub(crate) struct ImportReport {
    schema: &'static str,
    dialect: &'static str,
    /// Whether the same content was imported before.
    repeat: bool,
    sessions: Vec<ImportedSession>,
    /// Number of problems.
    problems: usize,
}

#[derive(Serialize, JsonSchema)]
struct ImportedSession {
    id: SessionId,
    /// Number of subagents.
    agents: u32,
    tool_calls: u32,
}

pub(crate) fn run(args: &ImportArgs, context: &Context) -> Result<(), CliError> {
    if args.dry_run {
        let (targets, json, detail) = (vec![args.file.clone()], args.json, args.detail);
        return tree::run(&TreeArgs { targets, json, detail, ..TreeArgs::default() }, context);
    }
    let lines = read(&args.file)?;
    let (trees, problems) = load_lines(&lines, context)?;
    let Some(dialect) = lines.dialect else {
        return Err(CliError::new(
            ErrorKind::Input,
            format!("{} is nothing that can be imported", lines.label),
        ));
    };
    let source = format!("import/{}", event_id("import", &String::from_utf8_lossy(&lines.bytes)));
    let ConnectedHub { mut client, thread } = live::connect(context)?;
    let is_repeat = client.ingest(dialect.as_str(), &source, &source, &lines.bytes)?.repeat;
    drop((client, thread));
    if args.json {
        let session = |tree: &Tree| {
            let (agents, tool_calls) = (tree.summary.agents, tree.summary.tool_calls);
            ImportedSession { id: tree.session.id.clone(), agents, tool_calls }
        };
        output::print_json(&ImportReport {
            schema: "subscope.import/1",
            dialect: dialect.as_str(),
            repeat: is_repeat,
            sessions: trees.iter().map(session).collect(),
            problems: problems.len(),
        })?;
    } else {
        let verb = if is_repeat { "was in the store" } else { "taken into the store" };
        for tree in &trees {
            let (agents, calls) = (tree.summary.agents, tree.summary.tool_calls);
            let what = format!("{}, {}", plural(agents, "agent"), plural(calls, "call"));
            output::print_line(&format!("{verb}: session {} ({what})", tree.session.id), context)?;
        }
    }
    context.report(&problems)
}

/// Reads the whole input.
fn read(file: &TargetArg) -> Result<Lines, CliError> {
    let path = Path::new(file);
    if let Some(kind) = document::kind_of(path) {
        return document::read(path, kind);
    }
    let is_stdin = file == "-";
    let label = if is_stdin { STDIN.to_owned() } else { path.display().to_string() };
    let failed = |error| CliError::because(format!("cannot read {label}"), error);
    let mut input: Box<dyn Read> =
        if is_stdin { Box::new(io::stdin().lock()) } else { Box::new(File::open(path).map_err(failed)?) };
    let mut bytes = Vec::new();
    input.by_ref().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CliError::failed(format!("{label} has more than {} MiB", MAX_BYTES >> 20)));
    }
    if is_stdin && document::damaged_kind(&bytes) == Some(DocumentKind::Atif) {
        return document::read_atif(&bytes, label);
    }
    let dialect = recognize(bytes.get(..HEAD_BYTES).unwrap_or(&bytes));
    if dialect.is_some_and(|dialect| dialect.is_main()) {
        let error = CliError::usage(format!(
            "{label} is a transcript: subscope reads it in place, without importing it"
        ));
        return Err(error.hint("`subscope index FOLDER` reads those below a folder"));
    }
    let dialect = dialect.filter(|dialect| dialect.is_ingestible());
    Ok(Lines { label, dialect, bytes, problems: Vec::new() })
}
