//! `subscope uninstall`: lists what subscope wrote on this machine, and undoes it.
//!
//! What it changed in other programs' settings is undone by the code of `hooks remove` and `statusline remove`. Only
//! files that are known to be subscope's are deleted, whatever folder is named; sessions and settings only with consent.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
};

use subscope_client::ClientError;
use subscope_export::iteration::{self, FOLDER};
use subscope_model::{IterationStatus, StatsQuery};
use subscope_query::ListQuery;
use subscope_render::text;
use subscope_store::{Access, OpenError, SessionQueries, SqliteStore};

use super::{
    history,
    hooks::{self, Backups, Scope},
    statusline,
};
use crate::{data_files::known_in, hub_connection, prelude::*};

/// What names in the state folder begin with.
const STATE: [&str; 3] = ["hub.", "hooks", "status-line"];
/// The file in the settings folder.
const SETTINGS: [&str; 1] = ["config.toml"];
/// Files below the home folder to which people add `subscope init`.
const SHELL_FILES: [&str; 5] = [".bashrc", ".bash_profile", ".zshrc", ".profile", ".config/fish/config.fish"];
/// Most bytes of such a file that is read.
const MAX_SHELL_BYTES: u64 = 4 << 20;
/// Newest sessions in whose projects records of runs are looked for.
const MAX_SESSIONS: usize = 100_000;

/// What subscope wrote.
struct Traces {
    /// Settings files of harnesses with our hooks or our status line.
    settings: Vec<Scope>,
    is_hub_running: bool,
    /// Manual pages and completions in the user's own folders.
    pages: Vec<PathBuf>,
    /// Files of the state folder: logs, records of changed settings.
    state: Vec<PathBuf>,
    /// Files of the data folder and of the settings folder.
    data: Vec<PathBuf>,
    /// Records of ended runs, in the projects of stored sessions.
    iterations: Vec<PathBuf>,
    /// What only the user can undo, and how.
    left: Vec<String>,
}

pub(crate) fn run(args: UninstallArgs, context: &Context) -> Result<(), CliError> {
    let traces = Traces::find(context)?;
    traces.list(context)?;
    if args.dry_run {
        context.info("nothing was changed");
        return Ok(());
    }
    let data = context.data_folder()?;
    if traces.is_hub_running {
        hub_connection::stop(&data)?;
    }
    let mut first_error = None;
    for scope in &traces.settings {
        if let Err(error) = undo(scope, context) {
            context.warn(&error.to_string());
            first_error = first_error.or(Some(error));
        }
    }
    // These records are needed until all of them are restored.
    let state: &[PathBuf] = if first_error.is_some() { &[] } else { &traces.state };
    delete(traces.pages.iter().chain(state))?;
    if !traces.data.is_empty() || !traces.iterations.is_empty() {
        if SqliteStore::is_written(&data) {
            return Err(CliError::failed("another process writes the store, which is kept"));
        }
        if args.data || agrees(&format!("Delete {}? [y/N] ", traces.about_data(context)))? {
            // A store that was read has more files beside it.
            delete(traces.iterations.iter().chain(&data_files(context)?))?;
            for folder in traces.iterations.iter().filter_map(|record| record.parent()?.parent()) {
                // Not empty: it has settings of the project.
                let _ = fs::remove_dir(folder);
            }
        } else {
            context.info(
                "sessions, records of runs and settings are kept; `subscope uninstall --data` deletes them",
            );
        }
    }
    first_error.map_or(Ok(()), Err)
}

impl Traces {
    /// Returns the size of what is deleted with consent, and how many sessions that has.
    fn about_data(&self, context: &Context) -> String {
        let bytes: u64 = self.data.iter().chain(&self.iterations).map(|path| size_of(path)).sum();
        let sessions = history::open_rows(Access::Read, context).ok().and_then(Result::ok);
        let sessions = sessions.and_then(|store| store.stats(&StatsQuery::default()).ok());
        let sessions = sessions.map_or_else(String::new, |stats| {
            format!(
                " of {}, with the events that programs posted, which are nowhere else",
                text::plural(stats.total.sessions, "session")
            )
        });
        let records = match self.iterations.len() as u64 {
            0 => String::new(),
            count => format!(", {}", text::plural(count, "run record")),
        };
        format!("{} MB{sessions}{records}, and your settings", bytes.div_ceil(1_000_000))
    }

    fn find(context: &Context) -> Result<Self, CliError> {
        let environment = &context.environment;
        let mut settings = Scope::all(environment);
        let mut left = Vec::new();
        for scope in &settings {
            if let Some((setup, path, _)) = scope.plugin(environment) {
                let line = format!("plugin of {} in {}: `{}`", scope.title(), path.display(), setup.remove);
                if !left.contains(&line) {
                    left.push(line);
                }
            }
        }
        // One that cannot be read may have hooks.
        settings.retain(|scope| {
            scope.read().is_err() || scope.hook_count() > 0 || statusline::is_installed(scope)
        });
        let home = environment.path("HOME");
        left.extend(home.iter().flat_map(|home| shell_lines(home)));
        left.extend(std::env::current_exe().ok().map(|program| format!("program: {}", program.display())));
        let data = context.data_folder()?;
        let state = environment.state_folder().unwrap_or_default();
        Ok(Self {
            settings,
            is_hub_running: match hub_connection::greet(&data) {
                Ok(_) => true,
                Err(ClientError::Unreachable { .. }) => false,
                Err(error) => return Err(error.into()),
            },
            pages: home.iter().flat_map(|home| pages(home)).collect(),
            state: known_in(&state, begins_with(&STATE)),
            data: data_files(context)?,
            iterations: iterations(context)?,
            left,
        })
    }

    fn list(&self, context: &Context) -> Result<(), CliError> {
        let mut lines = Vec::new();
        if self.is_hub_running {
            lines.push(format!("stop the hub of {}", context.data_folder()?.display()));
        }
        for scope in &self.settings {
            let path = scope.path.display();
            if let Err(error) = scope.read() {
                lines.push(format!("unread {path}: it may have hooks: {error}"));
            }
            if scope.hook_count() > 0 {
                lines.push(format!("restore {path}: {} hooks of {}", scope.hook_count(), scope.title()));
            }
            if statusline::is_installed(scope) {
                lines.push(format!("restore {path}: the status line of {}", scope.title()));
            }
        }
        for (path, why) in self
            .pages
            .iter()
            .map(|path| (path, ""))
            .chain(self.state.iter().map(|path| (path, " (log, or record of a change of settings)")))
        {
            lines.push(format!("delete {}{why}", path.display()));
        }
        lines.extend(self.data.iter().map(|path| format!("ask {}", path.display())));
        lines.extend(self.iterations.iter().map(|path| format!("ask {} (record of a run)", path.display())));
        lines.extend(self.left.iter().map(|line| format!("yours {line}")));
        lines.iter().try_for_each(|line| output::print_line(line, context))
    }
}

/// Restores a settings file: first the later change, so that the earlier one finds the file as it left it.
fn undo(scope: &Scope, context: &Context) -> Result<(), CliError> {
    scope.read()?;
    let line = |scope: &Scope| match statusline::is_installed(scope) {
        true => statusline::remove(scope, context),
        false => Ok(()),
    };
    let is_line_later = scope.is_as_left_by(Backups::StatusLine, &context.environment);
    if is_line_later {
        line(scope)?;
    }
    if scope.hook_count() > 0 {
        hooks::remove(scope, context)?;
    }
    if is_line_later { Ok(()) } else { line(scope) }
}

/// Returns the files of the data folder and of the settings folder.
fn data_files(context: &Context) -> Result<Vec<PathBuf>, CliError> {
    let config = context.environment.config_folder().unwrap_or_default();
    Ok([crate::data_files::data_files(&context.data_folder()?), known_in(&config, begins_with(&SETTINGS))]
        .concat())
}

/// Returns the records of ended runs in the projects of stored sessions. A store that cannot be read names no project: that
/// is reported, and keeps nothing else from being undone.
fn iterations(context: &Context) -> Result<Vec<PathBuf>, CliError> {
    let listed = match history::open_rows(Access::Read, context)? {
        Err(OpenError::Missing(_)) => return Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
        Ok(store) => store.list(&ListQuery::first(MAX_SESSIONS)).map_err(|error| error.to_string()),
    };
    let rows = listed.unwrap_or_else(|why| {
        context.warn(&format!("records of runs are not listed, for the store names their projects: {why}"));
        Vec::new()
    });
    let projects: BTreeSet<_> = rows.into_iter().flat_map(|row| [row.cwd, row.project]).flatten().collect();
    let folders: Vec<PathBuf> = projects.iter().map(|project| Path::new(&**project).join(FOLDER)).collect();
    let ended = iteration::list(&folders).into_iter().filter(|(_, it)| it.status != IterationStatus::Running);
    Ok(ended.map(|(folder, _)| folder).collect())
}

fn size_of(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size_of(&entry.path())).sum()
        }
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    }
}

/// Asks the user; nobody at a terminal is a no.
fn agrees(question: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let mut err = io::stderr().lock();
    err.write_all(question.as_bytes()).and_then(|()| err.flush())?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn begins_with(names: &'static [&'static str]) -> impl Fn(&str) -> bool {
    move |name| names.iter().any(|known| name.starts_with(known))
}

/// Deletes files and folders, and the folders that are empty then.
fn delete<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Result<(), CliError> {
    for path in paths {
        let deleted = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            // The hub took it away when it ended.
            Err(_) => Ok(()),
        };
        deleted.map_err(|error| CliError::write(path.display(), error))?;
        // Not empty yet, or somebody else's.
        let _ = path.parent().map(fs::remove_dir);
    }
    Ok(())
}

/// Returns the manual pages and completions that are in the user's own folders.
fn pages(home: &Path) -> Vec<PathBuf> {
    let is_page =
        |name: &str| name.ends_with(".1") && (name == "subscope.1" || name.starts_with("subscope-"));
    let mut all = known_in(&home.join(".local/share/man/man1"), is_page);
    let completions = [
        ".local/share/bash-completion/completions/subscope",
        ".config/fish/completions/subscope.fish",
        ".zfunc/_subscope",
    ];
    all.extend(completions.iter().map(|file| home.join(file)).filter(|path| path.is_file()));
    all
}

/// Returns the lines of the shell's files that run `subscope init`.
fn shell_lines(home: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for file in SHELL_FILES.map(|file| home.join(file)) {
        let Ok(text) = crate::config::read_text(&file, MAX_SHELL_BYTES, ErrorKind::Input) else { continue };
        let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains("subscope init"));
        all.extend(lines.map(|(number, line)| format!("line {}:{number}: {}", file.display(), line.trim())));
    }
    all
}
