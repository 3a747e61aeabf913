//! `subscope forward`: forwards this machine's sessions to the server of a team, in the foreground; and the thread of a hub
//! that does the same.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use subscope_client::{Remote, forward::Backoff};
use subscope_hub::clock;
use subscope_model::{ContentLevel, Sending};
use subscope_render::text::plural;
use subscope_store::{Access, OpenError};

use super::history;
use crate::{
    config::Layer,
    forward::{
        Exclusions, ForwardError, ForwardOptions, ForwardProgress, ProjectNames, Round, SendingSource,
        SessionForwarder, machine_name,
    },
    prelude::*,
    team_server::{self, TokenSource},
};

/// Interval of checks of the store: an ended session is sent within it.
const POLL: Duration = Duration::from_secs(2);
/// How often `forward` brings the store up to date where no hub does.
const REFRESH_POLLS: u32 = 5;
/// How long a hub waits after the server refused its token, or another process forwards.
const RETRY: Duration = Duration::from_secs(15);
/// Failures after which `--once` gives up.
const MAX_FAILURES: u32 = 3;

fn forward_error(error: ForwardError) -> CliError {
    if matches!(&error, ForwardError::Open(OpenError::Locked(_))) {
        return CliError::failed("another process forwards the sessions of this data folder already")
            .hint("a hub does where the settings have `[team] url`: `subscope doctor` says how far it is");
    }
    let is_missing = matches!(&error, ForwardError::Open(OpenError::Missing(_)));
    let failed = CliError::caused(ErrorKind::Failed, error);
    if is_missing { failed.hint("`subscope index` reads this machine's sessions into one") } else { failed }
}

/// Returns what is forwarded under the settings.
pub(crate) fn options(
    level: ContentLevel,
    machine: Option<&str>,
    all: bool,
    context: &Context,
) -> Result<ForwardOptions, CliError> {
    let settings = &context.settings().team;
    Ok(ForwardOptions {
        data: context.data_folder()?,
        rules: history::rows_fingerprint(context)?,
        archive: history::archive(context)?,
        machine: machine.map_or_else(|| machine_name(settings), Into::into),
        time_zone: Some(context.zone()).filter(|zone| zone.is_named()).map(|zone| zone.name().into()),
        level,
        names: ProjectNames::new(settings),
        exclusions: Exclusions::new(settings, &context.environment),
        all,
    })
}

pub(crate) fn run(args: &ForwardArgs, context: &Context) -> Result<(), CliError> {
    let settings = &context.settings().team;
    let level = args.content.map_or(settings.content, ContentLevel::from);
    if context.config.locks("team.content") && level > settings.content {
        let message = format!("this machine's organization allows {} at most", settings.content.as_str());
        return Err(CliError::usage(message));
    }
    let url = args.to.clone().or_else(|| settings.url.clone());
    let url = url
        .ok_or_else(|| CliError::usage("nothing says where to forward to").hint("--to URL, or `[team] url`"));
    let options = options(level, args.machine.as_deref(), args.all, context)?;
    if args.dry_run {
        return print(options, url.as_deref().unwrap_or("dry run"), context);
    }
    let server = team_server::server(&url?, context)?;
    let (machine, word) = (options.machine.clone(), level.as_str());
    context
        .info(&format!("forwarding {word} of {machine} to {} (--dry-run prints what leaves)", server.url()));
    refresh(args.once, context);
    let mut forwarder =
        SessionForwarder::open(options, server.url(), Access::Write).map_err(forward_error)?;
    if args.once {
        return once(&mut forwarder, &server, context);
    }
    let mut polls = 0_u32;
    follow(
        &mut forwarder,
        &server,
        |report| tell(report, context),
        |wait| {
            thread::sleep(wait);
            polls += 1;
            if polls.is_multiple_of(REFRESH_POLLS) {
                refresh(true, context);
            }
            true
        },
    )
}

/// Brings the store up to date: by a hub, which is started unless `is_alone`, else in this process. A failure is no
/// reason not to forward existing sessions.
fn refresh(is_alone: bool, context: &Context) {
    let needs = if is_alone { Needs::RowsNoStart } else { Needs::Rows };
    if let Err(error) = Backend::open(needs, context) {
        context.debug(&format!(
            "the store is not brought up to date: {}",
            error.render(context.style(None).charset())
        ));
    }
}

fn print(options: ForwardOptions, url: &str, context: &Context) -> Result<(), CliError> {
    refresh(true, context);
    let (level, machine) = (options.level.as_str(), options.machine.clone());
    let url = url.trim_end_matches('/');
    let mut forwarder = SessionForwarder::open_to_print(options, url).map_err(forward_error)?;
    let mut count = 0;
    output::to_stdout(|out| {
        let printed = forwarder.print(out).map_err(|error| match error {
            // The reader may have closed the pipe.
            ForwardError::Io(error) => error,
            other @ (ForwardError::Open(_) | ForwardError::Store(_) | ForwardError::Forbidden(_)) => {
                std::io::Error::other(other)
            }
        });
        count = printed?;
        Ok(())
    })?;
    context
        .info(&format!("{} of {machine} would leave as {level}; nothing was sent", plural(count, "session")));
    Ok(())
}

/// Sends all that is due.
fn once(forwarder: &mut SessionForwarder, server: &Remote, context: &Context) -> Result<(), CliError> {
    let (mut sent, mut refused, mut failures) = (0, 0, 0);
    let mut backoff = Backoff::default();
    loop {
        let round = forwarder.round(server).map_err(forward_error)?;
        sent += round.sent;
        refused += round.refused.len();
        tell_refused(&round, context);
        if round.sent > 0 {
            (failures, backoff) = (0, Backoff::default());
        }
        match round.failure {
            None => break,
            Some((error, after)) => {
                failures += 1;
                if failures >= MAX_FAILURES {
                    let waiting = round.waiting;
                    context
                        .info(&format!("{} sent, {waiting} wait for the next time", plural(sent, "session")));
                    return Err(CliError::caused(ErrorKind::Failed, error));
                }
                context.debug(&format!("{error}; trying again"));
                thread::sleep(backoff.next(after));
            }
        }
    }
    context.info(&format!("{} sent", plural(sent, "session")));
    match refused {
        0 => Ok(()),
        count => Err(CliError::failed(format!("{count} sessions were not taken by the server"))),
    }
}

/// What a follower reports.
enum ForwardReport<'r> {
    Sent(&'r Round),
    /// The server did not answer, and is tried again after this wait.
    Failed(String, Duration),
}

/// Sends what is due as it comes, until `wait` returns false.
fn follow(
    forwarder: &mut SessionForwarder,
    server: &Remote,
    mut report: impl FnMut(ForwardReport<'_>),
    mut wait: impl FnMut(Duration) -> bool,
) -> Result<(), CliError> {
    let mut backoff = Backoff::default();
    loop {
        let mut pause = POLL;
        if forwarder.has_news().map_err(forward_error)? {
            let round = forwarder.round(server).map_err(forward_error)?;
            report(ForwardReport::Sent(&round));
            match round.failure {
                None => backoff.reset(),
                Some((error, after)) => {
                    if round.sent > 0 {
                        backoff.reset();
                    }
                    pause = backoff.next(after);
                    report(ForwardReport::Failed(error.to_string(), pause));
                }
            }
        }
        if !wait(pause) {
            return Ok(());
        }
    }
}

fn tell(report: ForwardReport<'_>, context: &Context) {
    match report {
        ForwardReport::Sent(round) => {
            tell_refused(round, context);
            if round.sent > 0 {
                context.debug(&format!("{} sessions sent, {} wait", round.sent, round.waiting));
            }
        }
        ForwardReport::Failed(error, wait) => {
            context.warn(&format!("{error}; trying again in {:.0} s", wait.as_secs_f64()));
        }
    }
}

fn tell_refused(round: &Round, context: &Context) {
    for refusal in &round.refused {
        let session = refusal.id.as_deref().unwrap_or("a session");
        context.warn(&format!("{session} was not taken: {}", refusal.why));
    }
}

/// A hub's own forwarding: to the server of the settings.
pub(crate) struct HubForwarding {
    options: ForwardOptions,
    url: String,
    token: TokenSource,
    progress: ForwardProgress,
}

/// Whether the settings let a hub forward to the server that they name. A server that only an environment variable
/// names is for queries: a hub that another command starts forwards nothing to it.
fn is_on(context: &Context) -> bool {
    let settings = &context.settings().team;
    let is_of_file = matches!(context.config.origin("team.url").layer, Layer::System | Layer::User);
    settings.url.is_some() && is_of_file && settings.forward
}

/// Returns what the page of a hub shows of forwarding.
pub(crate) fn sending(context: &Context, progress: &ForwardProgress) -> Result<SendingSource, CliError> {
    let settings = &context.settings().team;
    let shown = Sending {
        url: settings.url.as_deref().map(|url| url.trim_end_matches('/').into()),
        is_on: is_on(context),
        is_level_locked: context.config.locks("team.content"),
        exclude: settings.exclude.clone(),
        ..Sending::default()
    };
    Ok(SendingSource::new(options(settings.content, None, false, context)?, shown, progress.clone()))
}

impl HubForwarding {
    /// Returns what a hub forwards; `None` if the settings name no server, or no token for it, which is logged.
    pub(crate) fn of(context: &Context, progress: &ForwardProgress) -> Option<Self> {
        let settings = &context.settings().team;
        let url = settings.url.as_deref().filter(|_| is_on(context))?;
        let made = TokenSource::of(url, context).and_then(|token| {
            let options = options(settings.content, None, false, context)?;
            Ok(Self { options, url: url.to_owned(), token, progress: progress.clone() })
        });
        let logged = |error: CliError| {
            let text = error.render(subscope_render::Charset::Ascii);
            tracing::warn!("nothing is forwarded to the team: {}", text.trim_end());
            progress.failed(text.trim_end());
        };
        made.map_err(logged).ok()
    }

    /// Forwards until the sender of `ended` is dropped.
    pub(crate) fn run(self, ended: &Receiver<()>) {
        let Self { options, url, token, progress } = self;
        let level = options.level.as_str();
        let wait = |wait: Duration| matches!(ended.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
        let report = |report: ForwardReport<'_>| match report {
            ForwardReport::Sent(round) => {
                for refusal in &round.refused {
                    tracing::warn!(session = refusal.id, "not taken by the team's server: {}", refusal.why);
                }
                if round.failure.is_none() {
                    progress.succeeded((round.sent > 0).then(clock::now_ms));
                }
                if round.sent > 0 {
                    tracing::debug!(sent = round.sent, waiting = round.waiting, "forwarded");
                }
            }
            ForwardReport::Failed(error, wait) => {
                if progress.failed(&error) {
                    tracing::info!(?wait, "forwarding waits: {error}");
                }
            }
        };
        tracing::info!("forwarding {level} to {url}");
        loop {
            // The token is read again each time: it may have been replaced.
            let outcome = token.server(&url).and_then(|server| {
                let mut forwarder = SessionForwarder::open(options.clone(), server.url(), Access::Write)
                    .map_err(forward_error)?;
                follow(&mut forwarder, &server, report, wait)
            });
            let Err(error) = outcome else { return };
            let text = error.render(subscope_render::Charset::Ascii);
            if progress.failed(text.trim_end()) {
                tracing::warn!("forwarding waits: {}", text.trim_end());
            }
            if !wait(RETRY) {
                return;
            }
        }
    }
}
