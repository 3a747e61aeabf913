//! `subscope serve`: a hub and its HTTP server. In the foreground until a signal ends it, in the background until nobody needs
//! it, in another command as long as that runs; each also until somebody asks it to leave.

mod background;

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    time::{Duration, Instant},
};

use subscope_collect::spool::{self, Spool};
use subscope_hub::{
    Hub, HubHandle, HubOptions, Live, clock,
    index::{IndexOptions, index, index_texts},
    take_spool,
};
use subscope_model::HubMode;
use subscope_server::{Identity, Patience, ServeError, Server, ServerOptions};
use subscope_store::{Access, OpenError, Sqlite, Texts};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use self::background::Idle;
use super::{
    history,
    target::{limits, projects_folder},
};
use crate::{
    args::ServeArgs,
    context::Context,
    error::{CliError, Kind},
    output, reach,
};

/// Threads that serve: the hub has its own, and answers are short.
const WORKERS: usize = 2;

/// How long tasks may take to end once the server has.
const FAREWELL: Duration = Duration::from_secs(1);

/// How often the spool is looked into: hooks leave something there only where no hub answered in time.
const SPOOL_EVERY: Duration = Duration::from_secs(1);

/// How often the full text is brought up to date while something happens: a search finds what is that old. With thousands
/// of files a look at all of them takes some 60 ms.
const TEXTS_EVERY: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, context: &Context) -> Result<(), CliError> {
    if args.stop {
        reach::stop(&context.data_folder()?)?;
        context.say("the hub has left");
        return Ok(());
    }
    if args.background {
        return in_background(context);
    }
    let hosting = Hosting::prepare(HubMode::Foreground, context)?.map_err(|error| match error {
        OpenError::Locked(_) => history::failed(error)
            .hint("another hub runs: `subscope serve --stop` ends it; --store names another folder"),
        error => history::failed(error),
    })?;
    context.say(&format!("following live sessions below {} (Ctrl-C ends)", hosting.root.display()));
    hosting.run(End::Signal, |url| output::print(&format!("{url}\n")))
}

/// Runs as commands start it. That somebody else is the hub is no failure: whoever started this one asks that one.
fn in_background(context: &Context) -> Result<(), CliError> {
    background::detach();
    let hosting = match Hosting::prepare(HubMode::Background, context)? {
        Ok(hosting) => hosting,
        Err(OpenError::Locked(_)) => return Ok(()),
        Err(error) => return Err(history::failed(error)),
    };
    let (pid, data) = (std::process::id(), hosting.data.clone());
    let outcome = hosting.run(End::Signal, |url| {
        let text = format!("hub {pid} of {} answers on {url} for {}", reach::VERSION, data.display());
        log(&text);
        Ok(())
    });
    log(&format!("hub {pid} leaves"));
    outcome
}

/// Writes a line with the time, which the log of hubs in the background is made of.
fn log(text: &str) {
    output::complain(&format!("{} {text}\n", crate::clock::stamp(clock::now_ms())));
}

/// What ends a hub, besides being asked to leave.
pub(crate) enum End {
    /// SIGINT or SIGTERM.
    Signal,
    /// That the other end is dropped; also a signal, whose number is then left here.
    Command(oneshot::Receiver<()>, Arc<AtomicI32>),
}

/// A hub that is about to begin. It holds the store.
pub(crate) struct Hosting {
    mode: HubMode,
    root: PathBuf,
    data: PathBuf,
    store: Sqlite,
    rules: String,
    past: IndexOptions,
    options: HubOptions,
    server: ServerOptions,
    /// How long it stays when nobody needs it; `None` where its owner ends it.
    idle: Option<Duration>,
    log: PathBuf,
}

impl Hosting {
    /// Takes the store, and takes in what is new.
    pub(crate) fn prepare(mode: HubMode, context: &Context) -> Result<Result<Self, OpenError>, CliError> {
        let root = projects_folder(context);
        let data = context.data_folder()?;
        let mut store = match history::open_rows(Access::Write, context)? {
            Ok(store) => store,
            Err(error) => return Ok(Err(error)),
        };
        let past = history::index_options(vec![root.clone()], context)?;
        let report = index(&mut store, None, &past, &mut |_| {}).map_err(history::failed)?;
        context.note(&format!("{} sessions were new or had changed", report.sessions));
        let (hub, watch) = (&context.settings().hub, &context.settings().watch);
        Ok(Ok(Self {
            mode,
            store,
            rules: history::rules(context)?,
            past,
            options: HubOptions {
                prices: context.prices()?.table.clone(),
                limits: limits(context),
                texts: Some(data.clone()),
            },
            server: ServerOptions {
                listen: hub.listen.value,
                socket: data.join(reach::SOCKET),
                heartbeat: watch.heartbeat.value,
                patience: Patience::default(),
                identity: Identity { version: reach::VERSION, mode },
            },
            idle: (mode == HubMode::Background).then_some(hub.idle.value),
            log: reach::log_file(&data, context),
            root,
            data,
        }))
    }

    /// Serves until the end; `ready` is told where once it answers.
    pub(crate) fn run(
        self,
        end: End,
        ready: impl FnOnce(&str) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let Self { mode, root, data, store, rules, past, options, server, idle, log } = self;
        // Only a hub has a runtime; every other command is done without.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
        let runtime = runtime.map_err(history::failed)?;
        let hub = Hub::start(Box::new(Live::projects(root)?), Box::new(store), options);
        let hub = hub.map_err(history::failed)?;
        let end = runtime.block_on(armed(end))?;
        let server = runtime.block_on(bind(server, mode, &hub))?;
        ready(&server.url())?;
        let (ending, ended) = sync_channel::<()>(1);
        let (leave, left) = oneshot::channel::<()>();
        std::thread::scope(|scope| {
            let (handle, guests, data) = (hub.handle(), server.guests(), data.as_path());
            let mut idle = idle.map(|limit| (Idle::new(limit), log));
            scope.spawn(move || {
                tend(&handle, data, &rules, past, &ended, |hub| {
                    let Some((idle, log)) = &mut idle else { return false };
                    reach::bound_log(log);
                    idle.is_over(hub, &guests)
                });
                drop(leave);
            });
            runtime.block_on(server.run(async {
                tokio::select! {
                    () = end => {}
                    _ = left => {}
                }
            }));
            drop(ending);
        });
        runtime.shutdown_timeout(FAREWELL);
        drop(hub);
        Ok(())
    }
}

/// Listens. A hub that nobody waits for at a certain port takes a free one where its own is taken.
async fn bind(options: ServerOptions, mode: HubMode, hub: &Hub) -> Result<Server, CliError> {
    let mut elsewhere = options.clone();
    elsewhere.listen.set_port(0);
    match Server::bind(options, hub.handle()).await {
        Err(ServeError::Address { .. }) if mode != HubMode::Foreground => {
            Server::bind(elsewhere, hub.handle()).await.map_err(refused)
        }
        bound => bound.map_err(refused),
    }
}

/// Begins to wait for the end: from here on a signal ends a hub in order.
async fn armed(end: End) -> Result<Pin<Box<dyn Future<Output = ()>>>, CliError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(history::failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(history::failed)?;
    let signalled = async move {
        tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
        }
    };
    match end {
        End::Signal => Ok(Box::pin(async move {
            signalled.await;
        })),
        End::Command(ended, number) => Ok(Box::pin(async move {
            tokio::select! {
                signal = signalled => number.store(signal.as_raw_value(), Ordering::Release),
                _ = ended => {}
            }
        })),
    }
}

/// Takes the spool in as it fills, and keeps the full text up to date while something happens, until the server ends or the hub
/// is to leave.
fn tend(
    hub: &HubHandle,
    data: &Path,
    rules: &str,
    mut options: IndexOptions,
    ended: &Receiver<()>,
    mut is_to_leave: impl FnMut(&HubHandle) -> bool,
) {
    let spool = spool::folder(data);
    let mut indexed: Option<(u64, Instant)> = None;
    loop {
        if let Ok(waiting) = Spool::open(&spool) {
            waiting.sweep(clock::now_ms());
            // What waits on is taken in the next round.
            let _ =
                take_spool(&waiting, hub, &mut |problem| output::complain(&format!("warning: {problem}\n")));
        }
        // Where the hub does not answer nothing has happened.
        let seq = background::figures(hub).map_or(0, |figures| figures.seq);
        let is_due = |(known, at): (u64, Instant)| known != seq && at.elapsed() >= TEXTS_EVERY;
        if indexed.is_none_or(is_due) {
            options.now_ms = clock::now_ms();
            // Words that could not be read are read in the next round; nothing waits for them.
            if let Err(error) = texts(data, rules, &options) {
                output::complain(&format!("warning: the full text is not up to date: {error}\n"));
            }
            indexed = Some((seq, clock::tick()));
        }
        if is_to_leave(hub) {
            return;
        }
        match ended.recv_timeout(SPOOL_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn texts(data: &Path, rules: &str, options: &IndexOptions) -> anyhow::Result<u64> {
    let store = Sqlite::open(data, Access::Read, rules, 0)?;
    let mut texts = Texts::open(data, Access::Write)?;
    Ok(index_texts(&store, &mut texts, options)?)
}

fn refused(error: ServeError) -> CliError {
    let hint = match &error {
        ServeError::NotLoopback(_) => "use 127.0.0.1 or [::1]",
        ServeError::Address { .. } => "--listen 127.0.0.1:0 takes a free port",
        ServeError::Folder { .. } | ServeError::Socket { .. } => {
            "--store or SUBSCOPE_DATA_DIR names another folder"
        }
        ServeError::Taken { .. } => "end it, or name another folder with --store",
    };
    CliError::caused(Kind::Failed, error).hint(hint)
}
