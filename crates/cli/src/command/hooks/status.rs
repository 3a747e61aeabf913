//! `subscope hooks status`: what is installed where, whether a hub answers, what waits.

use std::{collections::BTreeMap, fmt::Write, path::Path, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;
use subscope_client::connect_socket;
use subscope_collect::spool::{self, Spool};
use subscope_harness::{DEFAULT_HOOKED, HookHandler, SettingsScope, hooked};
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
    hooks: Vec<Hook>,
    /// The hub to which the harness sends OpenTelemetry; `null` if the settings name none.
    otel: Option<String>,
    problem: Option<String>,
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
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Waiting {
    folder: String,
    /// Number of events that wait.
    waiting: usize,
    /// Number of events that were dropped because the spool was full.
    dropped: u64,
    /// Number of events whose hook names a harness that is not known, by that name. No hub takes them.
    unknown: BTreeMap<String, usize>,
}

impl Waiting {
    /// Returns what is wrong with hooks that name an unknown harness, and what to do; `None` if there are none.
    pub(crate) fn problem(&self) -> Option<(String, String)> {
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
    let shown = hooked().filter(|(harness, _)| match args.harness.as_deref() {
        Some(name) => harness.name() == name,
        None => harness.name() == DEFAULT_HOOKED || is_present(*harness, environment),
    });
    let (mut first_error, mut scopes) = (None, Vec::new());
    for shown in shown {
        let choices =
            SCOPES.into_iter().filter(|(.., choice)| args.scope.is_none_or(|asked| asked == *choice));
        for (name, _, choice) in choices {
            // Not every harness has each of the three.
            let scope = match Scope::find(shown, choice, environment) {
                Err(_) if choice == SettingsScope::Local => continue,
                scope => scope?,
            };
            let (row, error) = row(name, &scope);
            scopes.push(row);
            first_error = first_error.or(error);
        }
    }
    // The default harness is the one most often queried.
    scopes.sort_by_key(|row| row.harness != DEFAULT_HOOKED);
    let data = context.environment.data_folder(context.store_option.as_deref());
    let report =
        Report { schema: SCHEMA, scopes, hub: data.as_deref().map(hub), spool: data.as_deref().map(waiting) };
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report, context.style(None).charset()))?;
    }
    let unknown = report.spool.as_ref().and_then(Waiting::problem);
    let unknown = unknown.map(|(says, hint)| CliError::failed(says).hint(hint));
    first_error.or(unknown).map_or(Ok(()), Err)
}

fn row(name: &'static str, scope: &Scope) -> (Row, Option<CliError>) {
    let (exists, disabled, hooks, otel, error) = match scope.read() {
        Ok((text, document)) => {
            let otel = otel_url(scope, document.as_ref());
            (text.is_some(), document.disables_hooks(), document.ours(), otel, None)
        }
        Err(error) => (scope.target.exists(), false, Vec::new(), None, Some(error)),
    };
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
        installed: error.is_none().then_some(!hooks.is_empty()),
        hooks: hooks.into_iter().map(hook).collect(),
        otel,
        problem: error.as_ref().map(ToString::to_string),
    };
    (row, error)
}

fn hub(data: &Path) -> Hub {
    let socket = data.join(SOCKET);
    // Nothing is sent.
    let answers = connect_socket(&socket, PATIENCE).is_ok();
    Hub { answers, socket: socket.to_string_lossy().into_owned() }
}

pub(crate) fn waiting(data: &Path) -> Waiting {
    let folder = spool::folder(data);
    // A spool that cannot be listed belongs to another user.
    let spool = Spool::open(&folder).ok();
    Waiting {
        folder: folder.to_string_lossy().into_owned(),
        waiting: spool.as_ref().map_or(0, Spool::len),
        dropped: spool.as_ref().map_or(0, Spool::dropped),
        unknown: spool.as_ref().map(Spool::unknown).unwrap_or_default(),
    }
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
    if let Some(Hub { socket, answers }) = &report.hub {
        let says = if *answers { "takes events" } else { "none: events wait in the spool" };
        line("hub", &format!("{says} ({socket})"));
    }
    if let Some(spool @ Waiting { folder, waiting, dropped, .. }) = &report.spool {
        let dropped =
            if *dropped > 0 { format!(", {dropped} dropped for want of room") } else { String::new() };
        let waits = if *waiting == 1 { "event waits" } else { "events wait" };
        line("spool", &format!("{waiting} {waits}{dropped} ({folder})"));
        if let Some((says, _)) = spool.problem() {
            line("", &says);
        }
    }
    out
}
