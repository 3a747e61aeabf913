//! `subscope team`: administration of a team's server; its own commands are those of another program.

use std::{env, ffi::OsString, iter, process::Command};

use clap::Parser;
use serde_json::{Value, json};
use subscope_client::{Client, ClientError};
use subscope_platform::replace_process;
use subscope_program::{TEAM_PROGRAM, TeamProgram};
use subscope_render::text::plural;

use crate::{browser, prelude::*, team_server};

pub(crate) fn run(args: &TeamArgs, context: &Context) -> Result<(), CliError> {
    match &args.command {
        TeamCommand::Server(_) => Err(become_server(env::args_os().skip(1).collect())),
        TeamCommand::Forget(args) => forget(args, context),
        TeamCommand::Page(args) => page(args, context),
    }
}

/// Replaces this process by the server's program: the one beside this program, else the one in `PATH`. Returns only if it
/// cannot.
fn become_server(args: Vec<OsString>) -> CliError {
    let beside = env::current_exe().map(|own| own.with_file_name(TEAM_PROGRAM));
    let program = beside.ok().filter(|program| program.is_file()).unwrap_or_else(|| TEAM_PROGRAM.into());
    let error = replace_process(Command::new(&program).args(server_args(args)));
    CliError::because(format!("cannot start {}, the server of a team", program.display()), error).hint(
        "it is a program of its own beside subscope: every package has it; from crates.io cargo install --locked \
         subscope-team, from a clone cargo install --path crates/team",
    )
}

/// Returns the arguments without the word `team` that names the command. Options may have this word as their value: it is
/// the one without which the server's program takes the others.
fn server_args(args: Vec<OsString>) -> Vec<OsString> {
    let places = args.iter().enumerate().filter(|(_, word)| *word == "team").map(|(place, _)| place);
    let mut without = places.map(|place| [&args[..place], &args[place + 1..]].concat());
    let is_accepted = |args: &Vec<OsString>| {
        TeamProgram::try_parse_from(iter::once(&OsString::from(TEAM_PROGRAM)).chain(args)).is_ok()
    };
    // If none is accepted, the server's program says what is wrong with all of them.
    without.find(is_accepted).unwrap_or_else(|| args.clone())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_gets_all_arguments_but_the_name_of_its_command() {
        for (given, passed) in [
            ("team token new --user a --tenant team", "token new --user a --tenant team"),
            ("team -q token new --user team --tenant t", "-q token new --user team --tenant t"),
            ("--store team team token new --user a --tenant t", "--store team token new --user a --tenant t"),
            (
                "--store team --ascii team token new --user a --tenant t",
                "--store team --ascii token new --user a --tenant t",
            ),
            (
                "team serve --clickhouse x --listen :0 --cluster team",
                "serve --clickhouse x --listen :0 --cluster team",
            ),
        ] {
            assert!(Cli::try_parse_from(iter::once("subscope").chain(given.split(' '))).is_ok(), "{given}");
            let args = server_args(given.split(' ').map(OsString::from).collect());
            assert_eq!(args.join(" ".as_ref()), passed, "{given}");
        }
    }
}
