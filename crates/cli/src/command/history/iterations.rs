//! `subscope ls --iterations`: lists iterations recorded by `run`.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::json;
use subscope_model::AgentStatus;
use subscope_render::{safe, text};
use subscope_run::record::{self, IterationMeta, IterationStatus};

use crate::{clock::stamp, prelude::*};

/// An iteration in the output of `--json` (subscope.iterations/1).
#[derive(Serialize)]
struct IterationRow<'a> {
    folder: Cow<'a, str>,
    #[serde(flatten)]
    meta: &'a IterationMeta,
}

/// Lists the records below `--log-dir`, else below the default directory of `run`.
pub(super) fn run(args: &LsArgs, context: &Context) -> Result<(), CliError> {
    let own = || context.environment.working_folder().join(record::FOLDER);
    let base = args.log_dir.clone().unwrap_or_else(own);
    let mut found = record::list(&base);
    found.retain(|(_, meta)| !args.live || meta.status == IterationStatus::Running);
    let total = found.len();
    found.truncate(args.limit);
    if args.json {
        let rows = found.iter().map(|(folder, meta)| IterationRow { folder: folder.to_string_lossy(), meta });
        let rows: Vec<_> = rows.collect();
        return output::print_json(&json!({ "schema": "subscope.iterations/1", "iterations": rows }));
    }
    if found.is_empty() {
        context.info(&format!("no iterations below {}", base.display()));
        return Ok(());
    }
    let style = context.style(None);
    let mut lines = String::new();
    for (folder, meta) in &found {
        let status = match meta.status {
            IterationStatus::Running => AgentStatus::Running,
            IterationStatus::Completed => AgentStatus::Completed,
            IterationStatus::Failed => AgentStatus::Failed,
            IterationStatus::Cut => AgentStatus::Lost,
        };
        let of = meta.of.map(|of| format!("/{of}")).unwrap_or_default();
        let took = meta.ended_at_ms.map(|end| end - meta.started_at_ms);
        let code = meta.exit_code.map_or_else(String::new, |code| format!("exit {code}"));
        let facts = format!(
            "{} {} {:>5} {:>8} {:>8}  {}  {}",
            style.glyphs().icon(status),
            stamp(meta.started_at_ms),
            format!("{}{of}", meta.iteration),
            text::duration(took),
            code,
            safe::line(&meta.name, style.charset()),
            safe::line(&folder.to_string_lossy(), style.charset()),
        );
        lines += facts.trim_end();
        lines.push('\n');
    }
    output::print(&lines)?;
    if total > found.len() {
        context.info("more with -n");
    }
    Ok(())
}
