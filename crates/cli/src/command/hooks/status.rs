//! `subscope hooks status`: what is installed where, whether a hub answers, what waits.

use std::{collections::BTreeMap, fmt::Write, io, path::Path, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;
use subscope_client::connect_socket;
use subscope_collect::spool::{self, Spool};
use subscope_harness::{DEFAULT_HOOKED, Harness, HookHandler, HookSettings, SettingsScope, hooked};
use subscope_render::text::plural;
use subscope_render::{Charset, safe};

use super::{Scope, is_present, otel_url};
use crate::{hub_connection::SOCKET, prelude::*};

const SCHEMA: &str = "subscope.hooks/1";
/// How long a hub may take to accept: about as long as a hook waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Output of `--json` (subscope.hooks/1).
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    schema: &'static str,
    scopes: Vec<Row>,
    /// Plugins of subscope that are installed.
    plugins: Vec<PluginRow>,
    hub: Option<Hub>,
    spool: Option<Waiting>,
}

/// A settings file of a harness.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Row {
    /// Its name, as `--harness` takes it.
    harness: &'static str,
    #[serde(skip)]
    title: &'static str,
    scope: &'static str,
    path: String,
    exists: bool,
    /// Whether it has a hook of subscope; `null` if the file cannot be read.
    installed: Option<bool>,
    /// Whether the file tells the harness to run no hooks at all.
    disabled: bool,
    /// Whether this version of subscope would write these hooks otherwise: `hooks install` changes the file.
    outdated: bool,
    hooks: Vec<Hook>,
    /// Programs of these hooks that do not exist: the hooks do nothing.
    gone: Vec<String>,
    /// Events whose hooks the harness skips because its user has not trusted them as they are.
    untrusted: Vec<String>,
    /// The hub to which the harness sends OpenTelemetry; `null` if the settings name none.
    otel: Option<String>,
    problem: Option<String>,
}

/// An installed plugin of subscope.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PluginRow {
    /// The name of its harness, as `--harness` takes it.
    harness: &'static str,
    #[serde(skip)]
    title: &'static str,
    /// The file that says so.
    path: String,
    enabled: bool,
    /// The command that removes it.
    remove: &'static str,
}

/// A hook of subscope in a settings file.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Hook {
    event: String,
    kind: &'static str,
    /// The command, or the URL.
    target: String,
}

/// Whether a hub accepts events.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Hub {
    socket: String,
    answers: bool,
}

/// Events that wait for a hub.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Waiting {
    folder: String,
    /// Number of events that wait.
    waiting: usize,
    /// Number of events that were dropped because the spool was full.
    dropped: u64,
    /// Number of events whose hook names a harness that is not known, by that name. No hub takes them.
    unknown: BTreeMap<String, usize>,
    /// What of the spool cannot be read, with the reasons. It stays, and a hub tries it again.
    unread: Vec<String>,
    /// Number of damaged events that a hub set aside: files that end in `.damaged`.
    damaged: u64,
}

impl Waiting {
    fn read(folder: &Path) -> Self {
        let mut read = Self { folder: folder.to_string_lossy().into_owned(), ..Self::default() };
        let spool = match Spool::open(folder) {
            Ok(spool) => spool,
            Err(error) => {
                read.unread.push(format!("cannot list {}: {error}", folder.display()));
                return read;
            }
        };
        (read.waiting, read.unknown) = (spool.len(), spool.unknown());
        read.unread = spool.unread().iter().map(ToString::to_string).collect();
        let mut count = |what: io::Result<u64>| {
            what.unwrap_or_else(|error| {
                read.unread.push(format!("cannot count in {}: {error}", folder.display()));
                0
            })
        };
        read.dropped = count(spool.dropped());
        read.damaged = count(spool.set_aside_count());
        read
    }

    /// Returns what is wrong, each with what to do.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (String, String)> {
        self.unread_problem().into_iter().chain(self.unknown_problem())
    }

    fn unread_problem(&self) -> Option<(String, String)> {
        let first = self.unread.first()?;
        let more = match self.unread.len() {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        let hint = "nothing of it is lost: a hub takes it as soon as it can be read";
        Some((format!("spool: {first}{more}"), hint.to_owned()))
    }

    fn unknown_problem(&self) -> Option<(String, String)> {
        let (harness, _) = self.unknown.first_key_value()?;
        let count = plural(self.unknown.values().sum::<usize>(), "event");
        let names: Vec<&str> = hooked().map(|(harness, _)| harness.name()).collect();
        let says = format!(
            "{count} kept of a hook whose --harness is {harness:?}: no harness with hooks has this name"
        );
        let hint = format!(
            "write --harness {} in its command (`subscope hooks install` does), then remove {}/*.unknown",
            names.join(" or "),
            self.folder
        );
        Some((says, hint))
    }
}

/// Shows the settings files, the hub and the spool. The row of a file that cannot be read says so, and the
/// command fails.
pub(super) fn run(args: &StatusArgs, context: &Context) -> Result<(), CliError> {
    let environment = &context.environment;
    let is_shown = |harness: &dyn Harness| match args.harness.as_deref() {
        Some(name) => harness.name() == name,
        None => harness.name() == DEFAULT_HOOKED || is_present(harness, environment),
    };
    let (scopes, first_error) = rows(is_shown, args.scope, context)?;
    let plugins = plugins(is_shown, context);
    let data = context.environment.data_folder(context.store_option.as_deref());
    let report = Report {
        schema: SCHEMA,
        scopes,
        plugins,
        hub: data.as_deref().map(hub),
        spool: data.as_deref().map(waiting),
    };
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report, context.style(None).charset()))?;
    }
    let problem = report.spool.iter().flat_map(Waiting::problems).next();
    let problem = problem.map(|(says, hint)| CliError::failed(says).hint(hint));
    first_error.or(problem).map_or(Ok(()), Err)
}

/// Returns the rows of the settings files of some harnesses, and the first error of reading one.
fn rows(
    is_shown: impl Fn(&dyn Harness) -> bool,
    scope: Option<SettingsScope>,
    context: &Context,
) -> Result<(Vec<Row>, Option<CliError>), CliError> {
    let environment = &context.environment;
    let (mut first_error, mut scopes) = (None, Vec::new());
    for shown in hooked().filter(|(harness, _)| is_shown(*harness)) {
        let choices = SCOPES.into_iter().filter(|(.., choice)| scope.is_none_or(|asked| asked == *choice));
        for (name, _, choice) in choices {
            // Not every harness has each of the three.
            let scope = match Scope::find(shown, choice, environment) {
                Err(_) if choice == SettingsScope::Local => continue,
                scope => scope?,
            };
            // In the home folder, the file of the project is that of the user.
            let is_listed = |row: &Row| row.harness == shown.0.name() && scope.path == Path::new(&row.path);
            if scopes.iter().any(is_listed) {
                continue;
            }
            let (row, error) = row(name, &scope, context);
            scopes.push(row);
            first_error = first_error.or(error);
        }
    }
    // The default harness is the one most often queried.
    scopes.sort_by_key(|row| row.harness != DEFAULT_HOOKED);
    Ok((scopes, first_error))
}

/// Returns what is wrong with installed hooks, with a hint each: settings that cannot be read; hooks of another version, of
/// a harness that runs none, whose program is gone, that are not trusted, or that a plugin runs as well.
///
/// # Errors
/// It is not known where settings are.
pub(crate) fn problems(context: &Context) -> Result<Vec<(String, String)>, CliError> {
    let (rows, _) = rows(|_| true, None, context)?;
    let mut all = Vec::new();
    for PluginRow { title, path, remove, .. } in plugins(|_| true, context).iter().filter(|row| {
        let has_both = |scope: &Row| scope.harness == row.harness && !scope.hooks.is_empty();
        row.enabled && rows.iter().any(has_both)
    }) {
        let says = format!("{title} runs each hook twice: by the plugin ({path}) and by its settings");
        all.push((
            says,
            format!("each event counts once; `subscope hooks remove` or `{remove}` saves one of the two"),
        ));
    }
    for Row { harness, title, scope, path, disabled, outdated, hooks, gone, untrusted, problem, .. } in rows {
        let again = format!("`subscope hooks install --harness {harness} --scope {scope}` writes them anew");
        for program in &gone {
            let says = format!("the hooks of {title} run {program}, which does not exist ({path})");
            all.push((says, again.clone()));
        }
        if !untrusted.is_empty() {
            let says = format!(
                "{title} skips the hooks of {} because they are not trusted ({path})",
                untrusted.join(", ")
            );
            all.push((
                says,
                format!(
                    "/hooks in the terminal UI of {title} trusts them; a changed hook has to be trusted again"
                ),
            ));
        }
        if let Some(problem) = problem {
            all.push((
                format!("hooks of {title}: {problem}"),
                format!("subscope reads {path} to say whether hooks are installed"),
            ));
        }
        if outdated && gone.is_empty() {
            let says = format!("the hooks of {title} are not as this version writes them ({path})");
            all.push((says, again));
        }
        if disabled && !hooks.is_empty() {
            let says = format!("{title} is set to run no hooks, those of subscope neither ({path})");
            all.push((says, "remove the setting, or the hooks with `subscope hooks remove`".to_owned()));
        }
    }
    Ok(all)
}

/// Returns the installed plugins of some harnesses.
fn plugins(is_shown: impl Fn(&dyn Harness) -> bool, context: &Context) -> Vec<PluginRow> {
    let of = |shown| {
        let scope = Scope::find(shown, SettingsScope::User, &context.environment).ok()?;
        let (setup, path, enabled) = scope.plugin(&context.environment)?;
        let (harness, title) = (scope.harness.name(), scope.harness.title());
        let path = path.to_string_lossy().into_owned();
        Some(PluginRow { harness, title, path, enabled, remove: setup.remove })
    };
    hooked().filter(|(harness, _)| is_shown(*harness)).filter_map(of).collect()
}

fn row(name: &'static str, scope: &Scope, context: &Context) -> (Row, Option<CliError>) {
    let (mut outdated, mut untrusted) = (false, Vec::new());
    let (exists, disabled, hooks, otel, error) = match scope.read() {
        Ok((text, document)) => {
            let otel = otel_url(scope, document.as_ref());
            let (disabled, hooks) = (document.disables_hooks(), document.ours());
            outdated = is_outdated(document.as_ref(), &hooks);
            untrusted = scope.untrusted(text.as_deref().unwrap_or_default(), &context.environment);
            (text.is_some(), disabled, hooks, otel, None)
        }
        Err(error) => (scope.target.exists(), false, Vec::new(), None, Some(error)),
    };
    let mut gone: Vec<String> = hooks
        .iter()
        .filter_map(|(_, handler)| handler.program())
        .filter(|program| program.is_absolute() && !program.is_file())
        .map(|program| program.to_string_lossy().into_owned())
        .collect();
    gone.sort();
    gone.dedup();
    let hook = |(event, handler): (String, HookHandler)| match handler {
        HookHandler::Command(target) => Hook { event, kind: "command", target },
        HookHandler::Http { url: target, .. } => Hook { event, kind: "http", target },
    };
    let row = Row {
        harness: scope.harness.name(),
        title: scope.harness.title(),
        scope: name,
        path: scope.path.to_string_lossy().into_owned(),
        exists,
        disabled,
        outdated,
        installed: error.is_none().then_some(!hooks.is_empty()),
        hooks: hooks.into_iter().map(hook).collect(),
        gone,
        untrusted,
        otel,
        problem: error.as_ref().map(ToString::to_string),
    };
    (row, error)
}

/// Whether an installation of the hooks that settings have would write them otherwise. Changes the settings.
fn is_outdated(settings: &dyn HookSettings, hooks: &[(String, HookHandler)]) -> bool {
    let before = settings.text();
    let same: Vec<_> = hooks.iter().map(|(event, handler)| (event.as_str(), handler.clone())).collect();
    !hooks.is_empty() && {
        settings.install(&same);
        settings.text() != before
    }
}

fn hub(data: &Path) -> Hub {
    let socket = data.join(SOCKET);
    // Nothing is sent.
    let answers = connect_socket(&socket, PATIENCE).is_ok();
    Hub { answers, socket: socket.to_string_lossy().into_owned() }
}

pub(crate) fn waiting(data: &Path) -> Waiting {
    Waiting::read(&spool::folder(data))
}

fn text(report: &Report, charset: Charset) -> String {
    let mut out = String::new();
    // Writing into a String has no way to fail.
    let mut line = |name: &str, says: &str| {
        let _ = writeln!(out, "{}", format!("{name:<8} {}", safe::line(says, charset)).trim_end());
    };
    let is_of_several = report.scopes.iter().any(|row| row.harness != DEFAULT_HOOKED);
    let mut last = "";
    for row in &report.scopes {
        if is_of_several && row.harness != last {
            last = row.harness;
            line(row.title, "");
        }
        let says = match (&row.problem, row.exists, row.hooks.as_slice()) {
            (Some(problem), _, _) => problem.clone(),
            (None, false, _) => format!("not installed ({} does not exist)", row.path),
            (None, true, []) => format!("not installed ({})", row.path),
            (None, true, hooks) => format!("{} ({})", plural(hooks.len(), "event"), row.path),
        };
        let disabled = if row.disabled { "; the harness is set to run none" } else { "" };
        line(row.scope, &format!("{says}{disabled}"));
        if row.outdated {
            line("", "not as this version writes them: `subscope hooks install` writes them anew");
        }
        for program in &row.gone {
            line("", &format!("{program} does not exist: the hooks do nothing"));
        }
        if !row.untrusted.is_empty() {
            line("", &format!("skipped until you trust them (/hooks): {}", row.untrusted.join(", ")));
        }
        let mut targets: Vec<&str> = row.hooks.iter().map(|hook| hook.target.as_str()).collect();
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            let events = row.hooks.iter().filter(|hook| hook.target == target);
            let events: Vec<&str> = events.map(|hook| hook.event.as_str()).collect();
            line("", &format!("{target}: {}", events.join(", ")));
        }
        if let Some(url) = &row.otel {
            line("", &format!("OpenTelemetry to {url}"));
        }
    }
    for PluginRow { title, path, enabled, .. } in &report.plugins {
        let says = if *enabled { "delivers its events" } else { "installed, and disabled" };
        line("plugin", &format!("{title}: {says} ({path})"));
    }
    if let Some(Hub { socket, answers }) = &report.hub {
        let says = if *answers { "takes events" } else { "none: events wait in the spool" };
        line("hub", &format!("{says} ({socket})"));
    }
    if let Some(spool @ Waiting { folder, waiting, dropped, damaged, .. }) = &report.spool {
        let dropped =
            if *dropped > 0 { format!(", {dropped} dropped for want of room") } else { String::new() };
        let waits = if *waiting == 1 { "event waits" } else { "events wait" };
        let damaged = if *damaged > 0 { format!(", {damaged} damaged") } else { String::new() };
        line("spool", &format!("{waiting} {waits}{dropped}{damaged} ({folder})"));
        for (says, _) in spool.problems() {
            line("", &says);
        }
    }
    out
}
