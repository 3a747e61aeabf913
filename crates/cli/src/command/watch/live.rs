//! Follows all live sessions: through the hub, or through a hub in this process if none runs and none may be started.

use std::{
    sync::{
        atomic::AtomicI32,
        mpsc::{TrySendError, sync_channel},
    },
    thread::JoinHandle,
};

use subscope_client::{Client, ClientError, LiveFeed};
use subscope_hub::FileTailDriver;
use subscope_model::HubMode;
use subscope_render::{Charset, safe};
use subscope_store::OpenError;
use tokio::sync::oneshot;

use super::{FollowedFeed, in_process};
use crate::{
    command::{serve::PreparedHub, target::roots},
    hub_connection::{HubConnection, NoHub, StartPolicy},
    prelude::*,
};

/// Cleanup to run before a signal ends this process.
pub(in crate::command) type OnSignal = &'static (dyn Fn() + Sync);

/// A hub with its server on a thread of this process; stops when dropped.
pub(in crate::command) struct HubThread {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for HubThread {
    fn drop(&mut self) {
        drop(self.end.take());
        // Its error was reported by the thread.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Follows all live sessions. If the hub runs in this process, `on_signal` is called before a signal ends the process.
pub(in crate::command) fn follow_all(
    on_signal: OnSignal,
    context: &Context,
) -> Result<FollowedFeed, CliError> {
    let mut connection = HubConnection::new(StartPolicy::IfNone, context)?;
    match connection.hub() {
        Ok(client) => {
            connection.report_start(context);
            return Ok(FollowedFeed { feed: Box::new(feed(client, connection, context)?), hub: None });
        }
        Err(NoHub::NotWanted | NoHub::Locked) => {}
        Err(NoHub::Unresponsive(why)) => {
            context.warn(&format!("{why}; going on without it, nothing is kept"));
            return in_process(Box::new(FileTailDriver::roots(roots(context))?), context);
        }
        Err(NoHub::Failed(why)) => context.warn(&format!("{why}; going on without it")),
    }
    match start_here(on_signal, context)? {
        Ok((connection, ConnectedHub { client, thread })) => {
            let feed = feed(client, connection, context)?;
            Ok(FollowedFeed { feed: Box::new(feed), hub: Some(Box::new(thread)) })
        }
        Err(OpenError::Locked(_)) => {
            context.info(
                "another process writes the store and answers nothing: going on without it, nothing is kept",
            );
            in_process(Box::new(FileTailDriver::roots(roots(context))?), context)
        }
        Err(error) => Err(error.into()),
    }
}

/// A client of a hub.
pub(in crate::command) struct ConnectedHub {
    pub(in crate::command) client: Client,
    /// The hub, if it runs in this process; `None` for that of another.
    pub(in crate::command) thread: Option<HubThread>,
}

/// Connects to the hub; if none runs and none may be started, to one in this process.
///
/// # Errors
/// If no hub answers, or another process holds the store.
pub(in crate::command) fn connect(context: &Context) -> Result<ConnectedHub, CliError> {
    let mut connection = HubConnection::new(StartPolicy::IfNone, context)?;
    match connection.hub() {
        Ok(client) => {
            connection.report_start(context);
            Ok(ConnectedHub { client, thread: None })
        }
        Err(NoHub::NotWanted | NoHub::Locked) => Ok(start_here(&|| (), context)??.1),
        Err(no_hub @ (NoHub::Unresponsive(_) | NoHub::Failed(_))) => Err(CliError::failed(no_hub)),
    }
}

/// Starts a hub in this process and connects to it like any client. The inner error is that of opening the store.
fn start_here(
    on_signal: OnSignal,
    context: &Context,
) -> Result<Result<(HubConnection, ConnectedHub), OpenError>, CliError> {
    let prepared = match PreparedHub::prepare(HubMode::Command, None, context)? {
        Ok(prepared) => prepared,
        Err(error) => return Ok(Err(error)),
    };
    let thread = Some(start(prepared, on_signal, context.style(None).charset())?);
    let mut connection = HubConnection::new(StartPolicy::Never, context)?;
    let client = connection.hub().map_err(|no_hub| CliError::failed(describe_no_hub(&no_hub)))?;
    Ok(Ok((connection, ConnectedHub { client, thread })))
}

/// Starts a hub on a thread of this process; returns once it answers.
pub(in crate::command) fn start(
    prepared: PreparedHub,
    on_signal: OnSignal,
    charset: Charset,
) -> Result<HubThread, CliError> {
    let (end, ended) = oneshot::channel();
    let (ready, is_ready) = sync_channel::<Result<(), CliError>>(1);
    let build = std::thread::Builder::new().name("serve".to_owned());
    let thread = build.spawn(move || {
        let (on_ready, signal) = (ready.clone(), AtomicI32::new(0));
        let outcome = prepared.run(ended, &signal, |_| {
            // The starting thread waits for this message.
            let _ = on_ready.send(Ok(()));
            Ok(())
        });
        // A signal ends the whole process, after the hub has committed.
        let number = signal.into_inner();
        if number != 0 {
            on_signal();
            std::process::exit(128 + number)
        }
        let Err(error) = outcome else { return };
        if let Err(TrySendError::Full(unsent) | TrySendError::Disconnected(unsent)) =
            ready.try_send(Err(error))
            && let Err(error) = unsent
        {
            output::complain(&error.render(charset));
        }
    });
    let thread = thread?;
    let hub_thread = HubThread { end: Some(end), thread: Some(thread) };
    is_ready.recv()??;
    Ok(hub_thread)
}

/// Opens the hub's feed. If the hub dies it is restarted, and the feed resumes where it was.
fn feed(client: Client, mut connection: HubConnection, context: &Context) -> Result<LiveFeed, CliError> {
    let mut first = Some(client);
    let (speaks, charset) = (context.verbosity >= Verbosity::Normal, context.style(None).charset());
    let mut outage: Option<NoHub> = None;
    let connect = move || {
        if let Some(client) = first.take() {
            return Ok(client);
        }
        match connection.hub() {
            Ok(client) => {
                outage = None;
                Ok(client)
            }
            Err(no_hub) => {
                // Warn once per reason: the connection is retried several times a second.
                let described = describe_no_hub(&no_hub);
                if speaks && outage.as_ref() != Some(&no_hub) {
                    output::complain(&format!("warning: {}\n", safe::line(&described, charset)));
                }
                outage = Some(no_hub);
                Err(ClientError::Other(described))
            }
        }
    };
    Ok(LiveFeed::open(Box::new(connect))?)
}

fn describe_no_hub(no_hub: &NoHub) -> String {
    match no_hub {
        NoHub::NotWanted => "the hub has ended; waiting for another".to_owned(),
        NoHub::Locked => format!("{no_hub}; waiting for it"),
        NoHub::Unresponsive(_) | NoHub::Failed(_) => format!("{no_hub}; trying again"),
    }
}
