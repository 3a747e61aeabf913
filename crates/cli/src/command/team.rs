//! `subscope team`: the server of a team, its tokens, and administration commands.

use std::io::Write as _;

use serde_json::{Value, json};
use subscope_client::{Client, ClientError};
use subscope_render::text::plural;
use subscope_team::{
    Engine, EngineError, Retention, ServeOptions, TeamServeError, TlsFiles, TokenRole, new_token,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{browser, logging, prelude::*, team_server};

/// Environment variable with the password of ClickHouse.
const PASSWORD: &str = "SUBSCOPE_CLICKHOUSE_PASSWORD";

pub(crate) fn run(args: &TeamArgs, context: &Context) -> Result<(), CliError> {
    match &args.command {
        TeamCommand::Serve(args) => serve(args, context),
        TeamCommand::Token(TeamTokenArgs { command: TokenCommand::New(args) }) => print_token(args, context),
        TeamCommand::Forget(args) => forget(args, context),
        TeamCommand::Page(args) => page(args, context),
    }
}

fn serve(args: &TeamServeArgs, context: &Context) -> Result<(), CliError> {
    logging::start(tracing::Level::WARN, context);
    let password = context.environment.text(PASSWORD);
    let engine = Engine::new(&args.clickhouse, password.as_deref());
    let engine = engine.map_err(|error: EngineError| CliError::caused(ErrorKind::Usage, error))?;
    let token_file = context.token_file.clone().ok_or_else(|| {
        CliError::usage("a team's server needs --token-file, also on the loopback")
            .hint("`subscope team token new` prints a line for it")
    })?;
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    let options = ServeOptions {
        engine,
        listen: args.listen,
        token_file,
        retain: args.retain,
        cluster: args.cluster.clone(),
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
    };
    if options.tls.is_none() && !args.listen.ip().is_loopback() {
        context.info("what is said on this address can be read on its way, tokens too: use --tls-cert, or a proxy with TLS");
    }
    context.info(&format!(
        "rows are kept: {}",
        args.retain.map_or("as the tables say".to_owned(), |kept: Retention| kept.to_string())
    ));
    let stop = async {
        // Without a handler a signal ends the process, which loses nothing either.
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let ready = |url: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{url}").and_then(|()| out.flush())
    };
    subscope_team::serve(options, stop, ready).map_err(serve_error)
}

fn serve_error(error: TeamServeError) -> CliError {
    let kind = match &error {
        TeamServeError::Tokens(_) | TeamServeError::Certificate { .. } => ErrorKind::Usage,
        TeamServeError::Tables(_) | TeamServeError::Address { .. } | TeamServeError::Io(_) => {
            ErrorKind::Failed
        }
    };
    CliError::caused(kind, error)
}

fn print_token(args: &NewTokenArgs, context: &Context) -> Result<(), CliError> {
    let role = match args.role {
        RoleArg::Writer => TokenRole::Writer,
        RoleArg::Reader => TokenRole::Reader,
        RoleArg::Admin => TokenRole::Admin,
    };
    let made = new_token(&args.tenant, &args.user, role, args.in_team.as_deref());
    let (token, line) = made.map_err(|error| {
        let is_wrong = error.kind() == std::io::ErrorKind::InvalidInput;
        let kind = if is_wrong { ErrorKind::Usage } else { ErrorKind::Failed };
        CliError::caused(kind, error)
    })?;
    context.info("the token, for the user; then its line, for the server's token file:");
    output::print(&format!("{token}\n{line}\n"))
}

/// Posts JSON to the team's server and returns its answer.
fn post(path: &str, body: &Value, context: &Context) -> Result<Value, CliError> {
    let mut client = Client::of_team(team_server::required(context)?);
    let answer = client.post(path, body.to_string().as_bytes())?;
    serde_json::from_slice(&answer).map_err(|error| ClientError::Garbled(error).into())
}

fn forget(args: &TeamForgetArgs, context: &Context) -> Result<(), CliError> {
    let answer = post("/team/v1/forget", &json!({ "user": args.user }), context)?;
    let count = answer["forgotten"].as_u64().unwrap_or(0);
    output::print(&format!("{} forgotten\n", plural(usize::try_from(count).unwrap_or(usize::MAX), "session")))
}

/// Returns the URL that lets one browser in to the page of the team's server.
pub(super) fn page_url(context: &Context) -> Result<String, CliError> {
    let server = team_server::required(context)?;
    let answer = post("/api/v1/codes", &json!({}), context)?;
    Ok(format!("{}{}", server.url(), answer["path"].as_str().unwrap_or_default()))
}

fn page(args: &TeamPageArgs, context: &Context) -> Result<(), CliError> {
    let url = page_url(context)?;
    if args.open
        && let Err(error) = browser::open(&url)
    {
        context.warn(&format!("no browser can be started ({error}): open the address in one"));
    }
    output::print(&format!("{url}\n"))
}
