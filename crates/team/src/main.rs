//! `subscope-team`: runs the server of a team, and makes tokens for it.

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser;
use subscope_program::{
    CliError, ErrorKind, Global, NewTokenArgs, TeamProgram, TeamServeArgs, TeamServerCommand, TeamTokenArgs,
    TokenCommand, Verbosity, complain, start_logging,
};
use subscope_render::{Charset, safe};
use subscope_team::{Engine, EngineError, ServeOptions, TeamServeError, TlsFiles, new_token};
use tokio::signal::unix::{SignalKind, signal};

/// mimalloc, as in `subscope`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Environment variable with the password of ClickHouse.
const PASSWORD: &str = "SUBSCOPE_CLICKHOUSE_PASSWORD";

fn main() -> ExitCode {
    let TeamProgram { global, command } = TeamProgram::parse();
    let messages = Messages::new(&global);
    let outcome = match command {
        TeamServerCommand::Serve(args) => serve(args, &global, &messages),
        TeamServerCommand::Token(TeamTokenArgs { command: TokenCommand::New(args) }) => {
            print_token(&args, &messages)
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.render(messages.charset));
            ExitCode::from(error.kind().code())
        }
    }
}

/// Messages on stderr, sanitized.
struct Messages {
    verbosity: Verbosity,
    charset: Charset,
}

impl Messages {
    fn new(global: &Global) -> Self {
        let charset = if global.ascii { Charset::Ascii } else { Charset::Unicode };
        Self { verbosity: global.verbosity(), charset }
    }

    /// Prints a message, unless quiet.
    fn info(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            complain(&format!("{}\n", safe::line(text, self.charset)));
        }
    }
}

fn serve(args: TeamServeArgs, global: &Global, messages: &Messages) -> Result<(), CliError> {
    start_logging(tracing::Level::WARN, |why| messages.info(&format!("warning: {why}")));
    let password = env::var(PASSWORD).ok().filter(|password| !password.is_empty());
    let engine = Engine::new(&args.clickhouse, password.as_deref());
    let engine = engine.map_err(|error: EngineError| CliError::caused(ErrorKind::Usage, error))?;
    let token_file = global.token_file.clone().ok_or_else(|| {
        CliError::usage("a team's server needs --token-file, also on the loopback")
            .hint("`subscope team token new` prints a line for it")
    })?;
    let tls = args.tls_cert.zip(args.tls_key);
    let options = ServeOptions {
        engine,
        listen: args.listen,
        token_file,
        retain: args.retain,
        cluster: args.cluster,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
    };
    if options.tls.is_none() && !args.listen.ip().is_loopback() {
        messages.info("what is said on this address can be read on its way, tokens too: use --tls-cert, or a proxy with TLS");
    }
    messages.info(&format!(
        "rows are kept: {}",
        args.retain.map_or("as the tables say".to_owned(), |kept| kept.to_string())
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
        let mut out = io::stdout().lock();
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

fn print_token(args: &NewTokenArgs, messages: &Messages) -> Result<(), CliError> {
    let made = new_token(&args.tenant, &args.user, args.role, args.in_team.as_deref());
    let (token, line) = made.map_err(|error| {
        let is_wrong = error.kind() == io::ErrorKind::InvalidInput;
        let kind = if is_wrong { ErrorKind::Usage } else { ErrorKind::Failed };
        CliError::caused(kind, error)
    })?;
    messages.info("the token, for the user; then its line, for the server's token file:");
    let mut out = io::stdout().lock();
    let written = out.write_all(format!("{token}\n{line}\n").as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| CliError::write("stdout", error))
}
