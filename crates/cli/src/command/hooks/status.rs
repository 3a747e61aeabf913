//! `subscope hooks status`: shows installed hooks, whether a hub answers, and the number of spooled events.

use std::{
    fmt::Write,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    thread,
    time::Duration,
};

use serde::Serialize;
use subscope_collect::spool::{self, Spool};
use subscope_render::{Charset, safe};

use super::{Handler, SettingsFile};
use crate::{
    args::{ScopeChoice, StatusArgs},
    context::Context,
    error::CliError,
    hub_connection::SOCKET,
    output,
};

const SCHEMA: &str = "subscope.hooks/1";
/// Time limit for connecting to the hub: about that of a hook.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Output of `--json` (subscope.hooks/1).
#[derive(Debug, Serialize)]
struct HooksReport {
    schema: &'static str,
    scopes: Vec<SettingsFileStatus>,
    hub: Option<HubStatus>,
    spool: Option<SpoolStatus>,
}

/// Status of one settings file.
#[derive(Debug, Serialize)]
struct SettingsFileStatus {
    scope: &'static str,
    path: String,
    exists: bool,
    /// Whether it has any of our hooks; `null` if the file cannot be read.
    installed: Option<bool>,
    /// Whether the file sets `disableAllHooks`.
    disabled: bool,
    hooks: Vec<HookStatus>,
    problem: Option<String>,
}

/// One of our hooks.
#[derive(Debug, Serialize)]
struct HookStatus {
    event: String,
    kind: &'static str,
    /// The command, or the URL.
    target: String,
}

/// Status of the hub.
#[derive(Debug, Serialize)]
struct HubStatus {
    socket: String,
    answers: bool,
}

/// Status of the spool.
#[derive(Debug, Serialize)]
struct SpoolStatus {
    folder: String,
    /// Waiting events.
    waiting: usize,
    /// Events dropped because the spool was full.
    dropped: u64,
}

/// Shows the settings files, the hub and the spool. A file that cannot be read is reported in its row and makes the
/// command fail.
pub(super) fn run(args: StatusArgs, context: &Context) -> Result<(), CliError> {
    let all = [ScopeChoice::User, ScopeChoice::Project, ScopeChoice::Local];
    let choices = all.into_iter().filter(|choice| args.scope.is_none_or(|asked| asked == *choice));
    let mut first_error = None;
    let mut scopes = Vec::new();
    for choice in choices {
        let (row, error) = row(&SettingsFile::find(choice, &context.environment)?);
        scopes.push(row);
        first_error = first_error.or(error);
    }
    let data = context.environment.data_folder(context.store_option.as_deref());
    let report = HooksReport {
        schema: SCHEMA,
        scopes,
        hub: data.as_deref().map(hub),
        spool: data.as_deref().map(waiting),
    };
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report, context.style(None).charset()))?;
    }
    first_error.map_or(Ok(()), Err)
}

fn row(settings_file: &SettingsFile) -> (SettingsFileStatus, Option<CliError>) {
    let (exists, disabled, hooks, error) = match settings_file.read() {
        Ok((text, document)) => (text.is_some(), document.disables_hooks(), document.own_hooks(), None),
        Err(error) => (settings_file.target.exists(), false, Vec::new(), Some(error)),
    };
    let hook = |(event, handler): (String, Handler)| match handler {
        Handler::Command(target) => HookStatus { event, kind: "command", target },
        Handler::Http(target) => HookStatus { event, kind: "http", target },
    };
    let row = SettingsFileStatus {
        scope: name(settings_file.choice),
        path: settings_file.path.to_string_lossy().into_owned(),
        exists,
        disabled,
        installed: error.is_none().then_some(!hooks.is_empty()),
        hooks: hooks.into_iter().map(hook).collect(),
        problem: error.as_ref().map(ToString::to_string),
    };
    (row, error)
}

fn name(choice: ScopeChoice) -> &'static str {
    match choice {
        ScopeChoice::User => "user",
        ScopeChoice::Project => "project",
        ScopeChoice::Local => "local",
    }
}

fn hub(data: &Path) -> HubStatus {
    let socket = data.join(SOCKET);
    HubStatus { answers: answers(socket.clone()), socket: socket.to_string_lossy().into_owned() }
}

/// Whether a process accepts connections on a socket; sends nothing. On its own thread, since connecting to a hung hub
/// can block for ever.
fn answers(socket: PathBuf) -> bool {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || sender.send(UnixStream::connect(socket).is_ok()));
    receiver.recv_timeout(CONNECT_TIMEOUT).unwrap_or(false)
}

fn waiting(data: &Path) -> SpoolStatus {
    let folder = spool::folder(data);
    // A spool that cannot be opened belongs to another user.
    let spool = Spool::open(&folder).ok();
    SpoolStatus {
        folder: folder.to_string_lossy().into_owned(),
        waiting: spool.as_ref().map_or(0, Spool::len),
        dropped: spool.as_ref().map_or(0, Spool::dropped),
    }
}

fn text(report: &HooksReport, charset: Charset) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let mut line = |name: &str, says: &str| {
        let _ = writeln!(out, "{name:<8} {}", safe::line(says, charset));
    };
    for row in &report.scopes {
        let says = match (&row.problem, row.exists, row.hooks.as_slice()) {
            (Some(problem), _, _) => problem.clone(),
            (None, false, _) => format!("not installed ({} does not exist)", row.path),
            (None, true, []) => format!("not installed ({})", row.path),
            (None, true, hooks) => format!("{} events ({})", hooks.len(), row.path),
        };
        let disabled = if row.disabled { "; disableAllHooks: none runs" } else { "" };
        line(row.scope, &format!("{says}{disabled}"));
        let mut targets: Vec<&str> = row.hooks.iter().map(|hook| hook.target.as_str()).collect();
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            let events = row.hooks.iter().filter(|hook| hook.target == target);
            let events: Vec<&str> = events.map(|hook| hook.event.as_str()).collect();
            line("", &format!("{target}: {}", events.join(", ")));
        }
    }
    if let Some(HubStatus { socket, answers }) = &report.hub {
        let says = if *answers { "takes events" } else { "none: events wait in the spool" };
        line("hub", &format!("{says} ({socket})"));
    }
    if let Some(SpoolStatus { folder, waiting, dropped }) = &report.spool {
        let dropped =
            if *dropped > 0 { format!(", {dropped} dropped for want of room") } else { String::new() };
        line("spool", &format!("{waiting} events wait{dropped} ({folder})"));
    }
    out
}
