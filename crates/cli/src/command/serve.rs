//! `subscope serve`: a hub and its HTTP server in the foreground, until a signal ends it.

mod numbered;

use std::{path::PathBuf, time::Duration};

use subscope_hub::{Hub, HubHandle, HubOptions, Live};
use subscope_server::{Patience, ServeError, Server, ServerOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::numbered::Numbered;
use super::target::{limits, projects_folder};
use crate::{
    args::ServeArgs,
    context::Context,
    error::{CliError, Kind},
    output,
};

/// Threads that serve: the hub has its own, and answers are short.
const WORKERS: usize = 2;

/// How long tasks may take to end once the server has.
const FAREWELL: Duration = Duration::from_secs(1);

/// The socket in the folder for data.
const SOCKET: &str = "hub.sock";

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, context: &Context) -> Result<(), CliError> {
    let root = projects_folder(context);
    let options = HubOptions { prices: context.prices()?.table.clone(), limits: limits(context) };
    let server = ServerOptions {
        listen: args.listen,
        socket: data_folder(context)?.join(SOCKET),
        heartbeat: context.settings().watch.heartbeat.value,
        patience: Patience::default(),
    };
    let failed = |error: std::io::Error| CliError::caused(Kind::Failed, error);
    // Only this command has a runtime; every other one is done without.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let keeper = Box::new(Numbered::since(context.now_ms()));
    let hub = Hub::start(Box::new(Live::projects(root.clone())?), keeper, options)
        .map_err(|error| CliError::caused(Kind::Failed, error))?;
    context.say(&format!("following live sessions below {} (Ctrl-C ends)", root.display()));
    let outcome = runtime.block_on(serve(server, hub.handle()));
    runtime.shutdown_timeout(FAREWELL);
    drop(hub);
    outcome
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
        ServeError::NotLoopback(_) => "use 127.0.0.1 or [::1]",
        ServeError::Address { .. } => "--listen 127.0.0.1:0 takes a free port",
        ServeError::Folder { .. } | ServeError::Socket { .. } => {
            "--store or SUBSCOPE_DATA_DIR names another folder"
        }
        ServeError::Taken { .. } => "end it, or name another folder with --store",
    };
    CliError::caused(Kind::Failed, error).hint(hint)
}

/// Returns the folder for data: `--store`, else `SUBSCOPE_DATA_DIR`, else the user's folder for data.
fn data_folder(context: &Context) -> Result<PathBuf, CliError> {
    let environment = &context.environment;
    // XDG Base Directory Specification: a relative folder is to be ignored.
    let xdg = environment.path("XDG_DATA_HOME").filter(|folder| folder.is_absolute());
    let home = || environment.path("HOME").map(|home| home.join(".local/share"));
    let own = || xdg.or_else(home).map(|folder| folder.join("subscope"));
    context.store.clone().or_else(own).ok_or_else(|| {
        CliError::new(Kind::Failed, "there is no folder for data")
            .hint("--store or SUBSCOPE_DATA_DIR names one")
    })
}
