//! `subscope serve`: a hub and its HTTP server. In the foreground until a signal ends it, in the background until nobody needs
//! it, in another command as long as that runs; each also until somebody asks it to leave.

mod background;
mod history_service;

use std::{
    net::SocketAddr,
    ops::ControlFlow,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    time::Duration,
};

use subscope_collect::spool::{self, Spool};
use subscope_harness::Root;
use subscope_hub::{
    FileTailDriver, Hub, HubHandle, HubOptions, TextsAt, clock, drain_spool,
    index::{IndexError, IndexOptions, ProgressCallback, index_beside, index_texts},
};
use subscope_model::HubMode;
use subscope_server::{
    Identity, PEERS_ARE_KNOWN, Patience, ServeError, Server, ServerOptions, Token, TokenError,
};
use subscope_store::{Access, LedgerError, Location, OpenError, Sqlite, Texts};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use self::background::Idle;
use super::{
    history,
    hook::Breaker,
    target::{limits, root_folders, roots, shown},
};
use crate::{
    allocator::begin_frugal,
    args::ServeArgs,
    browser,
    config::KEEP_DAYS,
    context::Context,
    error::{CliError, Kind},
    hub_connection, output,
};

/// Threads that serve: the hub has its own, and answers are short.
const WORKERS: usize = 2;

/// How long tasks may take to end once the server has.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long a store that somebody else writes is waited for.
const LOCKED: Duration = Duration::from_secs(1);

/// How often the spool is looked into: hooks leave something there only where no hub answered in time.
const SPOOL_EVERY: Duration = Duration::from_secs(1);

/// How often the full text is brought up to date while something happens: a search finds what is that old. With thousands
/// of files a look at all of them takes some 60 ms.
const TEXTS_EVERY: Duration = Duration::from_secs(10);

/// How much reading of the past gives way, of 19: it still goes on beside something that takes all it can get.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// The token in the folder for data, where the system does not tell whose a caller is.
const TOKEN: &str = "token";

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, context: &Context) -> Result<(), CliError> {
    if args.stop {
        hub_connection::stop(&context.data_folder()?)?;
        context.say("the hub has left");
        return Ok(());
    }
    begin_frugal();
    if args.background {
        return in_background(context);
    }
    let mut hosting = match Hosting::prepare(HubMode::Foreground, args.token_file.as_deref(), context)? {
        Ok(hosting) => hosting,
        Err(error @ OpenError::Locked(_)) => {
            if args.open
                && let Some(page) = running(context)?
            {
                return show_running(&page, context);
            }
            let hint = "another hub runs: `subscope serve --stop` ends it; --store names another folder";
            return Err(history::failed(error).hint(hint));
        }
        Err(error) => return Err(history::failed(error)),
    };
    hosting.options.stops_stalled = args.stall_kill;
    context.say(&format!("following live sessions below {} (Ctrl-C ends)", shown(&hosting.roots)));
    if !hosting.server.listen.ip().is_loopback() {
        context.say("what is said on this address can be read on its way, the token too: use a network that you trust");
    }
    hosting.run(End::Signal, |server| {
        let (url, page) = (server.url(), server.page().map_err(history::failed)?);
        output::print(&format!("{url}\n"))?;
        if page != url {
            context.say(&format!("in one browser, once: {page}"));
        }
        if args.open {
            show(&page, context);
        }
        Ok(())
    })
}

/// Shows the page of the hub that runs, whoever started it.
fn show_running(page: &str, context: &Context) -> Result<(), CliError> {
    context.say("a hub runs already: its page is shown");
    show(page, context);
    output::print(&format!("{page}\n"))
}

/// That there is no browser is no failure: the address stands on stdout.
fn show(url: &str, context: &Context) {
    if let Err(error) = browser::show(url) {
        context.warn(&format!("no browser can be started ({error}): open the address in one"));
    }
}

/// Where the page of the hub that runs is; `None` where none answers.
fn running(context: &Context) -> Result<Option<String>, CliError> {
    let Ok((mut hub, health)) = hub_connection::greet(&context.data_folder()?) else { return Ok(None) };
    // An older hub knows its address alone.
    Ok(Some(hub.page().unwrap_or_else(|_| health.url.to_string())))
}

/// Runs as commands start it. That somebody else is the hub is no failure: whoever started this one asks that one.
fn in_background(context: &Context) -> Result<(), CliError> {
    background::detach();
    let hosting = match Hosting::prepare(HubMode::Background, None, context)? {
        Ok(hosting) => hosting,
        Err(OpenError::Locked(_)) => return Ok(()),
        Err(error) => return Err(history::failed(error)),
    };
    let (pid, data) = (std::process::id(), hosting.data.clone());
    let outcome = hosting.run(End::Signal, |server| {
        let (url, data) = (server.url(), data.display());
        let text = format!("hub {pid} of {} answers on {url} for {data}", hub_connection::VERSION);
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
    roots: Vec<Root>,
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
    /// Takes the store. `token_file` is whose token callers by TCP have to show.
    pub(crate) fn prepare(
        mode: HubMode,
        token_file: Option<&Path>,
        context: &Context,
    ) -> Result<Result<Self, OpenError>, CliError> {
        let data = context.data_folder()?;
        let began = clock::tick();
        let mut store = loop {
            match history::open_rows(Access::Write, context)? {
                Ok(store) => break store,
                // Commands that write it themselves are soon done.
                Err(OpenError::Locked(_)) if mode != HubMode::Background && began.elapsed() < LOCKED => {
                    std::thread::sleep(LOCKED / 20);
                }
                Err(error) => return Ok(Err(error)),
            }
        };
        let past = history::index_options(root_folders(context), context)?;
        let past = IndexOptions { workers: Some(readers()), ..past };
        let forgotten = history::index::retired(&mut store, None, &past, context)?;
        if forgotten > 0 {
            context
                .note(&format!("{forgotten} sessions were older than {KEEP_DAYS} says, and are forgotten"));
        }
        let (hub, watch) = (&context.settings().hub, &context.settings().watch);
        Ok(Ok(Self {
            mode,
            store,
            rules: history::rules(context)?,
            options: HubOptions {
                prices: past.prices.clone(),
                limits: limits(context),
                texts: Some(TextsAt { folder: data.clone(), archive: past.archive.clone() }),
                ..HubOptions::default()
            },
            past,
            server: ServerOptions {
                listen: hub.listen.value,
                socket: data.join(hub_connection::SOCKET),
                heartbeat: watch.heartbeat.value,
                patience: Patience::default(),
                token: token(token_file, hub.listen.value, &data)?,
                identity: Identity { version: hub_connection::VERSION, mode },
                teller: None,
            },
            idle: (mode == HubMode::Background).then_some(hub.idle.value),
            log: hub_connection::log_file(&data, context),
            roots: roots(context),
            data,
        }))
    }

    /// Serves until the end; `ready` is told where once it answers.
    pub(crate) fn run(
        self,
        end: End,
        ready: impl FnOnce(&Server) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let Self { mode, roots, data, store, rules, past, options, mut server, idle, log } = self;
        let place = store.location().clone();
        let (asks, asked) = sync_channel(history_service::QUEUE);
        server.teller = Some(history_service::teller(asks.clone()));
        let sources = history_service::Sources {
            roots: roots.clone(),
            data: data.clone(),
            rules: rules.clone(),
            options: past.clone(),
        };
        // Only a hub has a runtime; every other command is done without.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
        let runtime = runtime.map_err(history::failed)?;
        let hub = Hub::start(Box::new(FileTailDriver::roots(roots)?), Box::new(store), options);
        let hub = hub.map_err(history::failed)?;
        // Whoever asks before that is read knows that there is more.
        hub.handle().reads_past(true);
        let end = runtime.block_on(armed(end))?;
        let server = runtime.block_on(bind(server, mode, &hub))?;
        ready(&server)?;
        let (ending, ended) = sync_channel::<()>(1);
        let (past_ending, past_ended) = sync_channel::<()>(1);
        let (leave, left) = oneshot::channel::<()>();
        std::thread::scope(|scope| {
            let (handle, guests, data, place) = (hub.handle(), server.guests(), data.as_path(), &place);
            let mut idle = idle.map(|limit| (Idle::new(limit), log));
            scope.spawn(move || {
                take_in(&handle, data, place, &ended, |hub| {
                    let Some((idle, log)) = &mut idle else { return false };
                    hub_connection::bound_log(log);
                    idle.is_over(hub, &guests)
                });
                drop(leave);
            });
            scope.spawn(move || {
                give_way();
                sources.answer(&asked);
            });
            let reading = hub.handle();
            scope.spawn(move || BackgroundIndexer { hub: reading, place, options: past }.tend(&past_ended));
            runtime.block_on(server.run(async {
                tokio::select! {
                    () = end => {}
                    _ = left => {}
                }
            }));
            drop((ending, past_ending));
            // Connections that are still open may hold what asks: it ends all the same.
            let _ = asks.send(None);
        });
        runtime.shutdown_timeout(FAREWELL);
        drop(hub);
        if place.is_in_place() {
            return Ok(());
        }
        let gone = LedgerError::Gone(data);
        Err(history::failed(gone).hint("what was spooled since then waits for the next hub"))
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

/// The token of callers by TCP: that of the file that was named, else none where the system tells whose a caller is.
fn token(file: Option<&Path>, listen: SocketAddr, data: &Path) -> Result<Option<Token>, CliError> {
    let wrong = |error: TokenError| CliError::caused(Kind::Failed, error);
    if let Some(path) = file {
        return Token::of_file(path).map(Some).map_err(wrong);
    }
    if !listen.ip().is_loopback() {
        return Err(refused(ServeError::NeedsToken(listen)));
    }
    if PEERS_ARE_KNOWN {
        return Ok(None);
    }
    let unable = |error: std::io::Error| CliError::caused(Kind::Failed, error);
    std::fs::create_dir_all(data).map_err(unable)?;
    Token::of_file(&data.join(TOKEN)).map(Some).map_err(wrong)
}

/// How many threads read what stood on disk before: half of the cores, since agents work on the same machine.
fn readers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

/// Lets other threads and processes go first, from this thread on and those that it starts.
fn give_way() {
    // Elsewhere than on Linux this would be the whole process: then half of the cores is all that is given way.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// Waits for the given time. Returns whether the server has ended meanwhile.
fn has_ended(ended: &Receiver<()>, wait: Duration) -> bool {
    !matches!(ended.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
}

/// Takes the spool in as it fills, until the server ends or the hub is to leave: also where its store is gone, so that the
/// next hub can take the spool in.
fn take_in(
    hub: &HubHandle,
    data: &Path,
    place: &Location,
    ended: &Receiver<()>,
    mut is_to_leave: impl FnMut(&HubHandle) -> bool,
) {
    let (spool, breaker) = (spool::folder(data), Breaker::of(data));
    while place.is_in_place() {
        // Asked first: a hook spools before it trips the breaker, so that its payload is among those that are taken now.
        let is_tripped = breaker.is_tripped();
        if let Ok(waiting) = Spool::open(&spool) {
            waiting.sweep(clock::now_ms());
            let taken =
                drain_spool(&waiting, hub, &mut |problem| output::complain(&format!("warning: {problem}\n")));
            // What waits on is taken in the next round.
            if is_tripped && taken.is_ok() && background::figures(hub).is_some() {
                breaker.reset();
            }
        }
        if is_to_leave(hub) || has_ended(ended, SPOOL_EVERY) {
            return;
        }
    }
}

/// What stands on disk beside what is live.
struct BackgroundIndexer<'a> {
    hub: HubHandle,
    place: &'a Location,
    options: IndexOptions,
}

impl BackgroundIndexer<'_> {
    /// Takes in what was written while nobody followed it, then keeps the full text up to date while something happens, until
    /// the server ends.
    fn tend(mut self, ended: &Receiver<()>) {
        give_way();
        let (mut indexed, mut is_behind) = (None, true);
        loop {
            // Where the hub does not answer nothing has happened.
            let seq = background::figures(&self.hub).map_or(0, |figures| figures.seq);
            if is_behind || indexed != Some(seq) {
                self.options.now_ms = clock::now_ms();
                let mut told = |_| match has_ended(ended, Duration::ZERO) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
                match self.read(is_behind, &mut told) {
                    Ok(()) => (indexed, is_behind) = (Some(seq), false),
                    Err(error) if matches!(error.downcast_ref(), Some(IndexError::Stopped)) => return,
                    // What could not be read or kept is tried again in the next round; nothing waits for it.
                    Err(error) => {
                        output::complain(&format!("warning: past sessions are not up to date: {error}\n"));
                    }
                }
            }
            if has_ended(ended, TEXTS_EVERY) {
                return;
            }
        }
    }

    fn read(&self, is_behind: bool, told: ProgressCallback<'_>) -> anyhow::Result<()> {
        if !self.place.is_in_place() {
            // Another hub's, or nobody's.
            return Ok(());
        }
        let store = self.place.open()?;
        let mut texts = Texts::open(self.place.folder(), Access::Write)?;
        if is_behind {
            index_beside(&self.hub, &store, &mut texts, &self.options, told)?;
            self.hub.reads_past(false);
            return Ok(());
        }
        Ok(index_texts(&store, &mut texts, &self.options, told)?)
    }
}

fn refused(error: ServeError) -> CliError {
    let hint = match &error {
        ServeError::NeedsToken(_) => "name a file with --token-file, or use 127.0.0.1",
        ServeError::Address { .. } => "--listen 127.0.0.1:0 takes a free port",
        ServeError::Folder { .. } | ServeError::Socket { .. } => {
            "--store or SUBSCOPE_DATA_DIR names another folder"
        }
        ServeError::Taken { .. } => "end it, or name another folder with --store",
    };
    let kind = if matches!(error, ServeError::NeedsToken(_)) { Kind::Usage } else { Kind::Failed };
    CliError::caused(kind, error).hint(hint)
}
