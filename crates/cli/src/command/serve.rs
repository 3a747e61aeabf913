//! `subscope serve`: runs a hub and its HTTP server. In the foreground until a signal, in the background until idle, in
//! another command as long as that runs; each also until a client asks it to exit.

mod background;
mod background_index;
mod forwarding;
mod history_service;
pub(super) mod remotes;
mod stdio;

use std::{
    collections::BTreeSet,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::Duration,
};

use subscope_client::push::Receiver as SpanReceiver;
use subscope_collect::spool::{self, Spool};
use subscope_harness::{Harness, harnesses};
use subscope_hub::{
    AskError, FileTailDriver, FullTextLocation, Hub, HubHandle, HubOptions, ReplyCallback, SpoolDrain, clock,
    drain_spool,
};
use subscope_model::{HubMode, ReadingProgress, SETUP_SCHEMA, SessionId, Setup};
use subscope_platform::{Termination, leave_terminal, lower_priority};
use subscope_program::start_logging;
use subscope_run::{HarnessHome, watch_processes};
use subscope_server::{
    HubIdentity, IDENTIFIES_TCP_PEERS, ListenError, SendingReader, Server, ServerOptions, SetupReader,
    TerminalJumper, Timeouts, Token,
};
use subscope_store::{Access, Location, OpenError, SqliteStore, StoreError};
use tokio::sync::oneshot;

use self::{
    background::IdleDetector, forwarding::SpanForwarder, history_service::HistoryService, remotes::Remotes,
};
use super::{
    demo,
    forward::{self, HubForwarding},
    harness_homes, history,
    hook::Breaker,
    hooks,
    target::{root_folders, roots, shown},
};
use crate::{
    allocator::restart_with_immediate_purge,
    browser,
    config::{KEEP_DAYS, Layer},
    forward::ForwardProgress,
    hub_connection::{self, address},
    prelude::*,
};

/// Threads of the HTTP server: the hub has its own, and requests are short.
const WORKERS: usize = 2;

/// Time limit for tasks to finish after the server has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Time to wait for a store that another process writes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Time within which hubs in the background are replaced, as long as commands start others.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of draining the spool: hooks write to it only if no hub answered in time.
const SPOOL_INTERVAL: Duration = Duration::from_secs(1);

/// File of the token in the data directory, on systems that cannot identify a caller's user.
const TOKEN_FILE: &str = "token";

pub(crate) fn run(args: &ServeArgs, context: &Context) -> Result<(), CliError> {
    if args.stop {
        hub_connection::stop(&context.data_folder()?)?;
        context.info("the hub has left");
        return Ok(());
    }
    if args.stdio {
        return stdio::run(context);
    }
    restart_with_immediate_purge();
    if args.background {
        start_logging(tracing::Level::INFO, |why| context.warn(why));
        return run_in_background(context);
    }
    start_logging(tracing::Level::WARN, |why| context.warn(why));
    let data = context.data_folder()?;
    let (prepared, replaced) = prepare_in_place_of_background_hub(args, &data, context)?;
    let mut prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error @ OpenError::Locked(_)) => {
            if args.open
                && let Some(page) = running_page_url(context)?
            {
                context.info("a hub runs already: its page is shown");
                open_page(&page, context);
                return output::print(&format!("{page}\n"));
            }
            let hint = "another hub runs: `subscope serve --open` shows its page, `subscope serve --stop` ends it; --store names another folder";
            return Err(CliError::from(error).hint(hint));
        }
        Err(error) => return Err(error.into()),
    };
    let is_chosen = context.settings().hub.listen.port() != 0
        && context.config.origin("hub.listen").layer != Layer::Default;
    let listened = replaced.filter(|_| !is_chosen);
    prepared.server.listen = listened.unwrap_or(prepared.server.listen);
    prepared.options.stops_stalled = args.stall_kill;
    if let Some(url) = &args.otlp_to {
        let receiver = SpanReceiver::new(url, args.otlp_headers.clone());
        let receiver = receiver.map_err(|error| CliError::caused(ErrorKind::Usage, error))?;
        context.info(&format!("agents that have ended are forwarded to {}", receiver.url()));
        prepared.forward(receiver)?;
    }
    context.info(&format!("following live sessions below {} (Ctrl-C ends)", shown(&prepared.history.roots)));
    if !prepared.server.listen.ip().is_loopback() {
        context.info("what is said on this address can be read on its way, the token too: use a network that you trust");
    }
    let (_running, ended) = oneshot::channel();
    prepared.run(ended, &AtomicI32::new(0), |server| {
        let (url, page, public_page) = (server.url(), server.page()?, server.public_page()?);
        let is_own = args.listen.is_some() || listened.is_some();
        let remembered = address::remember(&data, listen_address(&url).filter(|_| is_own));
        if let Err(error) = remembered {
            context.warn(&format!("a hub in the background will not find this address again: {error}"));
        }
        output::print(&format!("{url}\n"))?;
        if page != url {
            context.info(&format!("in one browser, once: {page}"));
        }
        if let Some(page) = public_page {
            context.info(&format!("in one browser behind the port forward, once: {page}"));
        }
        if args.open {
            open_page(&page, context);
        }
        Ok(())
    })
}

/// Prepares a hub that replaces one in the background, and returns the address of the replaced one. Open pages reconnect to
/// the new hub there. Commands may start another one before this process locks the store: that one is replaced, too.
fn prepare_in_place_of_background_hub(
    args: &ServeArgs,
    data: &Path,
    context: &Context,
) -> Result<(Result<PreparedHub, OpenError>, Option<SocketAddr>), CliError> {
    let (began, mut listened) = (clock::tick(), None);
    loop {
        if let Some((hub, health)) = hub_connection::background_hub(data)? {
            if listened.is_none() {
                context.info("takes the place of the hub in the background");
            }
            listened = listened.or_else(|| listen_address(&health.url));
            hub_connection::stop_and_wait(hub, data)?;
        }
        let prepared = PreparedHub::prepare(HubMode::Foreground, args.token_file.as_deref(), context)?;
        let is_late = matches!(prepared, Err(OpenError::Locked(_)))
            && began.elapsed() < REPLACE_TIMEOUT
            && hub_connection::background_hub(data)?.is_some();
        if !is_late {
            return Ok((prepared, listened));
        }
    }
}

/// Returns the address of a hub's URL on the loopback.
fn listen_address(url: &str) -> Option<SocketAddr> {
    url.strip_prefix("http://")?.trim_end_matches('/').parse().ok()
}

/// Opens a page. A missing browser is only a warning: the URL was printed on stdout.
fn open_page(url: &str, context: &Context) {
    if let Err(error) = browser::open(url) {
        context.warn(&format!("no browser can be started ({error}): open the address in one"));
    }
}

/// Returns the URL of the running hub's page; `None` if no hub answers.
fn running_page_url(context: &Context) -> Result<Option<String>, CliError> {
    let Ok((mut hub, health)) = hub_connection::greet(&context.data_folder()?) else { return Ok(None) };
    // An older hub has no page URL with a code.
    Ok(Some(hub.page().unwrap_or_else(|_| health.url.to_string())))
}

/// Runs a background hub. If another process holds the store this one exits with success: the command that started it
/// connects to the other.
fn run_in_background(context: &Context) -> Result<(), CliError> {
    leave_terminal();
    let prepared = match PreparedHub::prepare(HubMode::Background, None, context)? {
        Ok(prepared) => prepared,
        Err(OpenError::Locked(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (pid, data) = (std::process::id(), prepared.history.data.clone());
    let (_running, ended) = oneshot::channel();
    let outcome = prepared.run(ended, &AtomicI32::new(0), |server| {
        let (url, data) = (server.url(), data.display());
        tracing::info!("hub {pid} of {} answers on {url} for {data}", hub_connection::VERSION);
        Ok(())
    });
    tracing::info!("hub {pid} leaves");
    outcome
}

/// A hub that is ready to start and holds the store's lock.
pub(crate) struct PreparedHub {
    store: SqliteStore,
    history: HistoryService,
    options: HubOptions,
    server: ServerOptions,
    /// Idle timeout and log of a background hub.
    idle: Option<(Duration, PathBuf)>,
    /// Harnesses whose processes are watched.
    homes: Vec<HarnessHome>,
    /// What is forwarded to a team's server.
    forwarding: Option<HubForwarding>,
    /// Where spans are forwarded to.
    span_forwarder: Option<SpanForwarder>,
    /// Other machines whose sessions are shown.
    remotes: Remotes,
}

impl PreparedHub {
    /// Opens the store for writing and prepares all options. `token_file` has the token that TCP clients must send. The
    /// inner error is that of opening the store.
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
                // Commands that write the store themselves finish soon.
                Err(OpenError::Locked(_))
                    if mode != HubMode::Background && began.elapsed() < LOCK_TIMEOUT =>
                {
                    thread::sleep(LOCK_TIMEOUT / 20);
                }
                Err(error) => return Ok(Err(error)),
            }
        };
        let mut index_options = history::index_options(root_folders(context), context)?;
        // Agents work on the same machine: half of the cores.
        index_options.workers =
            Some(thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)));
        let forgotten = history::index::remove_expired(&mut store, None, &index_options, context)?;
        if forgotten > 0 {
            context
                .debug(&format!("{forgotten} sessions were older than {KEEP_DAYS} says, and are forgotten"));
        }
        let (hub, watch) = (&context.settings().hub, &context.settings().watch);
        let public = hub.public_names().map_err(|error| CliError::caused(ErrorKind::Usage, error))?;
        let progress = ForwardProgress::default();
        let remotes = Remotes::new(match mode {
            HubMode::Foreground | HubMode::Background => &context.settings().remote,
            // It ends with its command.
            HubMode::Command => &[],
        });
        Ok(Ok(Self {
            store,
            options: HubOptions {
                texts: Some(FullTextLocation {
                    folder: data.clone(),
                    archive: index_options.archive.clone(),
                }),
                ..context.hub_options()?
            },
            server: ServerOptions {
                listen: hub.listen,
                socket: data.join(hub_connection::SOCKET),
                heartbeat: watch.heartbeat,
                timeouts: Timeouts::default(),
                token: load_token(token_file, hub.listen, !public.is_empty(), &data)?,
                public,
                identity: HubIdentity { version: hub_connection::VERSION, mode },
                session_reader: None,
                indexer: None,
                setup: Some(setup_reader(context)),
                sending: Some(sending_reader(context, &progress)?),
                jumper: Some(terminal_jumper(context)),
                takes_answers: context.settings().answers.enabled,
                demo: Some(history_service::demo(&index_options)),
                forwarding: None,
                remotes: Some(Arc::new(remotes.states.reader())),
            },
            span_forwarder: None,
            remotes,
            idle: (mode == HubMode::Background).then(|| (hub.idle, hub_connection::log_path(&data, context))),
            homes: harness_homes::homes(context),
            forwarding: match mode {
                HubMode::Foreground | HubMode::Background => HubForwarding::of(context, &progress),
                // It ends with its command.
                HubMode::Command => None,
            },
            history: HistoryService {
                roots: roots(context),
                rules: history::rows_fingerprint(context)?,
                options: index_options,
                data,
            },
        }))
    }

    /// Forwards the spans of agents that have ended to a receiver.
    fn forward(&mut self, receiver: SpanReceiver) -> Result<(), CliError> {
        let failed = |error| CliError::because("cannot open the queue of spans", error);
        let forwarder = SpanForwarder::open(receiver, &self.history.data).map_err(failed)?;
        self.server.forwarding = Some(Arc::new(forwarder.reader()));
        self.span_forwarder = Some(forwarder);
        Ok(())
    }

    /// Serves until a client asks it to stop, the sender of `ended` is dropped, or SIGINT or SIGTERM arrives, whose
    /// number is stored in `signal`. Calls `ready` once it answers.
    pub(crate) fn run(
        self,
        ended: oneshot::Receiver<()>,
        signal: &AtomicI32,
        ready: impl FnOnce(&Server) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let Self { store, history, options, mut server, idle, homes, forwarding, span_forwarder, remotes } =
            self;
        let location = store.location().clone();
        let (requests, queue) = sync_channel(history_service::MAX_REQUESTS);
        server.session_reader = Some(history_service::session_reader(requests.clone()));
        let (index_requests, index_queue) = sync_channel(background_index::MAX_REQUESTS);
        // Only a hub needs an async runtime; other commands run without.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(WORKERS).enable_all().build()?;
        let driver = FileTailDriver::roots(history.roots.clone())?
            .without(store.forgotten_files()?)
            .knowing(store.sources()?);
        let hub = Hub::start(Box::new(driver), Box::new(store), options)?;
        // Clients that query before the history is indexed learn that it is incomplete.
        hub.handle().reads_past(Some(ReadingProgress::default()));
        server.indexer = Some(background_index::indexer(hub.handle(), index_requests.clone()));
        let stopped = runtime.block_on(stop_requested(ended, signal))?;
        let server = runtime.block_on(bind(server, &history.data, &hub))?;
        let remotes = remotes.start(&hub.handle(), &location);
        let span_forwarding = span_forwarder.map(|forwarder| forwarder.start(&hub.handle(), history.clone()));
        ready(&server)?;
        let (ending, ended) = sync_channel::<()>(1);
        let (indexer_ending, indexer_ended) = sync_channel::<()>(1);
        let (watch_ending, watch_ended) = sync_channel::<()>(1);
        let (forward_ending, forward_ended) = sync_channel::<()>(1);
        let (leave, left) = oneshot::channel::<()>();
        thread::scope(|scope| {
            let (handle, connections, history, location) =
                (hub.handle(), server.connections(), &history, &location);
            let mut idle = idle.map(|(limit, log)| (IdleDetector::new(limit), log));
            scope.spawn(move || {
                drain_spool_periodically(&handle, &history.data, location, &ended, |hub| {
                    let Some((idle, log)) = &mut idle else { return false };
                    hub_connection::rotate_log(log);
                    idle.is_idle(hub, &connections)
                });
                drop(leave);
            });
            scope.spawn(move || {
                lower_priority();
                history.answer(&queue);
            });
            let handle = hub.handle();
            scope.spawn(move || watch_processes(&homes, &handle, &watch_ended));
            if let Some(forwarding) = forwarding {
                scope.spawn(move || {
                    lower_priority();
                    forwarding.run(&forward_ended);
                });
            }
            let (handle, options) = (hub.handle(), history.options.clone());
            scope.spawn(move || {
                lower_priority();
                background_index::run(&handle, location, options, &index_queue, indexer_ended);
            });
            runtime.block_on(server.run(async {
                tokio::select! {
                    () = stopped => {}
                    _ = left => {}
                }
            }));
            drop((ending, indexer_ending, watch_ending, forward_ending, span_forwarding, remotes));
            // Open connections may still hold senders: stop the service all the same.
            let _ = requests.send(None);
            let _ = index_requests.try_send(None);
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        drop(hub);
        if location.is_in_place() {
            return Ok(());
        }
        let gone = StoreError::Gone(history.data);
        Err(CliError::from(gone).hint("what was spooled since then waits for the next hub"))
    }
}

/// Returns the server's reader of the configuration. Settings of the harness are read each time.
fn setup_reader(context: &Context) -> SetupReader {
    let budgets = &context.settings().budget;
    let setup = Setup {
        schema: SETUP_SCHEMA.into(),
        folders: root_folders(context).iter().map(|folder| folder.display().to_string()).collect(),
        hooks: None,
        resume: harnesses().filter_map(resume_command).collect(),
        time_zone: context.zone().name().into(),
        budget_day_micro_usd: budgets.day,
        budget_session_micro_usd: budgets.session,
        demo: Some(SessionId::from(demo::OWN_SESSION)),
        editor: Some(context.settings().page.editor.clone()).filter(|url| !url.is_empty()),
        team: context.settings().team.url.clone(),
    };
    let user_hooks = hooks::user_hooks(&context.environment);
    Arc::new(move || Setup {
        hooks: user_hooks.as_ref().and_then(|are_installed| are_installed()),
        ..setup.clone()
    })
}

/// Returns what takes the user of the page to the terminal of a session.
fn terminal_jumper(context: &Context) -> TerminalJumper {
    let homes = harness_homes::homes(context);
    Arc::new(move |session| subscope_run::jump(session, &homes, None))
}

/// Returns the server's reader of what this machine sends to its team.
fn sending_reader(context: &Context, progress: &ForwardProgress) -> Result<SendingReader, CliError> {
    let source = forward::sending(context, progress)?;
    Ok(Arc::new(move |level| source.read(level).map_err(|error| error.to_string())))
}

/// Returns a harness with the command that resumes one of its sessions.
fn resume_command(harness: &dyn Harness) -> Option<(String, String)> {
    let program = harness.run()?;
    Some((harness.name().to_owned(), format!("{} {}", program.program(), program.resume_option())))
}

/// Binds the server: in the foreground at the address that the user gave; else at the last one of `serve`, where pages may
/// still look for it, at that of the settings, or at any free port.
async fn bind(options: ServerOptions, data: &Path, hub: &Hub) -> Result<Server, CliError> {
    let mode = options.identity.mode;
    let (settings, any) = (options.listen, SocketAddr::new(options.listen.ip(), 0));
    let remembered = address::remembered(data).filter(|_| mode == HubMode::Background);
    let preferred = remembered.into_iter().chain((mode != HubMode::Foreground).then_some(settings));
    for listen in preferred {
        match Server::bind(ServerOptions { listen, ..options.clone() }, hub.handle()).await {
            Err(ListenError::Address { .. }) => {}
            bound => return bound.map_err(server_error),
        }
    }
    let last = if mode == HubMode::Foreground { settings } else { any };
    Server::bind(ServerOptions { listen: last, ..options }, hub.handle()).await.map_err(server_error)
}

/// Installs the signal handlers; returns a future that completes when the hub is to stop.
async fn stop_requested(
    ended: oneshot::Receiver<()>,
    number: &AtomicI32,
) -> io::Result<impl Future<Output = ()>> {
    let mut termination = Termination::listen(false)?;
    Ok(async move {
        tokio::select! {
            signal = termination.received() => number.store(signal, Ordering::Release),
            _ = ended => {}
        }
    })
}

/// Returns the token of TCP clients: from `file`; else none if the system identifies the user of a peer and nobody else may
/// come, else from the data directory.
fn load_token(
    file: Option<&Path>,
    listen: SocketAddr,
    is_public: bool,
    data: &Path,
) -> Result<Option<Token>, CliError> {
    if let Some(path) = file {
        return Ok(Some(Token::of_file(path)?));
    }
    if !listen.ip().is_loopback() {
        return Err(server_error(ListenError::NeedsToken(listen)));
    }
    if IDENTIFIES_TCP_PEERS && !is_public {
        return Ok(None);
    }
    std::fs::create_dir_all(data)?;
    Ok(Some(Token::of_file(&data.join(TOKEN_FILE))?))
}

/// Sends a query to the hub. Returns its answer; `None` without one within `wait`.
fn ask_hub<T: Send + 'static>(
    wait: Duration,
    query: impl FnOnce(ReplyCallback<T>) -> Result<(), AskError>,
) -> Option<T> {
    let (reply, answer) = sync_channel(1);
    // The receiver may be gone.
    query(Box::new(move |outcome| drop(reply.try_send(outcome)))).ok()?;
    answer.recv_timeout(wait).ok()
}

/// Waits for `wait`. Returns whether the server has stopped meanwhile.
fn has_ended(ended: &Receiver<()>, wait: Duration) -> bool {
    !matches!(ended.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
}

/// Drains the spool periodically until the server stops, `should_exit` returns true, or the store has been removed (the
/// next hub then drains it).
fn drain_spool_periodically(
    hub: &HubHandle,
    data: &Path,
    location: &Location,
    ended: &Receiver<()>,
    mut should_exit: impl FnMut(&HubHandle) -> bool,
) {
    let (spool, breaker) = (spool::folder(data), Breaker::of(data));
    let mut log = UnreadLog::default();
    while location.is_in_place() {
        // Read first: a hook spools before it trips the breaker, so its payload is drained below.
        let is_tripped = breaker.is_tripped();
        // Anything left is drained in the next round.
        match Spool::open(&spool) {
            Err(error) => log.add([format!("cannot list {}: {error}", spool.display())]),
            Ok(waiting) => {
                waiting.sweep(clock::now_ms());
                let drained = drain_spool(&waiting, hub, &mut |problem| tracing::warn!("spool: {problem}"));
                if is_tripped && drained.is_ok() && background::hub_figures(hub).is_some() {
                    breaker.reset();
                }
                match drained {
                    Ok(SpoolDrain { ingested, unread }) => {
                        if ingested > 0 {
                            tracing::info!(count = ingested, "spool drained");
                        }
                        log.add(unread.iter().map(ToString::to_string));
                    }
                    Err(error) => tracing::warn!("the spool waits: {error}"),
                }
            }
        }
        if should_exit(hub) || has_ended(ended, SPOOL_INTERVAL) {
            return;
        }
    }
}

/// Logs what of the spool cannot be read: once as long as it stays so, not in each round.
#[derive(Default)]
struct UnreadLog(BTreeSet<String>);

impl UnreadLog {
    fn add(&mut self, unread: impl IntoIterator<Item = String>) {
        let unread: BTreeSet<String> = unread.into_iter().collect();
        for problem in unread.difference(&self.0) {
            tracing::warn!("spool: {problem}; it is tried again");
        }
        self.0 = unread;
    }
}

fn server_error(error: ListenError) -> CliError {
    let hint = match &error {
        ListenError::NeedsToken(_) => "name a file with --token-file, or use 127.0.0.1",
        ListenError::PublicNeedsToken => "name a file with --token-file",
        ListenError::Address { .. } => "--listen 127.0.0.1:0 takes a free port",
        ListenError::Socket { .. } => "--store or SUBSCOPE_DATA_DIR names another folder",
        ListenError::Taken(_) => "end it, or name another folder with --store",
    };
    let needs_token = matches!(error, ListenError::NeedsToken(_) | ListenError::PublicNeedsToken);
    let kind = if needs_token { ErrorKind::Usage } else { ErrorKind::Failed };
    CliError::caused(kind, error).hint(hint)
}
