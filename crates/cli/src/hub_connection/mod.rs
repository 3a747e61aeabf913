//! Connects commands to the hub over its socket, starting one if needed; [`Backend`] answers queries with or without a
//! hub.
//!
//! The socket is in the data directory. A command that finds no hub starts a detached one and waits until it answers.
//! If several are started at once, the store's lock lets one live and all commands connect to it. An older hub in the
//! background is asked to exit first. With `SUBSCOPE_NO_AUTOSTART` no hub is started.

pub(crate) mod address;
mod backend;
mod log;
mod start;
mod stored_sessions;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_client::{Address, Client, ClientError, Fit, connect_socket};
use subscope_hub::clock;
use subscope_model::{Health, HubMode};
use subscope_program::CliError;
use subscope_store::SqliteStore;

use self::start::HubStarter;
pub(crate) use self::{
    backend::{Backend, LAST, MAX_PREFIX_MATCHES, Needs, one_of, session_in},
    log::{path as log_path, rotate as rotate_log},
};

use crate::{args::value::format_duration, context::Context};

/// File name of the hub's socket in the data directory.
pub(crate) const SOCKET: &str = "hub.sock";
/// Version compared in handshakes.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Environment variable that keeps commands from starting a hub.
const NO_AUTOSTART: &str = "SUBSCOPE_NO_AUTOSTART";

/// Time limit of the health request that opens a connection. The server and the event loop answer it within
/// milliseconds, even under load; other answers may take longer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for a started hub to answer.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for an answer if another process holds the store: a starting hub answers within it, `subscope index`
/// never does.
const LOCKED_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit for a hub to exit after it was asked to: open requests get some seconds to finish.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time that a command that needs the store for itself waits for a hub that starts, on a busy machine, or for a short
/// command to end.
const STORE_TIMEOUT: Duration = Duration::from_secs(3);
/// Polling interval while waiting. A hub starts within about 20 ms.
const POLL: Duration = Duration::from_millis(3);
/// Delay before another hub is started after one that found the store locked: the lock's holder may have been exiting.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Why no hub can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoHub {
    /// None runs, and none may be started.
    #[error("no hub runs")]
    NotWanted,
    /// Another process holds the store and does not answer.
    #[error("another process writes the store and answers nothing")]
    Locked,
    /// A hub accepts connections but does not answer, and holds the store.
    #[error("{0}")]
    Unresponsive(String),
    /// A hub cannot be started or is incompatible.
    #[error("{0}")]
    Failed(String),
}

/// Whether a command may start a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartPolicy {
    /// If none runs, unless the environment forbids it.
    IfNone,
    /// Never.
    Never,
}

/// Connects to the hub of a data directory.
pub(crate) struct HubConnection {
    data: PathBuf,
    starter: Option<HubStarter>,
    /// Whether there was no store before.
    is_first: bool,
}

impl HubConnection {
    pub(crate) fn new(start: StartPolicy, context: &Context) -> Result<Self, CliError> {
        let data = context.data_folder()?;
        let may_start = start == StartPolicy::IfNone && context.environment.get(NO_AUTOSTART).is_none();
        let starter = if may_start { Some(HubStarter::new(&data, context)) } else { None };
        let is_first = !data.exists();
        Ok(Self { data, starter, is_first })
    }

    /// Says that a hub was started, if one was: the first time on a machine, later if the command is verbose.
    pub(crate) fn report_start(&self, context: &Context) {
        if !self.starter.as_ref().is_some_and(HubStarter::has_started) {
            return;
        }
        let idle = format_duration(context.settings().hub.idle);
        let text = format!(
            "started a background hub (it exits after {idle} without a client; `subscope serve --stop` ends it, \
             {NO_AUTOSTART}=1 starts none)"
        );
        if self.is_first { context.info(&text) } else { context.debug(&text) }
    }

    /// Whether it starts a hub if none runs.
    pub(crate) fn may_start(&self) -> bool {
        self.starter.is_some()
    }

    /// Whether a process listens on the hub's socket, even one that does not answer. Never blocks.
    pub(crate) fn is_listened_to(&self) -> bool {
        // A full accept queue also means that a process listens.
        let connected = connect_socket(&self.data.join(SOCKET), Duration::ZERO);
        connected.map_or_else(|error| error.kind() == io::ErrorKind::TimedOut, |_| true)
    }

    /// Connects to the hub; starts one first if needed. A background hub of an older version is replaced.
    pub(crate) fn hub(&mut self) -> Result<Client, NoHub> {
        let Some((client, health)) = self.greet()? else { return self.start() };
        let fit = Fit::of(VERSION, &health);
        if fit.is_older && health.mode == HubMode::Background && self.starter.is_some() {
            // An error is ignored: the hub may be exiting by itself.
            let _ = stop_and_wait(client, &self.data);
            return self.start();
        }
        if fit.can_talk {
            return Ok(client);
        }
        let Health { version, pid, .. } = &health;
        let which =
            if version.is_empty() { "another version".to_owned() } else { format!("version {version}") };
        Err(NoHub::Failed(format!(
            "the hub that runs (process {pid}) is of {which}, this is {VERSION}: end it with `subscope serve --stop` of its version"
        )))
    }

    /// Requests the health of the hub; `None` if no hub answers.
    fn greet(&self) -> Result<Option<(Client, Health)>, NoHub> {
        match greet(&self.data) {
            Ok(greeted) => Ok(Some(greeted)),
            // A closed connection means that the hub is exiting, or has no room: treated as no hub.
            Err(ClientError::Unreachable { .. } | ClientError::Broken(_)) => Ok(None),
            Err(error @ ClientError::Unresponsive { .. }) => {
                Err(NoHub::Unresponsive(unresponsive_message(&error)))
            }
            Err(error) => Err(NoHub::Failed(error.to_string())),
        }
    }

    fn start(&mut self) -> Result<Client, NoHub> {
        let Some(starter) = &mut self.starter else { return Err(NoHub::NotWanted) };
        starter.start()?;
        let (began, mut started) = (clock::tick(), clock::tick());
        let mut is_locked = false;
        loop {
            let greeted = match self.greet() {
                // A hub that has just started may be too busy to answer in time.
                Err(NoHub::Unresponsive(_)) if began.elapsed() < START_TIMEOUT => None,
                greeted => greeted?,
            };
            if let Some((client, health)) = greeted {
                // It may have been started by another command, of another version.
                if Fit::of(VERSION, &health).can_talk {
                    return Ok(client);
                }
                return Err(NoHub::Failed(format!("the hub that began is of version {}", health.version)));
            }
            let Some(starter) = &mut self.starter else { return Err(NoHub::NotWanted) };
            match starter.exit() {
                // It ends with success if another process holds the store.
                Some(status) if status.success() => is_locked = true,
                Some(_) => {
                    let why = log::last_error(&starter.log).map(|why| format!(": {why}")).unwrap_or_default();
                    let log = starter.log.display();
                    return Err(NoHub::Failed(format!(
                        "the hub that was started has ended{why} (see {log})"
                    )));
                }
                None => {}
            }
            if is_locked && began.elapsed() > LOCKED_TIMEOUT {
                return Err(NoHub::Locked);
            }
            if is_locked && started.elapsed() > RETRY_AFTER {
                starter.start()?;
                started = clock::tick();
            }
            if began.elapsed() > START_TIMEOUT {
                return Err(NoHub::Failed(format!("the hub does not answer: see {}", starter.log.display())));
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Connects to the hub of a data directory and requests its health, within [`HEALTH_TIMEOUT`].
///
/// # Errors
/// If no hub answers in time.
pub(crate) fn greet(data: &Path) -> Result<(Client, Health), ClientError> {
    Client::greet(Address::Socket(data.join(SOCKET)), HEALTH_TIMEOUT)
}

/// Formats the error of a hub that does not answer, with a remedy.
fn unresponsive_message(error: &ClientError) -> String {
    let remedy = if let ClientError::Unresponsive { pid: Some(pid), .. } = error {
        format!("`kill -CONT {pid}` continues it if it was paused, `kill -9 {pid}` ends it if it hangs")
    } else {
        "end its process if it hangs".to_owned()
    };
    format!("{error} within {} s; {remedy}", HEALTH_TIMEOUT.as_secs())
}

/// Stops the running hub, however it was started.
///
/// # Errors
/// If none runs, it does not answer, or it does not exit.
pub(crate) fn stop(data: &Path) -> Result<(), CliError> {
    let (client, _) = greet(data).map_err(|error| match error {
        ClientError::Unreachable { .. } => CliError::failed("no hub runs"),
        ClientError::Unresponsive { .. } => CliError::failed(unresponsive_message(&error)),
        ClientError::Untrusted(..)
        | ClientError::Broken(_)
        | ClientError::Refused { .. }
        | ClientError::Garbled(_)
        | ClientError::Other(_) => error.into(),
    })?;
    stop_and_wait(client, data)
}

/// Asks a hub to exit and waits until nothing listens on its socket and its store is unlocked.
pub(crate) fn stop_and_wait(mut client: Client, data: &Path) -> Result<(), CliError> {
    client.drain()?;
    drop(client);
    let began = clock::tick();
    while Client::connect(Address::Socket(data.join(SOCKET))).is_ok() || SqliteStore::is_written(data) {
        if began.elapsed() > EXIT_TIMEOUT {
            return Err(CliError::failed("the hub was asked to leave and has not"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Connects to the hub that was started in the background; `None` if none runs. Other hubs stay.
///
/// # Errors
/// If it does not answer.
pub(crate) fn background_hub(data: &Path) -> Result<Option<(Client, Health)>, CliError> {
    match greet(data) {
        Ok((client, health)) if health.mode == HubMode::Background => Ok(Some((client, health))),
        Err(error @ ClientError::Unresponsive { .. }) => Err(CliError::failed(unresponsive_message(&error))),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Stops a hub that was started in the background, so that this process can write its store. Other hubs stay. One that is
/// just starting does not answer yet: while something writes the store, it is waited for, for [`STORE_TIMEOUT`].
///
/// # Errors
/// If it does not answer or does not exit.
pub(crate) fn stop_background_hub(data: &Path) -> Result<(), CliError> {
    let began = clock::tick();
    loop {
        if let Some((client, _)) = background_hub(data)? {
            return stop_and_wait(client, data);
        }
        let is_other_hub = Client::connect(Address::Socket(data.join(SOCKET))).is_ok();
        if is_other_hub || !SqliteStore::is_written(data) || began.elapsed() > STORE_TIMEOUT {
            return Ok(());
        }
        std::thread::sleep(RETRY_AFTER);
    }
}
