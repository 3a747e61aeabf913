//! `subscope run`: runs a command once or several times and shows what its agents do.
//!
//! Flow: [`mod@plan`] decides how the command is started and observed → [`iteration`] runs it and prints its events,
//! from a private hub → [`forwarding`] connects to the hub of this machine, which stores them. Everything but printing
//! is in the library `subscope_run`.

mod forwarding;
mod iteration;
mod plan;
mod stops;

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_export::iteration as records;
use subscope_harness::{HookHandler, ObserveMode, RunSurroundings};
use subscope_hub::clock;
use subscope_model::{ITERATION_SCHEMA, IterationMeta, IterationStatus, event_id};
use subscope_render::{Charset, Detail};
use subscope_run::{
    ADDRESS_VARIABLE, ChildExit, CommandRunError, IN_FOREGROUND, Signals, Upstream, forward::Forwarder,
    in_foreground,
};

use self::plan::LaunchPlan;
use super::{
    hooks::{self, version},
    printer::Printer,
};
use crate::{clock::stamp, prelude::*};

/// Time to wait at the end for a terminal that does not read.
const PRINT_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit codes of a shell for a command that is not found, or cannot be executed (POSIX, "Exit Status for Commands").
const NOT_FOUND: i32 = 127;
const NOT_RUN: i32 = 126;

/// Longest time that a program of the command keeps an ended span: in the specification of OpenTelemetry 5 s.
const SPAN_DELAY_MS: u32 = 500;

/// Environment variable with the id of the run around a command: it prints the blocks of runs inside.
const OUTER_RUN: &str = "SUBSCOPE_OUTER_RUN";

/// What all iterations share.
struct RunSession<'a> {
    args: &'a RunArgs,
    context: &'a Context,
    plan: LaunchPlan,
    id: String,
    signals: Signals,
    forwarder: Option<Forwarder>,
    upstream: Option<Upstream>,
    /// Directory of the records; `None` if iterations are not recorded.
    base: Option<PathBuf>,
}

/// Runs the command, and exits with its exit code.
pub(crate) fn run(args: &RunArgs, context: &Context) -> Result<(), CliError> {
    let code = prepare(args, context)?.run_all()?;
    std::process::exit(code)
}

fn prepare<'a>(args: &'a RunArgs, context: &'a Context) -> Result<RunSession<'a>, CliError> {
    // Before starting any thread: threads inherit the signal mask.
    let signals = Signals::block()?;
    let plan = plan(args, context)?;
    if plan.mode == ObserveMode::Protocol && args.render {
        let error = CliError::usage("--render prints to stdout, which is the agent's and its client's");
        return Err(error.hint("leave it out: what the agents do is printed to stderr"));
    }
    if !plan.added.is_empty() && (args.verbose || context.verbosity >= Verbosity::Verbose) {
        let added: Vec<_> = plan.added.iter().map(|word| word.to_string_lossy()).collect();
        context.info(&format!("options added: {}", added.join(" ")));
    }
    let outer = context.environment.text(ADDRESS_VARIABLE);
    let upstream = outer.as_deref().and_then(Upstream::parse);
    if let (Some(address), None) = (&outer, upstream) {
        context.warn(&format!(
            "{ADDRESS_VARIABLE} is {address:?}, which is not the address of a run: events are not passed on"
        ));
    }
    let forwarder = if args.no_store { None } else { Some(forwarding::forwarder(context)?) };
    let own = || context.environment.working_folder().join(records::FOLDER);
    Ok(RunSession {
        args,
        context,
        plan,
        id: event_id("run", &format!("{}/{}", std::process::id(), clock::now_ns()))
            .chars()
            .take(12)
            .collect(),
        signals,
        forwarder,
        upstream,
        base: args.is_recorded().then(|| args.log_dir.clone().unwrap_or_else(own)),
    })
}

fn plan(args: &RunArgs, context: &Context) -> Result<LaunchPlan, CliError> {
    let store = hooks::absolute_store(context)?;
    // A program with another name cannot be a hook: an interactive session is then observed only by its transcript.
    let program = if args.no_store { None } else { hooks::program().ok() };
    let store = store.map(|store| store.to_string_lossy().into_owned());
    let arguments: Vec<&str> = store.iter().flat_map(|store| ["--store", store]).collect();
    let hook = program.map(|program| HookHandler::command(&program, &arguments));
    let own = RunSurroundings {
        is_terminal: io::stdin().is_terminal() && io::stdout().is_terminal(),
        hook: hook.as_ref(),
        version: &|| version::of_program(args.command.first()?),
    };
    let is_shown = io::stdout().is_terminal() && !args.render && !args.is_recorded();
    Ok(LaunchPlan::of(&args.command, is_shown, &own))
}

impl RunSession<'_> {
    /// Runs all iterations; returns the last exit code.
    fn run_all(&self) -> Result<i32, CliError> {
        let unable =
            |error: io::Error| CliError::write(if self.args.render { "stdout" } else { "stderr" }, error);
        let printer =
            if self.args.render { Printer::start(&io::stdout()) } else { Printer::start(&io::stderr()) };
        let printer = printer.map_err(unable)?;
        let mut number = 1;
        let code = loop {
            let (ended, is_cut) = match iteration::run(self, number, &printer) {
                Ok(ran) => ran,
                Err(error @ CommandRunError::Start { .. }) => {
                    return Ok(report_not_started(error, self.context.style(None).charset()));
                }
                Err(error) => return Err(error.into()),
            };
            let is_done = match (self.args.until_success, self.args.iterations) {
                (true, limit) => ended.code() == 0 || limit.is_some_and(|limit| number >= limit),
                (false, limit) => number >= limit.unwrap_or(1),
            };
            // An interrupt ends all iterations.
            if is_done || is_cut || self.signals.is_terminated() || is_interrupted(ended) {
                break ended.code();
            }
            number += 1;
        };
        match printer.finish(PRINT_TIMEOUT) {
            Ok(true) => Ok(code),
            // The output is stopped, so no message can be printed.
            Ok(false) => std::process::exit(code),
            // With --render blocks are the command's output: a failure counts. On stderr they are not.
            Err(error) if self.args.render && code == 0 => {
                if error.kind() != io::ErrorKind::BrokenPipe {
                    return Err(unable(error));
                }
                Ok(ChildExit::Code(code).with_output(Some(&error)).code())
            }
            Err(_) => Ok(code),
        }
    }

    /// Whether blocks are printed: not if the user wants none, nor inside a run that prints them.
    fn shows_blocks(&self) -> bool {
        let is_inner = self.upstream.is_some() && self.context.environment.text(OUTER_RUN).is_some();
        let detail = self.args.detail.unwrap_or(self.context.settings().subagent_tracing_detail);
        self.context.verbosity >= Verbosity::Normal && detail != Detail::Off && !is_inner
    }

    /// Returns the variables by which the command's programs send OpenTelemetry to a listener, if it is no harness:
    /// harnesses are observed in other ways. A receiver that the environment names already keeps what is sent to it.
    fn otlp_variables(&self, listener: &str) -> Vec<(&'static str, String)> {
        const RECEIVERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
        const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
        let is_set = |name: &str| self.context.environment.text(name).is_some_and(|value| !value.is_empty());
        let is_observed = self.plan.harness.is_some() || self.plan.mode == ObserveMode::Protocol;
        if is_observed || RECEIVERS.into_iter().any(is_set) {
            return Vec::new();
        }
        let receiver = self.upstream.map_or_else(|| listener.to_owned(), |outer| outer.to_string());
        let mut variables = vec![(RECEIVERS[0], receiver)];
        if !is_set(DELAY) {
            variables.push((DELAY, SPAN_DELAY_MS.to_string()));
        }
        variables
    }

    /// Returns the metadata of a starting iteration.
    fn meta(&self, number: u32) -> IterationMeta {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let program = self.args.command.first().map(text).unwrap_or_default();
        let program = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
        IterationMeta {
            schema: ITERATION_SCHEMA.to_owned(),
            run: self.id.clone(),
            iteration: number,
            of: self.args.iterations,
            name: self.args.name.clone().or(program).unwrap_or_default(),
            command: self.plan.command.iter().map(text).collect(),
            cwd: self.context.environment.working_folder().to_string_lossy().into_owned(),
            session_id: None,
            status: IterationStatus::Running,
            exit_code: None,
            started_at_ms: self.context.now_ms(),
            ended_at_ms: None,
            pid: std::process::id(),
        }
    }
}

/// Reports why a command cannot be started; returns a shell's exit code.
fn report_not_started(error: CommandRunError, charset: Charset) -> i32 {
    let is_missing =
        matches!(&error, CommandRunError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound);
    output::complain(&CliError::from(error).render(charset));
    if is_missing { NOT_FOUND } else { NOT_RUN }
}

/// Executes the command in this process, once it has the terminal, if the arguments are those of the helper process that does
/// so. Returns the exit code if that fails; `None` for other arguments.
pub(crate) fn exec_if_helper(words: &[OsString]) -> Option<u8> {
    let (_, command) = words.split_first().filter(|(word, _)| *word == IN_FOREGROUND)?;
    Some(u8::try_from(report_not_started(in_foreground(command), Charset::Unicode)).unwrap_or(1))
}

fn is_interrupted(ended: ChildExit) -> bool {
    // HUP, INT, QUIT, TERM: killed by the signal, or exited with 128 + its number.
    matches!(ended.code() - 128, 1 | 2 | 3 | 15)
}

/// Formats a time in UTC for a file name.
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
