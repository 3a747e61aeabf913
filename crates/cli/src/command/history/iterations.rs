//! `subscope ls --iterations`: lists iterations recorded by `run`.

use std::path::{Path, PathBuf};

use subscope_export::iteration::{self, FOLDER};
use subscope_model::{AgentStatus, ITERATIONS_SCHEMA, Iteration, IterationStatus, Iterations};
use subscope_render::{
    Style, safe,
    text::{self, plural},
};

use crate::{clock::stamp, prelude::*};

/// Lists the records below `--log-dir`, else below the default directory of `run`.
pub(super) fn run(args: &LsArgs, context: &Context) -> Result<(), CliError> {
    let bases = match &args.log_dir {
        Some(folder) => vec![folder.clone()],
        None if args.all_projects => folders_of_all_projects(context)?,
        None => vec![context.environment.working_folder().join(FOLDER)],
    };
    let mut found = iteration::list(&bases);
    found.retain(|(_, meta)| !args.live || meta.status == IterationStatus::Running);
    let total = found.len();
    found.truncate(args.limit);
    let rows = found.into_iter().map(|(folder, meta)| iteration::read_figures(&folder, meta));
    let iterations: Vec<Iteration> = rows.collect();
    if args.json {
        return output::print_json(&Iterations { schema: ITERATIONS_SCHEMA.to_owned(), iterations });
    }
    if iterations.is_empty() {
        let base = bases.first().filter(|_| !args.all_projects);
        let place = base.map_or_else(|| "any project".to_owned(), |base| base.display().to_string());
        context.info(&format!("no iterations below {place}"));
        return Ok(());
    }
    let style = context.style(None);
    let lines = iterations.iter().map(|row| line(row, &style) + "\n");
    output::print(&lines.collect::<String>())?;
    if total > iterations.len() {
        context.info("these are the newest; -n lists more");
    }
    Ok(())
}

/// Returns the newest iterations recorded in the projects of all sessions.
pub(in crate::command) fn of_all_projects(
    limit: usize,
    context: &Context,
) -> Result<Vec<Iteration>, CliError> {
    let projects = Backend::open(Needs::Rows, context)?.projects()?;
    Ok(iteration::of_projects(projects.iter().map(|project| &**project), limit).iterations)
}

/// The default directory of `run` in the projects of all sessions.
fn folders_of_all_projects(context: &Context) -> Result<Vec<PathBuf>, CliError> {
    let projects = Backend::open(Needs::Rows, context)?.projects()?;
    Ok(projects.iter().map(|project| Path::new(&**project).join(FOLDER)).collect())
}

/// Time, number, duration, exit code, agents and failed ones, name, folder.
fn line(row: &Iteration, style: &Style) -> String {
    let (glyphs, meta) = (style.glyphs(), &row.meta);
    let status = match meta.status {
        IterationStatus::Running => AgentStatus::Running,
        IterationStatus::Completed => AgentStatus::Completed,
        IterationStatus::Failed => AgentStatus::Failed,
        IterationStatus::Cut => AgentStatus::Lost,
    };
    let agents = match (row.agents, row.failed) {
        (None, _) => format!("{} agents", glyphs.unknown),
        (Some(agents), None | Some(0)) => plural(agents, "agent"),
        (Some(agents), Some(failed)) => format!("{} {}{failed}", plural(agents, "agent"), glyphs.failed),
    };
    let line = format!(
        "{} {} {:>5} {:>8} {:>8}  {agents:<13} {}  {}",
        glyphs.icon(status),
        stamp(meta.started_at_ms),
        format!("{}{}", meta.iteration, meta.of.map(|of| format!("/{of}")).unwrap_or_default()),
        text::duration(row.duration_ms),
        meta.exit_code.map_or_else(String::new, |code| format!("exit {code}")),
        safe::line(&meta.name, style.charset()),
        safe::line(&row.folder, style.charset()),
    );
    line.trim_end().to_owned()
}
