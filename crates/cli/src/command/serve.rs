//! `subscope serve`: a hub and its HTTP server in the foreground, until a signal ends it.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::Duration,
};

use subscope_collect::spool::{self, Spool};
use subscope_hub::{
    Figures, Hub, HubHandle, HubOptions, Live, TextsAt, clock,
    index::{IndexError, IndexOptions, Told, index_beside, index_texts},
    take_spool,
};
use subscope_server::{PEERS_ARE_KNOWN, Patience, ServeError, Server, ServerOptions, Token, TokenError};
use subscope_store::{Access, OpenError, Sqlite, Texts};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    history,
    target::{limits, projects_folder},
};
use crate::{
    args::ServeArgs,
    config::KEEP_DAYS,
    context::Context,
    error::{CliError, Kind},
    output,
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

/// How much reading of the past gives way, of 19: it still goes on beside something that takes all it can get.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// The socket in the folder for data.
const SOCKET: &str = "hub.sock";

/// The token in the folder for data, where the system does not tell whose a caller is.
const TOKEN: &str = "token";

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, context: &Context) -> Result<(), CliError> {
    let root = projects_folder(context);
    let data = context.data_folder()?;
    let token = token(args, &data)?;
    let mut store = open(context)?;
    let past = history::index_options(vec![root.clone()], context)?;
    let past = IndexOptions { workers: Some(readers()), ..past };
    let forgotten = history::index::retired(&mut store, None, &past, context)?;
    if forgotten > 0 {
        context.note(&format!("{forgotten} sessions were older than {KEEP_DAYS} says, and are forgotten"));
    }
    let options = HubOptions {
        prices: past.prices.clone(),
        limits: limits(context),
        texts: Some(TextsAt { folder: data.clone(), archive: past.archive.clone() }),
        told_until: Some(past.now_ms),
    };
    let server = ServerOptions {
        listen: args.listen,
        socket: data.join(SOCKET),
        heartbeat: context.settings().watch.heartbeat.value,
        patience: Patience::default(),
        token,
    };
    let failed = |error: std::io::Error| CliError::caused(Kind::Failed, error);
    // Only this command has a runtime; every other one is done without.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let hub = Hub::start(Box::new(Live::projects(root.clone())?), Box::new(store), options)
        .map_err(|error| CliError::caused(Kind::Failed, error))?;
    context.say(&format!("following live sessions below {} (Ctrl-C ends)", root.display()));
    if !args.listen.ip().is_loopback() {
        context.say("what is said on this address can be read on its way, the token too: use a network that you trust");
    }
    let rules = history::rules(context)?;
    let (ending, ended) = sync_channel::<()>(1);
    let (past_ending, past_ended) = sync_channel::<()>(1);
    let outcome = std::thread::scope(|scope| {
        let (spooling, reading, data) = (hub.handle(), hub.handle(), data.as_path());
        scope.spawn(move || take_in(&spooling, data, &ended));
        scope.spawn(move || Shelf { hub: reading, data, rules: &rules, options: past }.tend(&past_ended));
        let outcome = runtime.block_on(serve(server, hub.handle()));
        drop((ending, past_ending));
        outcome
    });
    runtime.shutdown_timeout(FAREWELL);
    drop(hub);
    outcome
}

/// The token of callers by TCP: that of the file that was named, else none where the system tells whose a caller is.
fn token(args: &ServeArgs, data: &Path) -> Result<Option<Token>, CliError> {
    let wrong = |error: TokenError| CliError::caused(Kind::Failed, error);
    if let Some(path) = &args.token_file {
        return Token::of_file(path).map(Some).map_err(wrong);
    }
    if !args.listen.ip().is_loopback() {
        return Err(refused(ServeError::NeedsToken(args.listen)));
    }
    if PEERS_ARE_KNOWN {
        return Ok(None);
    }
    let unable = |error: std::io::Error| CliError::caused(Kind::Failed, error);
    std::fs::create_dir_all(data).map_err(unable)?;
    Token::of_file(&data.join(TOKEN)).map(Some).map_err(wrong)
}

/// Opens the store as its one writer.
fn open(context: &Context) -> Result<Sqlite, CliError> {
    history::open_rows(Access::Write, context)?.map_err(|error| {
        let is_locked = matches!(error, OpenError::Locked(_));
        let error = CliError::caused(Kind::Failed, error);
        if is_locked {
            error.hint("another `subscope serve` runs, or --store names another folder")
        } else {
            error
        }
    })
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

/// Takes the spool in as it fills, until the server ends.
fn take_in(hub: &HubHandle, data: &Path, ended: &Receiver<()>) {
    let spool = spool::folder(data);
    loop {
        if let Ok(waiting) = Spool::open(&spool) {
            waiting.sweep(clock::now_ms());
            // What waits on is taken in the next round.
            let _ =
                take_spool(&waiting, hub, &mut |problem| output::complain(&format!("warning: {problem}\n")));
        }
        if has_ended(ended, SPOOL_EVERY) {
            return;
        }
    }
}

/// What stands on disk beside what is live.
struct Shelf<'a> {
    hub: HubHandle,
    data: &'a Path,
    rules: &'a str,
    options: IndexOptions,
}

impl Shelf<'_> {
    /// Takes in what was written while nobody followed it, then keeps the full text up to date while something happens, until
    /// the server ends.
    fn tend(mut self, ended: &Receiver<()>) {
        give_way();
        let (mut indexed, mut is_behind) = (None, true);
        loop {
            let seq = place(&self.hub);
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

    fn read(&self, is_behind: bool, told: Told<'_>) -> anyhow::Result<()> {
        let store = Sqlite::open(self.data, Access::Read, self.rules, 0)?;
        let mut texts = Texts::open(self.data, Access::Write)?;
        if is_behind {
            index_beside(&self.hub, &store, &mut texts, &self.options, told)?;
            return Ok(());
        }
        Ok(index_texts(&store, &mut texts, &self.options, told)?)
    }
}

/// The last place in the change log; 0 where the hub does not answer.
fn place(hub: &HubHandle) -> u64 {
    let (reply, answer) = sync_channel(1);
    let asked = hub.figures(Box::new(move |figures: Figures| {
        // Whoever asked has gone.
        let _ = reply.send(figures.seq);
    }));
    asked.ok().and_then(|()| answer.recv().ok()).unwrap_or(0)
}

async fn serve(options: ServerOptions, hub: HubHandle) -> Result<(), CliError> {
    let failed = |error: std::io::Error| CliError::caused(Kind::Failed, error);
    // From here on a signal ends it in order.
    let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let server = Server::bind(options, hub).await.map_err(refused)?;
    output::print(&format!("{}\n", server.url()))?;
    server.run(first_of(interrupt, terminate)).await;
    Ok(())
}

async fn first_of(mut one: Signal, mut other: Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
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
