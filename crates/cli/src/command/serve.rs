//! `subscope serve`: a hub and its HTTP server in the foreground, until a signal ends it.

use std::{
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::{Duration, Instant},
};

use subscope_collect::spool::{self, Spool};
use subscope_hub::{
    Figures, Hub, HubHandle, HubOptions, Live, TextsAt, clock,
    index::{IndexOptions, index, index_texts},
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
    let report = index(&mut store, None, &past, &mut |_| {});
    let report = report.map_err(|error| CliError::caused(Kind::Failed, error))?;
    context.note(&format!("{} sessions were new or had changed", report.sessions));
    let forgotten = history::index::retired(&mut store, None, &past, context)?;
    if forgotten > 0 {
        context.note(&format!("{forgotten} sessions were older than {KEEP_DAYS} says, and are forgotten"));
    }
    let options = HubOptions {
        prices: context.prices()?.table.clone(),
        limits: limits(context),
        texts: Some(TextsAt { folder: data.clone(), archive: past.archive.clone() }),
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
    let (ending, ended) = sync_channel::<()>(1);
    let outcome = std::thread::scope(|scope| {
        let rules = history::rules(context)?;
        let (handle, data) = (hub.handle(), data.as_path());
        scope.spawn(move || tend(&handle, data, &rules, past, &ended));
        let outcome = runtime.block_on(serve(server, hub.handle()));
        drop(ending);
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

/// Takes the spool in as it fills, and keeps the full text up to date while something happens, until the server ends.
fn tend(hub: &HubHandle, data: &Path, rules: &str, mut options: IndexOptions, ended: &Receiver<()>) {
    let spool = spool::folder(data);
    let mut indexed: Option<(u64, Instant)> = None;
    loop {
        if let Ok(waiting) = Spool::open(&spool) {
            waiting.sweep(clock::now_ms());
            // What waits on is taken in the next round.
            let _ =
                take_spool(&waiting, hub, &mut |problem| output::complain(&format!("warning: {problem}\n")));
        }
        let seq = place(hub);
        let is_due = |(known, at): (u64, Instant)| known != seq && at.elapsed() >= TEXTS_EVERY;
        if indexed.is_none_or(is_due) {
            options.now_ms = clock::now_ms();
            // Words that could not be read are read in the next round; nothing waits for them.
            if let Err(error) = texts(data, rules, &options) {
                output::complain(&format!("warning: the full text is not up to date: {error}\n"));
            }
            indexed = Some((seq, clock::tick()));
        }
        match ended.recv_timeout(SPOOL_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
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

fn texts(data: &Path, rules: &str, options: &IndexOptions) -> anyhow::Result<u64> {
    let store = Sqlite::open(data, Access::Read, rules, 0)?;
    let mut texts = Texts::open(data, Access::Write)?;
    Ok(index_texts(&store, &mut texts, options)?)
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
