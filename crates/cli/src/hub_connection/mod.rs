//! The hub, as commands reach it: over its socket, started if need be; and the one way in which they ask.
//!
//! A hub is looked for where the folder for data says. Who finds none starts one, detached, and waits until it answers;
//! of several that are started at once the store's lock lets one live, and everybody connects to that. A hub of an older
//! version that runs in the background is asked to leave first. With `SUBSCOPE_NO_AUTOSTART` none is started.

mod backend;
mod log;
mod start;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_client::{Address, Client, ClientError, Fit, Own, connect_socket};
use subscope_hub::clock;
use subscope_model::{Health, HubMode};
use subscope_store::SqliteStore;

use self::start::{Ended, Starter};
pub(crate) use self::{
    backend::{Backend, LAST, NAMESAKES, Needs, one_of, session_in},
    log::{bound as bound_log, file as log_file},
};
use crate::{
    context::Context,
    error::{CliError, Kind},
};

/// The hub's socket in the folder for data.
pub(crate) const SOCKET: &str = "hub.sock";
/// The version that handshakes compare.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The variable that keeps commands from starting a hub.
const NO_AUTOSTART: &str = "SUBSCOPE_NO_AUTOSTART";

/// How long the first sign of life of a hub may take. Both its server and the thread that owns its sessions answer within some
/// milliseconds, whatever they do meanwhile; answers themselves may take longer.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// How long a hub that was started may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long an answer is waited for where somebody else holds the store: a hub that begins answers within that, and an
/// index never does.
const LOCKED_LIMIT: Duration = Duration::from_millis(500);
/// How long a hub that was asked to leave may take: its open requests have some seconds to end.
const LEAVE_LIMIT: Duration = Duration::from_secs(20);
/// How often is looked again meanwhile. A hub is there within some 20 ms.
const POLL: Duration = Duration::from_millis(3);
/// How long after one that found the store taken another hub is started: the other may have been about to leave.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Why there is no hub to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoHub {
    /// None runs, and none was to be started.
    NotWanted,
    /// Somebody else writes the store, and answers nothing.
    Locked,
    /// One accepts connections and does not answer, in words for people. It holds the store.
    Unresponsive(String),
    /// One cannot be started or talked to, in words for people.
    Failed(String),
}

/// Whether a hub may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// If there is none, unless the environment forbids it.
    IfNone,
    /// Never.
    Never,
}

/// Reaches the hub of a folder for data.
pub(crate) struct HubConnection {
    data: PathBuf,
    starter: Option<Starter>,
}

impl HubConnection {
    pub(crate) fn new(start: Start, context: &Context) -> Result<Self, CliError> {
        let data = context.data_folder()?;
        let may_start = start == Start::IfNone && context.environment.get(NO_AUTOSTART).is_none();
        let starter = if may_start { Some(Starter::new(&data, context)) } else { None };
        Ok(Self { data, starter })
    }

    /// Whether it starts one where there is none.
    pub(crate) fn may_start(&self) -> bool {
        self.starter.is_some()
    }

    /// Whether somebody listens on the hub's socket; not, whether it answers. Never waits.
    pub(crate) fn is_listened_to(&self) -> bool {
        // Where there is no room for another connection somebody listens, too.
        let connected = connect_socket(&self.data.join(SOCKET), Duration::ZERO);
        connected.map_or_else(|error| error.kind() == io::ErrorKind::TimedOut, |_| true)
    }

    /// Connects to the hub, after starting one if need be.
    pub(crate) fn hub(&mut self) -> Result<Client, NoHub> {
        let Some((client, health)) = self.greet()? else { return self.start() };
        let fit = Fit::of(Own::of(VERSION), &health);
        if fit.is_older && health.mode == HubMode::Background && self.starter.is_some() {
            // One that leaves by itself meanwhile is as good.
            let _ = drain(client, &self.data);
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

    /// Asks who answers on the socket; `None` where nobody does.
    fn greet(&self) -> Result<Option<(Client, Health)>, NoHub> {
        match greet(&self.data) {
            Ok(greeted) => Ok(Some(greeted)),
            // One that breaks off is about to leave, or full to the brim: it is as good as none.
            Err(ClientError::Unreachable { .. } | ClientError::Broken(_)) => Ok(None),
            Err(error @ ClientError::Unresponsive { .. }) => Err(NoHub::Unresponsive(unresponsive(&error))),
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
                // One that has just begun is busy with that.
                Err(NoHub::Unresponsive(_)) if began.elapsed() < START_LIMIT => None,
                greeted => greeted?,
            };
            if let Some((client, health)) = greeted {
                // Whoever was faster has started it: of its version nothing is known either.
                if Fit::of(Own::of(VERSION), &health).can_talk {
                    return Ok(client);
                }
                return Err(NoHub::Failed(format!("the hub that began is of version {}", health.version)));
            }
            let Some(starter) = &mut self.starter else { return Err(NoHub::NotWanted) };
            match starter.ended() {
                Some(Ended::Locked) => is_locked = true,
                Some(Ended::Failed) => {
                    return Err(NoHub::Failed(format!(
                        "the hub that was started has ended: {}",
                        starter.why()
                    )));
                }
                None => {}
            }
            if is_locked && began.elapsed() > LOCKED_LIMIT {
                return Err(NoHub::Locked);
            }
            if is_locked && started.elapsed() > AGAIN_AFTER {
                starter.start()?;
                started = clock::tick();
            }
            if began.elapsed() > START_LIMIT {
                return Err(NoHub::Failed(format!("the hub does not answer: {}", starter.why())));
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Asks the hub of a folder for data how it is, and waits no longer than [`SIGN_OF_LIFE`] for that.
pub(crate) fn greet(data: &Path) -> Result<(Client, Health), ClientError> {
    Client::greet(Address::Socket(data.join(SOCKET)), SIGN_OF_LIFE)
}

/// Says of a hub that does not answer what can be done about it.
fn unresponsive(error: &ClientError) -> String {
    let cure = match error {
        ClientError::Unresponsive { pid: Some(pid), .. } => {
            format!(
                "`kill -CONT {pid}` continues it where it was stopped, `kill -9 {pid}` ends it where it hangs"
            )
        }
        _ => "end its process where it hangs".to_owned(),
    };
    format!("{error} within {} s; {cure}", SIGN_OF_LIFE.as_secs())
}

/// Ends the hub that runs; whoever started it.
///
/// # Errors
/// Where none runs, it does not answer, or it does not end.
pub(crate) fn stop(data: &Path) -> Result<(), CliError> {
    let (client, _) = greet(data).map_err(|error| match error {
        ClientError::Unreachable { .. } => CliError::new(Kind::Failed, "no hub runs"),
        ClientError::Unresponsive { .. } => CliError::new(Kind::Failed, unresponsive(&error)),
        error => CliError::caused(Kind::Failed, error),
    })?;
    drain(client, data)
}

/// Asks a hub to leave, and waits until it has: until nobody answers and the store can be written.
fn drain(mut client: Client, data: &Path) -> Result<(), CliError> {
    client.drain().map_err(|error| CliError::caused(Kind::Failed, error))?;
    drop(client);
    let began = clock::tick();
    while Client::connect(Address::Socket(data.join(SOCKET))).is_ok() || SqliteStore::is_written(data) {
        if began.elapsed() > LEAVE_LIMIT {
            return Err(CliError::new(Kind::Failed, "the hub was asked to leave and has not"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Lets a hub that a command started leave, so that its store can be written by this process. Others stay.
///
/// # Errors
/// Where it does not answer, or does not leave.
pub(crate) fn make_room(data: &Path) -> Result<(), CliError> {
    match greet(data) {
        Ok((client, Health { mode: HubMode::Background, .. })) => drain(client, data),
        Err(error @ ClientError::Unresponsive { .. }) => {
            Err(CliError::new(Kind::Failed, unresponsive(&error)))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
