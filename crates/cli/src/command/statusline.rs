//! `subscope statusline`: makes a harness show `subscope status` in its status line, and restores the former one.
//!
//! Works like [`hooks`](super::hooks): the harness edits the text of its settings, a backup keeps the text as it was.

use subscope_harness::{DEFAULT_HOOKED, hooks_of, runs_ours, shell_command};

use super::hooks::{Backups, OTHERS_KEPT, Scope, SettingsBackup, absolute_store, file, new_file, program};
use crate::prelude::*;

/// The command that prints the line.
const COMMAND: &str = "status";

pub(crate) fn run(args: &StatusLineSetup, context: &Context) -> Result<(), CliError> {
    let scope = |choice| {
        let hooked = hooks_of(DEFAULT_HOOKED).filter(|(_, hooks)| hooks.has_status_line());
        let hooked = hooked.ok_or_else(|| CliError::failed("no harness has a status line"))?;
        Scope::find(hooked, choice, &context.environment)
    };
    match &args.action {
        StatusLineAction::Install { scope: choice, replace } => install(&scope(*choice)?, *replace, context),
        StatusLineAction::Remove { scope: choice } => remove(&scope(*choice)?, context),
        StatusLineAction::Status { scope: choice } => status(&scope(*choice)?, context),
    }
}

fn backup_of(scope: &Scope, context: &Context) -> Option<SettingsBackup> {
    scope.backup(Backups::StatusLine, &context.environment)
}

fn install(scope: &Scope, replace: bool, context: &Context) -> Result<(), CliError> {
    let store = absolute_store(context)?.map(|store| store.to_string_lossy().into_owned());
    let arguments: Vec<&str> =
        [COMMAND].into_iter().chain(store.iter().flat_map(|store| ["--store", store.as_str()])).collect();
    let command = shell_command(&program()?, &arguments);
    let (text, document) = scope.read()?;
    let path = scope.path.display();
    let old = document.status_line();
    if let Some(other) = old.as_ref().filter(|line| !runs_ours(line, COMMAND) && !replace) {
        let error = CliError::failed(format!("{path} has another status line: {other}"));
        return Err(error.hint("--replace replaces it; `subscope statusline remove` restores it later"));
    }
    if old.as_deref() == Some(command.as_str()) {
        return output::print_line(&format!("{path}: the status line was installed before"), context);
    }
    let is_first = !old.as_ref().is_some_and(|line| runs_ours(line, COMMAND));
    document.set_status_line(&command);
    let new = document.text();
    if scope.parse(&new)?.status_line().as_deref() != Some(command.as_str()) {
        return Err(CliError::failed(format!(
            "the status line cannot be added to {path}; nothing was changed"
        )));
    }
    let folders = file::make_folder_of(&scope.target)?;
    let backup = backup_of(scope, context);
    let old = backup.as_ref().and_then(SettingsBackup::recall);
    match &backup {
        Some(backup) => {
            let continued = old.as_ref().zip(text.as_ref()).filter(|_| !is_first);
            let memory = continued.and_then(|(old, text)| backup.continued(old, text, &new));
            let memory = memory.unwrap_or_else(|| backup.memory(text.as_deref(), &new, folders));
            backup.replace(Some(&memory))?;
        }
        None => context.warn("the original file cannot be saved; `remove` will remove the status line only"),
    }
    let replaced = file::replace(&scope.target, text.as_deref(), &new, new_file(scope.choice));
    if let (Err(error), Some(backup)) = (replaced, &backup) {
        backup.replace(old.as_ref())?;
        return Err(error);
    }
    output::print_line(&format!("{path}: the status line is `{command}` now"), context)
}

/// Whether a settings file has our status line.
pub(super) fn is_installed(scope: &Scope) -> bool {
    let line = scope.read().ok().and_then(|(_, settings)| settings.status_line());
    line.is_some_and(|line| runs_ours(&line, COMMAND))
}

/// Removes our status line from a settings file.
pub(super) fn remove(scope: &Scope, context: &Context) -> Result<(), CliError> {
    let (text, document) = scope.read()?;
    let path = scope.path.display();
    let backup = backup_of(scope, context);
    let memory = backup.as_ref().and_then(SettingsBackup::recall);
    let is_ours = document.status_line().is_some_and(|line| runs_ours(&line, COMMAND));
    let Some(text) = text.filter(|_| is_ours) else {
        backup.iter().for_each(SettingsBackup::forget);
        return output::print_line(&format!("{path}: no status line of subscope is installed"), context);
    };
    let restored = match &memory {
        Some(memory) => memory.restore(&scope.target, &text)?,
        None => None,
    };
    if restored.is_none() {
        document.restore_status_line(memory.as_ref().and_then(|memory| memory.outline.as_deref()));
        let new = document.text();
        scope.parse(&new)?;
        file::replace(&scope.target, Some(&text), &new, file::NewFile::Private)?;
    }
    backup.iter().for_each(SettingsBackup::forget);
    let done = restored.unwrap_or(OTHERS_KEPT);
    output::print_line(&format!("{path}: removed the status line; {done}"), context)
}

fn status(scope: &Scope, context: &Context) -> Result<(), CliError> {
    let path = scope.path.display();
    let line = scope.read()?.1.status_line();
    let says = match line {
        Some(line) if runs_ours(&line, COMMAND) => {
            format!("the status line of subscope is installed: {line}")
        }
        Some(line) => format!("another status line is installed: {line}"),
        None => "no status line is installed".to_owned(),
    };
    output::print_line(&format!("{path}: {says}"), context)
}
