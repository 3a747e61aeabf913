//! `subscope run`: a command under observation, once or several times.
//!
//! Flow: [`mod@plan`] says what is started and what its output is → [`iteration`] runs it and shows what it tells, by a hub of
//! its own → [`keeping`] finds the hub of this machine, which keeps it. The library `subscope_run` does all that is not
//! printing.

mod iteration;
mod keeping;
mod plan;
pub(crate) mod printer;

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_harness::HookHandler;
use subscope_hub::clock;
use subscope_model::event_id;
use subscope_render::Charset;
use subscope_run::{
    ADDRESS_VARIABLE, Ended, IN_FOREGROUND, RunError, Signals, Upstream,
    forward::Forwarder,
    in_foreground,
    record::{self, Meta, State},
};

use self::{
    plan::{Plan, Surroundings},
    printer::Printer,
};
use super::{
    event_printer::Out,
    hooks::{self, version},
};
use crate::{
    args::RunArgs,
    clock::stamp,
    context::{Chattiness, Context},
    error::{CliError, Kind},
    output,
};

/// How long a terminal that takes nothing is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a shell says of a command that is not there, and of one that cannot be run (POSIX, "Exit Status for Commands").
const NOT_FOUND: i32 = 127;
const NOT_RUN: i32 = 126;

/// What all iterations share.
struct Run<'a> {
    args: &'a RunArgs,
    context: &'a Context,
    plan: Plan,
    id: String,
    signals: Signals,
    keeper: Option<Forwarder>,
    upstream: Option<Upstream>,
    /// Where iterations are recorded, if they are.
    base: Option<PathBuf>,
}

/// Runs the command, and ends with its exit code.
pub(crate) fn run(args: &RunArgs, context: &Context) -> Result<(), CliError> {
    let code = prepared(args, context)?.all()?;
    std::process::exit(code)
}

fn prepared<'a>(args: &'a RunArgs, context: &'a Context) -> Result<Run<'a>, CliError> {
    // Before any other thread: they inherit it.
    let signals = Signals::hold().map_err(failed)?;
    let plan = plan(args, context)?;
    if !plan.added.is_empty() && (args.verbose || context.chattiness >= Chattiness::Verbose) {
        let added: Vec<_> = plan.added.iter().map(|word| word.to_string_lossy()).collect();
        context.say(&format!("options added: {}", added.join(" ")));
    }
    let outer = context.environment.text(ADDRESS_VARIABLE);
    let upstream = outer.as_deref().and_then(Upstream::parse);
    if let (Some(address), None) = (&outer, upstream) {
        context.warn(&format!(
            "{ADDRESS_VARIABLE} is {address:?}, which is no address of a run: events end here"
        ));
    }
    let keeper = if args.no_store { None } else { Some(keeping::keeper(context)?) };
    let own = || context.environment.working_folder().join(record::FOLDER);
    Ok(Run {
        args,
        context,
        plan,
        id: event_id("run", &format!("{}/{}", std::process::id(), clock::now_ns()))
            .chars()
            .take(12)
            .collect(),
        signals,
        keeper,
        upstream,
        base: args.is_recorded().then(|| args.log_dir.clone().unwrap_or_else(own)),
    })
}

fn plan(args: &RunArgs, context: &Context) -> Result<Plan, CliError> {
    let store = hooks::absolute_store(context)?;
    // A program of another name cannot be a hook: an interactive session is then told of by its transcript alone.
    let program = if args.no_store { None } else { hooks::program().ok() };
    let hook = program.map(|program| HookHandler::command(&program, store.as_deref()));
    let around = Surroundings {
        is_terminal: io::stdin().is_terminal() && io::stdout().is_terminal(),
        is_shown: io::stdout().is_terminal() && !args.render && !args.is_recorded(),
        hook,
        version: &version::of_program,
    };
    Ok(Plan::of(&args.command, &around))
}

fn failed(error: RunError) -> CliError {
    CliError::caused(Kind::Failed, error)
}

impl Run<'_> {
    /// Runs it as often as asked for; returns the last exit code.
    fn all(&self) -> Result<i32, CliError> {
        let unable =
            |error: io::Error| CliError::write(if self.args.render { "stdout" } else { "stderr" }, error);
        let printer =
            if self.args.render { Printer::start(&io::stdout()) } else { Printer::start(&io::stderr()) };
        let mut out = Out::Printer(printer.map_err(unable)?);
        let mut number = 1;
        let code = loop {
            let ran = match iteration::run(self, number, out) {
                Ok(ran) => ran,
                Err(error) => return self.not_run(error),
            };
            let ended = ran.ended;
            out = ran.out;
            let is_done = match (self.args.until_success, self.args.iterations) {
                (true, limit) => ended.code() == 0 || limit.is_some_and(|limit| number >= limit),
                (false, limit) => number >= limit.unwrap_or(1),
            };
            // Who interrupts it means all of it.
            if is_done || ran.is_cut || self.signals.asked_to_end() || is_interrupted(ended) {
                break ended.code();
            }
            number += 1;
        };
        let Out::Printer(printer) = out else { return Ok(code) };
        match printer.finish(PATIENCE) {
            Ok(true) => Ok(code),
            // Somebody has stopped the output; there is nobody to tell.
            Ok(false) => std::process::exit(code),
            // Blocks on stdout are the output that was asked for; on stderr they are beside it.
            Err(error) if self.args.render && code == 0 => {
                if error.kind() != io::ErrorKind::BrokenPipe {
                    return Err(unable(error));
                }
                Ok(Ended::Code(code).with_output(Some(&error)).code())
            }
            Err(_) => Ok(code),
        }
    }

    /// Says why a command was not run, with the exit code of a shell.
    fn not_run(&self, error: RunError) -> Result<i32, CliError> {
        let RunError::Start { .. } = &error else { return Err(failed(error)) };
        Ok(not_started(error, self.context.style(None).charset()))
    }

    /// What is noted of an iteration when it begins.
    fn meta(&self, number: u32) -> Meta {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let program = self.args.command.first().map(text).unwrap_or_default();
        let program = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
        Meta {
            schema: record::SCHEMA.to_owned(),
            run: self.id.clone(),
            iteration: number,
            of: self.args.iterations,
            name: self.args.name.clone().or(program).unwrap_or_default(),
            command: self.plan.command.iter().map(text).collect(),
            cwd: self.context.environment.working_folder().to_string_lossy().into_owned(),
            session_id: None,
            status: State::Running,
            exit_code: None,
            started_at_ms: self.context.now_ms(),
            ended_at_ms: None,
            pid: std::process::id(),
        }
    }
}

/// Says why a command cannot be started; returns the exit code that a shell has for that.
fn not_started(error: RunError, charset: Charset) -> i32 {
    let is_missing =
        matches!(&error, RunError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound);
    output::complain(&failed(error).render(charset));
    if is_missing { NOT_FOUND } else { NOT_RUN }
}

/// Whether the command line is that of a helper, which is to become a command once it has the terminal.
pub(crate) fn is_meant(words: &[OsString]) -> bool {
    words.first().is_some_and(|word| word == IN_FOREGROUND)
}

/// Becomes the command; returns the exit code where it cannot.
pub(crate) fn become_command(words: &[OsString]) -> u8 {
    let error = in_foreground(words.get(1..).unwrap_or_default());
    u8::try_from(not_started(error, Charset::Unicode)).unwrap_or(1)
}

fn is_interrupted(ended: Ended) -> bool {
    // HUP, INT, QUIT, TERM: by the signal itself, or as programs say it that handle it.
    matches!(ended.code() - 128, 1 | 2 | 3 | 15)
}

/// A moment in UTC as a part of a file's name.
fn name_stamp(at_ms: i64) -> String {
    stamp(at_ms).replace('T', "_").replace(':', "-").trim_end_matches('Z').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_names_are_moments_in_utc() {
        assert_eq!(name_stamp(1_705_314_645_123), "2024-01-15_10-30-45");
    }
}
