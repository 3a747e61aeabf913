//! `subscope hooks`: adds hooks to the harness's settings, removes them, and shows their state.
//!
//! Flow: [`Scope`] finds the file → the harness edits its text → [`memory`] saves the former text → [`mod@file`] writes
//! the new one. Each new text is parsed before it is written.

pub(super) mod file;
pub(super) mod memory;
pub(super) mod status;
pub(crate) mod version;

use std::path::{Path, PathBuf};

use subscope_harness::{
    DEFAULT_HOOKED, Harness, HookEvent, HookHandler, HookSettings, HookSupport, PROGRAM, PluginSetup,
    SettingsScope, TOKEN_VARIABLE, Version, hooked, hooks_of, is_own_program,
};

use subscope_server::IDENTIFIES_TCP_PEERS;

pub(super) use self::memory::{Backups, SettingsBackup};
use crate::{environment::Environment, prelude::*};

pub(crate) fn run(args: &HooksArgs, context: &Context) -> Result<(), CliError> {
    match &args.action {
        HooksAction::Install(args) => each(&args.scope, context, |scope| install(args, scope, context)),
        HooksAction::Remove(args) => each(args, context, |scope| remove(scope, context)),
        HooksAction::Status(args) => status::run(args, context),
    }
}

/// Runs an action on the settings file of each chosen harness. A failure does not prevent the others.
fn each(
    args: &ScopeArgs,
    context: &Context,
    mut act: impl FnMut(&Scope) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let environment = &context.environment;
    if args.harness != ALL {
        let hooked = hooks_of(&args.harness);
        return act(&Scope::find(hooked.ok_or_else(no_hooks)?, args.scope, environment)?);
    }
    let present: Vec<Hooked> = hooked().filter(|(harness, _)| is_present(*harness, environment)).collect();
    if present.is_empty() {
        return Err(CliError::failed("no harness with hooks has a folder on this machine"));
    }
    let mut first_error = None;
    for hooked in present {
        match Scope::find(hooked, args.scope, environment).and_then(|scope| act(&scope)) {
            Err(error) if first_error.is_some() => context.warn(&error.to_string()),
            done => first_error = first_error.or(done.err()),
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// What is said of a file that another program has changed, too.
pub(super) const OTHERS_KEPT: &str = "everything else in the file is kept";

/// A harness with its hooks.
type Hooked = (&'static dyn Harness, &'static dyn HookSupport);

/// Whether a harness keeps files on this machine.
fn is_present(harness: &dyn Harness, environment: &Environment) -> bool {
    harness.home(&|name: &str| environment.get(name)).folder.is_dir()
}

fn no_hooks() -> CliError {
    CliError::failed("this harness has no hooks")
}

/// One settings file.
pub(super) struct Scope {
    harness: &'static dyn Harness,
    hooks: &'static dyn HookSupport,
    pub(super) choice: SettingsScope,
    /// Where the harness looks for it.
    pub(super) path: PathBuf,
    /// The file itself, with links resolved; it need not exist.
    pub(super) target: PathBuf,
}

impl Scope {
    pub(super) fn find(
        hooked: Hooked,
        choice: SettingsScope,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        Self::find_in(environment.working_folder(), hooked, choice, environment)
    }

    /// As [`Self::find`], in the project of a folder.
    fn find_in(
        folder: &Path,
        (harness, hooks): Hooked,
        choice: SettingsScope,
        environment: &Environment,
    ) -> Result<Self, CliError> {
        let variables = |name: &str| environment.get(name);
        let path = hooks.settings_file(choice, &variables, folder);
        let path = path.ok_or_else(|| {
            let title = harness.title();
            CliError::failed(match choice {
                SettingsScope::User => "HOME is not set, so the settings file cannot be found".to_owned(),
                SettingsScope::Project => "the working folder is gone".to_owned(),
                SettingsScope::Local => format!("{title} has no settings of a project for one machine alone"),
            })
        })?;
        Ok(Self { harness, hooks, choice, target: file::behind_links(&path)?, path })
    }

    /// Returns the settings files of all harnesses: the user's, those of the project in the working folder, and those of
    /// other projects that subscope has changed. Each file once.
    pub(super) fn all(environment: &Environment) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let mut add = |folder: &Path, choice, is_wanted: &dyn Fn(&Self) -> bool| {
            let found = hooked().filter_map(|hooked| Self::find_in(folder, hooked, choice, environment).ok());
            for scope in found.filter(|scope| is_wanted(scope)) {
                if all.iter().all(|known| known.target != scope.target) {
                    all.push(scope);
                }
            }
        };
        let working = environment.working_folder();
        for choice in [SettingsScope::User, SettingsScope::Project, SettingsScope::Local] {
            add(working, choice, &|_| true);
        }
        for changed in SettingsBackup::changed(environment) {
            for folder in changed.ancestors().skip(1) {
                for choice in [SettingsScope::Project, SettingsScope::Local] {
                    add(folder, choice, &|scope| scope.target == changed);
                }
            }
        }
        all
    }

    /// Returns the number of our hooks in the file; 0 if it cannot be read.
    pub(super) fn hook_count(&self) -> usize {
        self.read().map_or(0, |(_, settings)| settings.ours().len())
    }

    /// Title of the harness.
    pub(super) fn title(&self) -> &'static str {
        self.harness.title()
    }

    /// Whether the file is as subscope left it with one kind of change: it was the last change.
    pub(super) fn is_as_left_by(&self, kind: Backups, environment: &Environment) -> bool {
        let memory = self.backup(kind, environment).and_then(|backup| backup.recall());
        let text = file::read(&self.target).ok().flatten();
        memory.zip(text).is_some_and(|(memory, text)| memory.is_after(&text))
    }

    /// Returns the text of the file, if it exists, and its parsed settings.
    pub(super) fn read(&self) -> Result<(Option<String>, Box<dyn HookSettings>), CliError> {
        let text = file::read(&self.target)?;
        let settings = self.parse(text.as_deref().unwrap_or_default())?;
        Ok((text, settings))
    }

    pub(super) fn parse(&self, text: &str) -> Result<Box<dyn HookSettings>, CliError> {
        self.hooks.settings(text).map_err(|wrong| {
            let message = format!("{}:{wrong}", self.path.display());
            CliError::new(ErrorKind::Input, message).hint("nothing was changed")
        })
    }

    /// Returns our plugin, if it is installed in the harness: the file that says so, and whether it is enabled.
    pub(super) fn plugin(&self, environment: &Environment) -> Option<(&'static PluginSetup, PathBuf, bool)> {
        let setup = self.hooks.plugin()?;
        let home = self.harness.home(&|name: &str| environment.get(name)).folder;
        let path = home.join(setup.file);
        let is_enabled = (setup.is_enabled)(&file::read(&path).ok()??)?;
        let is_disabled = setup.disabled.is_some_and(|(switch, is_disabled)| {
            let text = file::read(&home.join(switch)).ok().flatten();
            let user = environment.path("HOME").unwrap_or_default();
            text.is_some_and(|text| is_disabled(&text, &user))
        });
        Some((setup, path, is_enabled && !is_disabled))
    }

    /// Returns the events whose hooks the harness skips because nobody has trusted them as they are.
    pub(super) fn untrusted(&self, text: &str, environment: &Environment) -> Vec<String> {
        let Some(trust) = self.hooks.trust() else { return Vec::new() };
        let home = self.harness.home(&|name: &str| environment.get(name)).folder;
        let kept = file::read(&home.join(trust.file)).ok().flatten().unwrap_or_default();
        (trust.untrusted)(&[&self.path, &self.target], text, &kept)
    }

    /// Returns the backup of the file before the first hook.
    fn shelf(&self, environment: &Environment) -> Option<SettingsBackup> {
        self.backup(Backups::Hooks, environment)
    }

    /// Returns the backup of one kind; `None` if the environment has no state folder.
    pub(super) fn backup(&self, kind: Backups, environment: &Environment) -> Option<SettingsBackup> {
        let absolute = std::path::absolute(&self.target).unwrap_or_else(|_| self.target.clone());
        SettingsBackup::of(&absolute, self.hooks, kind, environment)
    }
}

/// Returns a check whether the user's settings have hooks of ours; it returns `None` if they cannot be read. `None` if
/// there is no place for settings.
pub(crate) fn user_hooks(
    environment: &Environment,
) -> Option<impl Fn() -> Option<bool> + Send + Sync + use<>> {
    let scope = Scope::find(hooks_of(DEFAULT_HOOKED)?, SettingsScope::User, environment).ok()?;
    let has_plugin = scope.plugin(environment).is_some_and(|(.., is_enabled)| is_enabled);
    Some(move || Some(has_plugin || !scope.read().ok()?.1.ours().is_empty()))
}

fn install(args: &InstallArgs, scope: &Scope, context: &Context) -> Result<(), CliError> {
    let (text, document) = scope.read()?;
    let had = document.ours();
    let plugin = scope.plugin(&context.environment).filter(|(.., is_enabled)| *is_enabled);
    if let Some((setup, path, _)) = &plugin {
        let (title, path) = (scope.harness.title(), path.display());
        let says = format!("the plugin of subscope in {title} delivers its events ({path})");
        if !args.otel {
            let (kept, hint) = match had.as_slice() {
                [] => ("no hooks were added", format!("`{}` removes the plugin", setup.remove)),
                _ => ("the hooks are left as they are", "`subscope hooks remove` removes them".to_owned()),
            };
            output::print_line(&format!("{says}; {kept}"), context)?;
            context.info(&hint);
            return Ok(());
        }
        context.info(&format!("{says}; only the variables are set"));
    }
    let wanted = match &plugin {
        Some(_) => had.iter().map(|(event, handler)| (event.as_str(), handler.clone())).collect(),
        None => wanted(args, scope, context)?,
    };
    advise(scope, document.as_ref(), context);
    let variables = otel_variables(args, scope, document.as_ref())?;
    document.install(&wanted);
    document.set_variables(&variables);
    let new = document.text();
    let events = wanted.len();
    let path = scope.path.display();
    if text.as_deref() == Some(new.as_str()) {
        let already = format!("{path}: hooks for {events} events were installed already");
        return output::print_line(&already, context);
    }
    check(scope, &new, &wanted)?;
    if !variables.is_empty() && otel_url(scope, scope.parse(&new)?.as_ref()).is_none() {
        let message =
            format!("env in {} cannot be changed, and the file is left as it is", scope.path.display());
        return Err(CliError::failed(message));
    }
    let folders = file::make_folder_of(&scope.target)?;
    match scope.shelf(&context.environment) {
        Some(shelf) => {
            let old = shelf.recall();
            let memory = match (&text, &old) {
                _ if had.is_empty() => Some(shelf.memory(text.as_deref(), &new, folders)),
                (Some(text), Some(old)) => shelf.continued(old, text, &new),
                // `remove` then removes our hooks only.
                (None, _) | (_, None) => None,
            };
            shelf.replace(memory.as_ref())?;
            let replaced = file::replace(&scope.target, text.as_deref(), &new, new_file(scope.choice));
            // A change that was not made must not replace the backup of one that was.
            replaced.or_else(|error| shelf.replace(old.as_ref()).and(Err(error)))?;
        }
        None => {
            context.warn("the original file cannot be saved; `remove` will remove the hooks only");
            file::replace(&scope.target, text.as_deref(), &new, new_file(scope.choice))?;
        }
    }
    let done = match had.as_slice() {
        _ if plugin.is_some() => "set the variables".to_owned(),
        [] => format!("installed hooks for {events} events"),
        _ => format!("brought the hooks up to date for {events} events"),
    };
    let done = format!("{path}: {done}; sessions that start now use them");
    output::print_line(&done, context)?;
    if let Some(step) = scope.hooks.next_step() {
        context.info(step);
    }
    Ok(())
}

/// Returns the variables to set with which the harness sends OpenTelemetry records; none without `--otel`.
fn otel_variables(
    args: &InstallArgs,
    scope: &Scope,
    settings: &dyn HookSettings,
) -> Result<Vec<(&'static str, String)>, CliError> {
    if !args.otel {
        return Ok(Vec::new());
    }
    let wanted = scope.hooks.otel_variables(&args.url);
    if wanted.is_empty() {
        let message =
            format!("the settings of {} have no variables for OpenTelemetry", scope.harness.title());
        return Err(CliError::failed(message).hint("`subscope help opentelemetry` says how to set it up"));
    }
    let other = wanted.iter().find_map(|(name, value)| {
        let set = settings.variable(name).filter(|set| set != value)?;
        Some(format!("{}: env.{name} is set to {set:?}", scope.path.display()))
    });
    match other {
        Some(message) => Err(CliError::failed(message).hint("remove it first; nothing was changed")),
        None => Ok(wanted),
    }
}

/// Returns the URL of the hub to which the settings let the harness send OpenTelemetry records, as `--otel` sets it.
fn otel_url(scope: &Scope, settings: &dyn HookSettings) -> Option<String> {
    // The URL is the only value that differs.
    let wanted = scope.hooks.otel_variables("");
    let (name, _) = wanted.iter().find(|(_, value)| value.is_empty())?;
    let url = settings.variable(name)?;
    let is_set = |(name, value): &(&str, String)| settings.variable(name).as_ref() == Some(value);
    scope.hooks.otel_variables(&url).iter().all(is_set).then_some(url)
}

/// Prints warnings: settings that work, but may not be intended.
fn advise(scope: &Scope, settings: &dyn HookSettings, context: &Context) {
    let path = scope.path.display();
    for obstacle in settings.obstacles() {
        context.warn(&format!("{path} {obstacle}"));
    }
    if scope.choice == SettingsScope::Project {
        context.warn(&format!("{path} is for everybody who works on this project, and the hooks name a program of this machine; --scope local is for you alone"));
    }
}

/// A new settings file of the user may come to hold keys; one of a project is shared.
pub(super) fn new_file(choice: SettingsScope) -> file::NewFile {
    if choice == SettingsScope::Project { file::NewFile::Shared } else { file::NewFile::Private }
}

/// Checks that the new text has the intended hooks before it is written.
fn check(scope: &Scope, text: &str, wanted: &[(&str, HookHandler)]) -> Result<(), CliError> {
    let mut ours = scope.parse(text)?.ours();
    ours.sort_by_key(|(event, _)| wanted.iter().position(|(name, _)| name == event));
    let wanted: Vec<_> =
        wanted.iter().map(|(event, handler)| ((*event).to_owned(), handler.clone())).collect();
    if ours == wanted {
        return Ok(());
    }
    let message = format!("hooks cannot be added to {}, which is left as it is", scope.path.display());
    Err(CliError::failed(message))
}

/// Returns our hooks by event, as the options and the version of the harness ask for.
fn wanted(
    args: &InstallArgs,
    scope: &Scope,
    context: &Context,
) -> Result<Vec<(&'static str, HookHandler)>, CliError> {
    let Scope { harness, hooks, .. } = scope;
    let version = match &args.harness_version {
        Some(text) => {
            let wrong = || CliError::usage(format!("{text:?} is not a version: write it as 2.1.330"));
            Some(version::parse(text).ok_or_else(wrong)?)
        }
        None if hooks.forgives_since().is_none() => None,
        None => harness.run().and_then(|program| version::ask(program, &context.environment)),
    };
    let (program, store) = (program()?, absolute_store(context)?);
    let http = args.http.then(|| HookHandler::http(&args.url, hooks.route(), args.with_token)).transpose();
    let http = http.map_err(|error| CliError::caused(ErrorKind::Usage, error))?;
    if let Some(http) = &http {
        check_http(http, args, scope, version, context)?;
    }
    if let Some(since) = hooks.forgives_since().filter(|_| version.is_none()) {
        context.warn(&format!(
            "no version of {} was found: only the events that every version knows get hooks, since one before {} \
             ignores a whole file for an event that it does not know ({VERSION_OPTION} names yours)",
            harness.title(),
            version::show(since)
        ));
    }
    let handler = |event: &HookEvent| match http.as_ref().filter(|_| !event.command_only) {
        Some(http) => http.clone(),
        None => command(*harness, *hooks, event, &program, store.as_deref()),
    };
    let events = hooks.events(version).into_iter();
    Ok(events.map(|event| (event.name, handler(&event))).collect())
}

/// Returns the command of a hook. It names what the payload lacks.
fn command(
    harness: &dyn Harness,
    hooks: &dyn HookSupport,
    event: &HookEvent,
    program: &Path,
    store: Option<&Path>,
) -> HookHandler {
    let mut arguments = Vec::new();
    if harness.name() != DEFAULT_HOOKED {
        arguments.extend(["--harness", harness.name()]);
    }
    if !hooks.names_events() {
        arguments.extend(["--event", event.name]);
    }
    let store = store.map(|store| store.to_string_lossy());
    if let Some(store) = &store {
        arguments.extend(["--store", store]);
    }
    HookHandler::command(program, &arguments)
}

fn check_http(
    http: &HookHandler,
    args: &InstallArgs,
    scope: &Scope,
    version: Option<Version>,
    context: &Context,
) -> Result<(), CliError> {
    let title = scope.harness.title();
    let missing = match (scope.hooks.posts_since(), version) {
        (None, _) => Some(format!("{title} has no HTTP hooks")),
        (Some(since), Some(version)) if version < since => {
            let (is, since) = (version::show(version), version::show(since));
            Some(format!("{title} {is} has no HTTP hooks (they came with {since})"))
        }
        (Some(_), _) => None,
    };
    if let Some(message) = missing {
        return Err(CliError::failed(message).hint("install without --http"));
    }
    if args.with_token {
        let variable = format!("start {title} with {TOKEN_VARIABLE} in its environment");
        context.info(&format!("{variable}: the token that the hub asks for, else it refuses the hooks"));
    } else if http.stays_here() && !IDENTIFIES_TCP_PEERS {
        let error = CliError::failed(
            "on this system a hub cannot tell whose an HTTP hook is, and asks for its token",
        );
        return Err(error.hint(
            "install without --http, since the command uses the hub's private socket, or add --with-token",
        ));
    }
    if !http.stays_here() {
        context.warn("the URL is not of this machine: every prompt, call and result goes there");
    }
    Ok(())
}

/// The running program, which the hooks are to run.
pub(crate) fn program() -> Result<PathBuf, CliError> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| CliError::because("cannot find the running program", error))?;
    // Linux appends a note to the path of a program that was replaced in the meantime. With another name our hooks
    // would not be recognized again.
    let is_known = program.to_str().is_some_and(is_own_program);
    if is_known && program.is_absolute() && program.is_file() {
        return Ok(program);
    }
    let message = format!("the hooks cannot run {}", program.display());
    let hint = format!("run {} from its final place", PROGRAM);
    Err(CliError::failed(message).hint(hint))
}

/// The folder that `--store` names: the hooks have to use it, too. A folder that a variable names needs no option.
pub(crate) fn absolute_store(context: &Context) -> Result<Option<PathBuf>, CliError> {
    Ok(context.store_option.as_ref().map(std::path::absolute).transpose()?)
}

/// Removes our hooks from a settings file.
pub(super) fn remove(scope: &Scope, context: &Context) -> Result<(), CliError> {
    let path = scope.path.display();
    let shelf = scope.shelf(&context.environment);
    let memory = shelf.as_ref().and_then(SettingsBackup::recall);
    let (text, document) = scope.read()?;
    let Some(text) = text.filter(|_| !document.ours().is_empty()) else {
        shelf.iter().for_each(SettingsBackup::forget);
        return output::print_line(&format!("{path}: no hooks of subscope are installed"), context);
    };
    let events = document.ours().len();
    let restored = match &memory {
        Some(memory) => memory.restore(&scope.target, &text)?,
        None => None,
    };
    if restored.is_none() {
        let before = memory.as_ref().and_then(|memory| memory.outline.as_deref());
        if let Some(url) = otel_url(scope, document.as_ref()) {
            document.remove_variables(&scope.hooks.otel_variables(&url), before);
        }
        document.remove(before);
        let new = document.text();
        check(scope, &new, &[])?;
        file::replace(&scope.target, Some(&text), &new, file::NewFile::Private)?;
    }
    shelf.iter().for_each(SettingsBackup::forget);
    let done = restored.unwrap_or(OTHERS_KEPT);
    output::print_line(&format!("{path}: removed the hooks for {events} events; {done}"), context)
}
