//! Everything live on this machine: by the hub; where there is none and none is to be started, by one in this process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
        mpsc::{TrySendError, sync_channel},
    },
    thread::JoinHandle,
};

use subscope_client::{Client, ClientError, LiveFeed};
use subscope_hub::{FileTailDriver, Hub};
use subscope_model::HubMode;
use subscope_render::{Charset, safe};
use subscope_store::OpenError;
use tokio::sync::oneshot;

use super::{Followed, in_process};
use crate::{
    command::{
        history,
        serve::{End, Hosting},
        target::roots,
    },
    context::{Chattiness, Context},
    error::{CliError, Kind},
    hub_connection::{HubConnection, NoHub, Start},
    output,
};

/// What has to live as long as a feed.
pub(in crate::command) enum Keeps {
    /// Nothing: the hub lives by itself.
    Nothing,
    /// A hub of this process that nobody else asks.
    Hub(#[expect(dead_code, reason = "dropping it ends the hub")] Hub),
    /// A hub of this process that answers on the socket.
    Host(#[expect(dead_code, reason = "dropping it ends the hub")] Host),
}

/// What is to be done before a signal ends this process.
pub(in crate::command) type Ends = &'static (dyn Fn() + Sync);

/// A hub on a thread of this process; ends when dropped.
pub(in crate::command) struct Host {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.end.take());
        // How it ended was told when it did.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Follows every live session. Where the hub is this process, `ends` is called before a signal ends it.
pub(in crate::command) fn everything(ends: Ends, context: &Context) -> Result<Followed, CliError> {
    let mut reach = HubConnection::new(Start::IfNone, context)?;
    match reach.hub() {
        Ok(client) => {
            return Ok(Followed { feed: Box::new(feed(client, reach, context)?), _keeps: Keeps::Nothing });
        }
        Err(NoHub::NotWanted | NoHub::Locked) => {}
        Err(NoHub::Unresponsive(why)) => {
            context.warn(&format!("{why}; going on without it, nothing is kept"));
            return in_process(Box::new(FileTailDriver::roots(roots(context))?), context);
        }
        Err(NoHub::Failed(why)) => context.warn(&format!("{why}; going on without it")),
    }
    match Hosting::prepare(HubMode::Command, None, context)? {
        Ok(hosting) => host(hosting, ends, context),
        Err(OpenError::Locked(_)) => {
            context.say(
                "another process writes the store and answers nothing: going on without it, nothing is kept",
            );
            in_process(Box::new(FileTailDriver::roots(roots(context))?), context)
        }
        Err(error) => Err(history::failed(error)),
    }
}

/// Hosts a hub in this process, and follows it as any other.
fn host(hosting: Hosting, ends: Ends, context: &Context) -> Result<Followed, CliError> {
    let host = start(hosting, ends, context.style(None).charset())?;
    let mut reach = HubConnection::new(Start::Never, context)?;
    let client = reach.hub().map_err(|nobody| CliError::new(Kind::Failed, words(&nobody)))?;
    Ok(Followed { feed: Box::new(feed(client, reach, context)?), _keeps: Keeps::Host(host) })
}

/// Hosts a hub on a thread of this process; returns once it answers.
pub(in crate::command) fn start(hosting: Hosting, ends: Ends, charset: Charset) -> Result<Host, CliError> {
    let (end, ended) = oneshot::channel();
    let signal = Arc::new(AtomicI32::new(0));
    let (ready, is_ready) = sync_channel::<Result<(), CliError>>(1);
    let build = std::thread::Builder::new().name("serve".to_owned());
    let thread = build.spawn(move || {
        let told = ready.clone();
        let outcome = hosting.run(End::Command(ended, Arc::clone(&signal)), |_| {
            // Whoever started it waits for this.
            let _ = told.send(Ok(()));
            Ok(())
        });
        // What a signal ends, ends as a whole, once all is kept.
        match signal.load(Ordering::Acquire) {
            0 => {}
            number => {
                ends();
                std::process::exit(128 + number)
            }
        }
        let Err(error) = outcome else { return };
        if let Err(TrySendError::Full(unheard) | TrySendError::Disconnected(unheard)) =
            ready.try_send(Err(error))
            && let Err(error) = unheard
        {
            output::complain(&error.render(charset));
        }
    });
    let thread = thread.map_err(history::failed)?;
    let host = Host { end: Some(end), thread: Some(thread) };
    is_ready.recv().map_err(history::failed)??;
    Ok(host)
}

/// The hub's feed. Where the hub dies it is started again, and the feed goes on where it was.
fn feed(client: Client, mut reach: HubConnection, context: &Context) -> Result<LiveFeed, CliError> {
    let mut first = Some(client);
    let (speaks, charset) = (context.chattiness >= Chattiness::Normal, context.style(None).charset());
    let mut outage: Option<NoHub> = None;
    let connect = move || {
        if let Some(client) = first.take() {
            return Ok(client);
        }
        match reach.hub() {
            Ok(client) => {
                outage = None;
                Ok(client)
            }
            Err(nobody) => {
                // Once for each reason: it is tried again several times a second.
                if speaks && outage.as_ref() != Some(&nobody) {
                    complain(&words(&nobody), charset);
                }
                outage = Some(nobody.clone());
                Err(ClientError::Other(words(&nobody)))
            }
        }
    };
    LiveFeed::open(Box::new(connect)).map_err(history::failed)
}

fn complain(words: &str, charset: Charset) {
    output::complain(&format!("warning: {}\n", safe::line(words, charset)));
}

fn words(nobody: &NoHub) -> String {
    match nobody {
        NoHub::NotWanted => "the hub has ended; waiting for another".to_owned(),
        NoHub::Locked => "another process writes the store and answers nothing; waiting for it".to_owned(),
        NoHub::Unresponsive(why) | NoHub::Failed(why) => format!("{why}; trying again"),
    }
}
