//! `subscope remote`: adds, lists and tests the other machines whose sessions a hub shows.

use std::fmt::Write as _;

use subscope_model::{ContentLevel, HubMode, Millis, REMOTES_SCHEMA, RemoteMachine, RemoteMachines};
use subscope_render::{
    safe,
    text::{clock, pad, plural, width},
};

use super::serve::remotes::{RemoteCommand, RemoteError};
use crate::{
    config::{RemoteSettings, add_remote, usual_silence},
    hub_connection::{self, greet},
    prelude::*,
};

/// A clock that is further away than this is worth a word.
const NOTABLE_OFFSET_MS: Millis = 2_000;

pub(crate) fn run(args: &RemoteArgs, context: &Context) -> Result<(), CliError> {
    match &args.action {
        RemoteAction::Add(args) => add(args, context),
        RemoteAction::List(args) => list(args, context),
        RemoteAction::Test(args) => test(args, context),
    }
}

fn add(args: &RemoteAddArgs, context: &Context) -> Result<(), CliError> {
    let content = args.content.map_or(ContentLevel::Text, ContentLevel::from);
    let (name, ssh, command) = (args.name.clone(), args.ssh.clone(), args.command.clone());
    let silence = usual_silence();
    let remote =
        RemoteSettings { name, ssh, command, content, silence }.checked().map_err(CliError::usage)?;
    if context.settings().remote.iter().any(|known| known.name == remote.name) {
        let place = context.config.origin("remote");
        return Err(CliError::failed(format!("{} is in the settings already: {place}", remote.name)));
    }
    if context.config.locks("remote") {
        return Err(CliError::failed("this machine's organization locks `remote`"));
    }
    let file = add_remote(&remote, &context.config.paths)?;
    let name = &remote.name;
    context
        .info(&format!("{name} is in {}; `subscope remote test {name}` connects to it once", file.display()));
    // A hub reads the settings when it starts.
    let data = context.data_folder()?;
    match greet(&data) {
        Ok((_, health)) if health.mode == HubMode::Background => hub_connection::stop_background_hub(&data),
        Ok(_) => {
            context.info("the hub that runs does not know it: start `subscope serve` again");
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// Returns the state of the machines of the settings: of the hub that runs, if there is one.
pub(crate) fn machines(context: &Context) -> Result<RemoteMachines, CliError> {
    let health = greet(&context.data_folder()?).ok().map(|(_, health)| health);
    let known = health.as_ref().map(|health| health.remotes.as_slice()).unwrap_or_default();
    let of = |remote: &RemoteSettings| {
        let state = known.iter().find(|state| *state.name == *remote.name).cloned();
        let why = if health.is_some() {
            "the hub that runs was started before it was in the settings"
        } else {
            "no hub runs"
        };
        state.unwrap_or_else(|| RemoteMachine {
            name: remote.name.as_str().into(),
            error: Some(why.into()),
            ..RemoteMachine::default()
        })
    };
    Ok(RemoteMachines {
        schema: REMOTES_SCHEMA.into(),
        is_hub_running: health.is_some(),
        remotes: context.settings().remote.iter().map(of).collect(),
    })
}

fn list(args: &RemoteListArgs, context: &Context) -> Result<(), CliError> {
    let machines = machines(context)?;
    if args.json {
        return output::print_json(&machines);
    }
    if machines.remotes.is_empty() {
        context.info("no other machine is in the settings: `subscope remote add NAME --ssh HOST`");
        return Ok(());
    }
    let names = machines.remotes.iter().map(|machine| width(&machine.name)).max().unwrap_or_default();
    let mut out = String::new();
    for machine in &machines.remotes {
        let words = words(machine, context);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}  {words}", pad(&machine.name, names));
    }
    output::print(&out)
}

/// Says in words how the connection to a machine is.
pub(crate) fn words(machine: &RemoteMachine, context: &Context) -> String {
    let mut parts = Vec::new();
    if machine.is_connected {
        parts.push(
            if machine.is_caught_up { "connected" } else { "connected, its sessions are being read" }
                .to_owned(),
        );
        let then = |count| format!("{} when it was connected", plural(count, "session"));
        parts.extend(machine.sessions.map(then));
        parts.extend(machine.version.as_ref().map(|version| format!("subscope {version}")));
        parts.extend(machine.clock_offset_ms.map(|offset| offset_words(offset, machine.round_trip_ms)));
        let behind = machine.unsearched.filter(|count| *count > 0);
        parts.extend(behind.map(|count| format!("texts of {} are not here yet", plural(count, "session"))));
    } else {
        parts.push("not connected".to_owned());
        let heard = |at| format!("last heard {}", clock(at, context.offset_minutes()));
        parts.extend(machine.last_heard_ms.map(heard));
        parts.extend(machine.error.as_ref().map(ToString::to_string));
    }
    safe::line(&parts.join("; "), context.style(None).charset())
}

/// Says how far a clock is away.
fn offset_words(offset_ms: Millis, round_trip_ms: Option<Millis>) -> String {
    let way = round_trip_ms.map(|ms| format!(" (round trip {ms} ms)")).unwrap_or_default();
    let seconds = offset_ms.unsigned_abs() as f64 / 1_000.0;
    match offset_ms {
        0.. if offset_ms < NOTABLE_OFFSET_MS => format!("clock +{seconds:.2} s{way}"),
        ..0 if offset_ms > -NOTABLE_OFFSET_MS => format!("clock -{seconds:.2} s{way}"),
        0.. => format!("its clock is {seconds:.1} s ahead{way}: times of its sessions are by that clock"),
        _ => format!("its clock is {seconds:.1} s behind{way}: times of its sessions are by that clock"),
    }
}

fn test(args: &RemoteTestArgs, context: &Context) -> Result<(), CliError> {
    let known = &context.settings().remote;
    let Some(remote) = known.iter().find(|remote| remote.name == args.name) else {
        let error = CliError::failed(format!("no machine in the settings is called {:?}", args.name));
        return Err(error.hint("`subscope remote list` lists them"));
    };
    let failed = |error: RemoteError| {
        let is_missing = matches!(&error, RemoteError::Missing(_));
        let failed = CliError::caused(ErrorKind::Failed, error);
        match &remote.ssh {
            Some(host) if is_missing => {
                failed.hint(format!("`ssh {host} cargo install --locked subscope` installs it there"))
            }
            Some(_) | None => failed,
        }
    };
    let mut command = RemoteCommand::start(remote).map_err(failed)?;
    let Some(hello) = command.hello(&|| false).map_err(failed)? else { return Ok(()) };
    let (offset, round_trip) = command.measure().map_err(failed)?;
    let line = format!(
        "{}: subscope {} on {}, {}, {}",
        remote.name,
        hello.version,
        hello.host,
        plural(hello.sessions, "session"),
        offset_words(offset, Some(round_trip))
    );
    output::print(&format!("{}\n", safe::line(&line, context.style(None).charset())))
}
