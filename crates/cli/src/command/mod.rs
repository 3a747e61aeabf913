//! The commands, one module each; [`run()`] dispatches, after checking settings for the commands that rely on them.

pub(crate) mod answer;
mod backup;
mod bug_report;
mod config;
mod demo;
mod diff;
mod doctor;
mod document;
mod event_printer;
mod export;
mod files;
pub(crate) mod forward;
mod harness_homes;
mod help;
pub(crate) mod history;
pub(crate) mod hook;
mod hooks;
mod import;
pub(crate) mod init;
pub(crate) mod jump;
mod mcp;
mod printer;
pub(crate) mod publish;
mod remote;
#[cfg_attr(windows, path = "run_absent.rs")]
pub(crate) mod run;
#[cfg(test)]
mod schemas;
pub(crate) mod serve;
mod shell;
mod statusline;
mod stop;
pub(crate) mod target;
mod team;
mod tree;
mod ui;
mod uninstall;
mod verify;
mod watch;

use crate::{prelude::*, team_server};

/// Runs the command.
///
/// # Errors
/// The command's error; before it runs, an invalid setting if the command relies on settings.
pub(crate) fn run(command: &CliCommand, context: &mut Context) -> Result<(), CliError> {
    if relies_on_settings(command) {
        check_settings(context)?;
    }
    if context.team_option.is_some() {
        // An error for commands that look at this machine only.
        team_server::asked(context)?;
    }
    match command {
        CliCommand::Tree(args) => tree::run(args, context),
        CliCommand::Files(args) => files::run(args, context),
        CliCommand::Diff(args) => diff::run(args, context),
        CliCommand::Verify(args) => verify::run(args, context),
        CliCommand::Watch(args) => watch::run(args, context),
        CliCommand::Run(args) => run::run(args, context),
        CliCommand::Ls(args) => history::ls::run(args, context),
        CliCommand::Search(args) => history::search::run(args, context),
        CliCommand::Show(args) => history::show::run(args, context),
        CliCommand::Stats(args) => history::stats::run(args, context),
        CliCommand::Status(args) => history::status::run(args, context),
        CliCommand::Stop(args) => stop::run(args, context),
        CliCommand::Jump(args) => jump::run(args, context),
        CliCommand::Answer(args) => answer::run(args, context),
        CliCommand::Index(args) => history::index::run(args, context),
        CliCommand::Forget(args) => history::forget::run(args, context),
        CliCommand::Serve(args) => serve::run(args, context),
        CliCommand::Export(args) => export::run(args, context),
        CliCommand::Import(args) => import::run(args, context),
        CliCommand::Demo(args) => demo::run(args, context),
        CliCommand::Replay(args) => ui::replay(args, context),
        CliCommand::Publish(args) => publish::run(args, context),
        CliCommand::Hooks(args) => hooks::run(args, context),
        CliCommand::Hook(HookArgs { harness, event, is_of_plugin }) => {
            let store = context.store_option.clone();
            let options = hook::HookOptions {
                harness: harness.clone(),
                event: event.clone(),
                store,
                is_of_plugin: *is_of_plugin,
            };
            hook::run(&options, &context.environment);
            Ok(())
        }
        CliCommand::Mcp(args) => mcp::run(args, context),
        CliCommand::Forward(args) => forward::run(args, context),
        CliCommand::Team(args) => team::run(args, context),
        CliCommand::Remote(args) => remote::run(args, context),
        CliCommand::Config(args) => config::run(args, context),
        CliCommand::Doctor(args) => doctor::run(*args, context),
        CliCommand::Init(args) => init::run(*args),
        CliCommand::Statusline(args) => statusline::run(args, context),
        CliCommand::Backup(args) => backup::back_up(args, context),
        CliCommand::Restore(args) => backup::restore(args, context),
        CliCommand::Uninstall(args) => uninstall::run(*args, context),
        CliCommand::BugReport(args) => bug_report::run(args, context),
        CliCommand::Help(args) => help::run(args, context),
        CliCommand::Completions(args) => shell::print_completions(*args),
        CliCommand::Man(args) => shell::print_man(args),
    }
}

/// Runs the terminal UI: `subscope` without a command.
///
/// # Errors
/// As [`run()`].
pub(crate) fn run_ui(plain: bool, context: &mut Context) -> Result<(), CliError> {
    check_settings(context)?;
    ui::run(plain, context)
}

/// Whether a command must not run with invalid settings. An agent waits for `mcp agent`, `publish` and `hook`, which
/// use no settings; the other exceptions help to repair them.
fn relies_on_settings(command: &CliCommand) -> bool {
    !matches!(
        command,
        CliCommand::Mcp(McpArgs { server: McpServer::Agent(_) })
            | CliCommand::Publish(_)
            | CliCommand::Hooks(_)
            | CliCommand::Hook(_)
            | CliCommand::Config(_)
            | CliCommand::Doctor(_)
            | CliCommand::Help(_)
            | CliCommand::Init(_)
            | CliCommand::Statusline(_)
            | CliCommand::Uninstall(_)
            | CliCommand::BugReport(_)
            | CliCommand::Completions(_)
            | CliCommand::Man(_)
    )
}

/// Fails if a setting is invalid; warns about unknown ones.
fn check_settings(context: &mut Context) -> Result<(), CliError> {
    for file in context.config.paths.all.iter().filter(|file| file.exists()) {
        context.debug(&format!("settings of the {} from {}", file.layer.as_str(), file.path.display()));
    }
    context.config.warnings.iter().for_each(|warning| context.warn(warning));
    context.config.take_error().map_or(Ok(()), Err)
}
