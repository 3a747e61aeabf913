//! `subscope hooks`: installs hooks in Claude Code's settings, removes them, and shows their status.
//!
//! Flow: [`SettingsFile`] resolves the path → [`document`] edits the text → [`backup`] stores the old text →
//! [`mod@file`] replaces the file. The new text is parsed before it is written.

mod backup;
mod document;
pub(crate) mod entry;
mod file;
mod status;
pub(crate) mod version;

use std::{
    fs,
    path::{Path, PathBuf},
};

use subscope_collect::layout;
use subscope_decode::harness::{CLAUDE_CODE, CLAUDE_CODE_FORGIVES_EVENTS, CLAUDE_CODE_HTTP_HOOKS};

use self::{
    backup::{BackupFile, SavedSettings},
    document::{SettingsDocument, SyntaxProblem},
    entry::Handler,
    version::Version,
};
use crate::{
    args::{HooksAction, HooksArgs, InstallArgs, ScopeChoice},
    context::Context,
    environment::Environment,
    error::{CliError, ErrorKind},
    output,
};

/// Runs the command.
pub(crate) fn run(args: &HooksArgs, context: &Context) -> Result<(), CliError> {
    match &args.action {
        HooksAction::Install(args) => install(args, context),
        HooksAction::Remove(args) => remove(&SettingsFile::find(args.scope, &context.environment)?, context),
        HooksAction::Status(args) => status::run(*args, context),
    }
}

/// A settings file of Claude Code.
#[derive(Debug)]
struct SettingsFile {
    choice: ScopeChoice,
    /// Path at which Claude Code reads it.
    path: PathBuf,
    /// The file with symbolic links resolved; it need not exist.
    target: PathBuf,
}

impl SettingsFile {
    fn find(choice: ScopeChoice, environment: &Environment) -> Result<Self, CliError> {
        let folder = match choice {
            ScopeChoice::User => layout::config_root(&|name| environment.get(name)),
            ScopeChoice::Project | ScopeChoice::Local => {
                environment.working_folder().join(CLAUDE_CODE.home_folder)
            }
        };
        if !folder.is_absolute() && environment.get(CLAUDE_CODE.home_variable).is_none() {
            let message = match choice {
                ScopeChoice::User => "HOME is not set, so there is no place for settings",
                ScopeChoice::Project | ScopeChoice::Local => "the working folder is gone",
            };
            return Err(CliError::new(ErrorKind::Failed, message));
        }
        let path = folder.join(match choice {
            ScopeChoice::User | ScopeChoice::Project => "settings.json",
            ScopeChoice::Local => "settings.local.json",
        });
        Ok(Self { choice, target: file::resolve_links(&path)?, path })
    }

    /// Reads the text (`None` if there is no file) and parses it.
    fn read(&self) -> Result<(Option<String>, SettingsDocument), CliError> {
        let text = file::read(&self.target)?;
        let document = SettingsDocument::parse(text.as_deref().unwrap_or_default())
            .map_err(|invalid| self.invalid(&invalid))?;
        Ok((text, document))
    }

    fn invalid(&self, invalid: &SyntaxProblem) -> CliError {
        let error = CliError::new(ErrorKind::Input, format!("{}:{invalid}", self.path.display()));
        error.hint("nothing was changed")
    }

    /// Returns the place of the file's backup; `None` without a state directory.
    fn backup_file(&self, environment: &Environment) -> Option<BackupFile> {
        let absolute = std::path::absolute(&self.target).unwrap_or_else(|_| self.target.clone());
        BackupFile::of(&absolute, environment)
    }
}

fn install(args: &InstallArgs, context: &Context) -> Result<(), CliError> {
    let settings_file = SettingsFile::find(args.scope.scope, &context.environment)?;
    let wanted_hooks = wanted_hooks(args, context)?;
    let (text, document) = settings_file.read()?;
    warn_about_settings(&settings_file, text.as_deref(), &document, context);
    let previous = document.own_hooks();
    document.install(&wanted_hooks);
    let new = document.text();
    let events = wanted_hooks.len();
    let path = settings_file.path.display();
    if text.as_deref() == Some(new.as_str()) {
        return output::print_line(
            &format!("{path}: hooks for {events} events were installed already"),
            context,
        );
    }
    check(&settings_file, &new, &wanted_hooks)?;
    let folders = file::create_parent(&settings_file.target)?;
    match settings_file.backup_file(&context.environment) {
        Some(backup_file) => {
            let old = backup_file.load();
            backup_file.replace(
                new_backup(&settings_file, &text, &new, previous.is_empty(), folders, old.clone()).as_ref(),
            )?;
            let replaced =
                file::replace(&settings_file.target, text.as_deref(), &new, new_mode(settings_file.choice));
            // If the file was not replaced, restore the previous backup.
            replaced.or_else(|error| backup_file.replace(old.as_ref()).and(Err(error)))?;
        }
        None => {
            context.warn(
                "there is no place to remember the file as it was; remove will take out the hooks only",
            );
            file::replace(&settings_file.target, text.as_deref(), &new, new_mode(settings_file.choice))?;
        }
    }
    let done = if previous.is_empty() { "installed hooks" } else { "brought the hooks up to date" };
    output::print_line(
        &format!("{path}: {done} for {events} events; sessions that start now use them"),
        context,
    )
}

/// Warns about settings that do not prevent the installation but may be unintended.
fn warn_about_settings(
    settings_file: &SettingsFile,
    text: Option<&str>,
    document: &SettingsDocument,
    context: &Context,
) {
    let path = settings_file.path.display();
    // Observed: Claude Code 2.1.330 runs no hook from a file with a comment or a trailing comma.
    let is_strict = |text: &str| {
        let text = text.trim_start_matches('\u{feff}');
        text.trim().is_empty() || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
    };
    if !text.is_none_or(is_strict) {
        context.warn(&format!("{path} has comments or trailing commas: they are kept, but Claude Code reads no settings from such a file, these hooks included"));
    }
    if document.disables_hooks() {
        context.warn(&format!("{path} has disableAllHooks: Claude Code runs none until that is taken out"));
    }
    if settings_file.choice == ScopeChoice::Project {
        context.warn(&format!("{path} is for everybody who works on this project, and the hooks name a program of this machine; --scope local is for you alone"));
    }
}

/// Returns the mode of a new settings file: the user's may later hold keys, a project's is shared.
fn new_mode(choice: ScopeChoice) -> u32 {
    match choice {
        ScopeChoice::User | ScopeChoice::Local => file::PRIVATE,
        ScopeChoice::Project => 0o666,
    }
}

/// Returns the backup to store: the file before our first hook. `None` if the file was changed since an earlier
/// installation, because our edits can no longer be separated; `remove` then only removes our hooks.
fn new_backup(
    settings_file: &SettingsFile,
    text: &Option<String>,
    new: &str,
    is_first: bool,
    folders: Vec<PathBuf>,
    old: Option<SavedSettings>,
) -> Option<SavedSettings> {
    if is_first {
        return Some(SavedSettings::new(&settings_file.target, text.clone(), new.to_owned(), folders));
    }
    let old = old.filter(|backup| text.as_ref() == Some(&backup.after))?;
    Some(SavedSettings { after: new.to_owned(), ..old })
}

/// Checks that the new text, parsed again, has exactly the wanted hooks.
fn check(settings_file: &SettingsFile, text: &str, wanted_hooks: &[(&str, Handler)]) -> Result<(), CliError> {
    let mut own_hooks =
        SettingsDocument::parse(text).map_err(|invalid| settings_file.invalid(&invalid))?.own_hooks();
    own_hooks.sort_by_key(|(event, _)| wanted_hooks.iter().position(|(name, _)| name == event));
    let is_right = own_hooks.len() == wanted_hooks.len()
        && own_hooks
            .iter()
            .zip(wanted_hooks)
            .all(|((event, handler), (name, wanted))| event == name && handler == wanted);
    if is_right {
        return Ok(());
    }
    let message =
        format!("hooks cannot be added to {}, which is left as it is", settings_file.path.display());
    Err(CliError::new(ErrorKind::Failed, message))
}

/// Returns our hooks by event, for the options and the version of Claude Code.
fn wanted_hooks(args: &InstallArgs, context: &Context) -> Result<Vec<(&'static str, Handler)>, CliError> {
    let usage = |message: String| CliError::new(ErrorKind::Usage, message);
    let version = match &args.claude_version {
        Some(text) => {
            let invalid = || usage(format!("{text:?} is no version: write it as 2.1.330"));
            Some(version::parse(text).ok_or_else(invalid)?)
        }
        None => version::detect(&context.environment),
    };
    let command = Handler::command(&current_program()?, absolute_store(context)?.as_deref());
    let http = args.http.then(|| Handler::http(&args.url)).transpose().map_err(usage)?;
    if let Some(http) = &http {
        check_http(http, version, context)?;
    }
    if version.is_none() {
        context.warn(&format!(
            "no version of Claude Code was found; one before {} would ignore this whole file for events that it does not \
             know (--claude-version names yours)",
            version::format(CLAUDE_CODE_FORGIVES_EVENTS)
        ));
    }
    let events = CLAUDE_CODE.hook_subscriptions.iter();
    let events = events.filter(|subscription| version::accepts(version, subscription.since));
    let handler = |command_only: bool| http.as_ref().filter(|_| !command_only).unwrap_or(&command).clone();
    Ok(events.map(|subscription| (subscription.event, handler(subscription.command_only))).collect())
}

fn check_http(http: &Handler, version: Option<Version>, context: &Context) -> Result<(), CliError> {
    if let Some(version) = version.filter(|version| *version < CLAUDE_CODE_HTTP_HOOKS) {
        let (is, since) = (version::format(version), version::format(CLAUDE_CODE_HTTP_HOOKS));
        let message = format!("Claude Code {is} has no HTTP hooks (they came with {since})");
        return Err(CliError::new(ErrorKind::Failed, message).hint("install without --http"));
    }
    if !http.is_local() {
        context.warn("the URL is not of this machine: every prompt, call and result goes there");
    }
    Ok(())
}

/// Returns the path of the running program, for the hooks to run.
///
/// # Errors
/// If the path is unusable or has another file name.
pub(crate) fn current_program() -> Result<PathBuf, CliError> {
    let failed = |error: std::io::Error| {
        CliError::caused(
            ErrorKind::Failed,
            anyhow::Error::new(error).context("cannot find the running program"),
        )
    };
    let current_program = std::env::current_exe().map_err(failed)?;
    // Linux appends ` (deleted)` to the path of a replaced program. Hooks with another program name would not be
    // recognised as ours.
    let is_known = current_program.to_str().is_some()
        && current_program.file_name().is_some_and(|name| name == entry::PROGRAM);
    if is_known && current_program.is_absolute() && current_program.is_file() {
        return Ok(current_program);
    }
    let message = format!("the hooks cannot run {}", current_program.display());
    let hint = format!("run the program as {} from where it is to stay", entry::PROGRAM);
    Err(CliError::new(ErrorKind::Failed, message).hint(hint))
}

/// Returns the absolute path of `--store`, which the hooks must also use; `None` if not given (hooks inherit the
/// environment variable).
pub(crate) fn absolute_store(context: &Context) -> Result<Option<PathBuf>, CliError> {
    let Some(store) = &context.store_option else { return Ok(None) };
    let absolute = std::path::absolute(store).map_err(|error| CliError::caused(ErrorKind::Failed, error))?;
    Ok(Some(absolute))
}

fn remove(settings_file: &SettingsFile, context: &Context) -> Result<(), CliError> {
    let path = settings_file.path.display();
    let backup_file = settings_file.backup_file(&context.environment);
    let backup = backup_file.as_ref().and_then(BackupFile::load);
    let (text, document) = settings_file.read()?;
    let Some(text) = text.filter(|_| !document.own_hooks().is_empty()) else {
        backup_file.iter().for_each(BackupFile::delete);
        return output::print_line(&format!("{path}: there are no hooks of subscope"), context);
    };
    let events = document.own_hooks().len();
    let untouched = backup.as_ref().filter(|backup| backup.after == text);
    let (done, folders) = match untouched {
        Some(SavedSettings { before: Some(before), .. }) => {
            file::replace(&settings_file.target, Some(&text), before, file::PRIVATE)?;
            ("the file is what it was before", &[][..])
        }
        Some(SavedSettings { before: None, folders, .. }) => {
            file::remove(&settings_file.target, &text)?;
            ("the file is gone, as it was before", folders.as_slice())
        }
        None => {
            let before =
                backup.as_ref().and_then(|backup| SettingsDocument::parse(backup.before.as_ref()?).ok());
            document.remove(before.as_ref());
            let new = document.text();
            check(settings_file, &new, &[])?;
            file::replace(&settings_file.target, Some(&text), &new, file::PRIVATE)?;
            ("everything else in the file is kept", &[][..])
        }
    };
    backup_file.iter().for_each(BackupFile::delete);
    remove_folders(folders);
    output::print_line(&format!("{path}: removed the hooks for {events} events; {done}"), context)
}

/// Removes directories that we created, up to the first that is not empty.
fn remove_folders(folders: &[PathBuf]) {
    let is_removed = |folder: &Path| fs::remove_dir(folder).is_ok();
    let _ = folders.iter().all(|folder| is_removed(folder));
}
