//! `subscope stop`: sends a stop request to the hub, which keeps it until it was delivered to the agent or the agent
//! has ended.

use subscope_client::{Client, ClientError};
use subscope_harness::hooked;
use subscope_model::{Ordered, StopChannel};
use subscope_render::safe;

use crate::{
    hub_connection::{HubConnection, NoHub, StartPolicy},
    prelude::*,
};

pub(crate) fn run(args: &StopArgs, context: &Context) -> Result<(), CliError> {
    let (session, agent) = match args.agent.split_once('/') {
        Some((session, agent)) => (Some(session), agent),
        None => (None, args.agent.as_str()),
    };
    if agent.is_empty() || session.is_some_and(str::is_empty) {
        let error = CliError::usage("the agent's id is empty");
        return Err(error.hint("give the beginning of its id, or SESSION/AGENT"));
    }
    let ordered = request_stop(session, agent, context)?;
    if !ordered.reached {
        let since = hooked().find_map(|(harness, hooks)| {
            let [major, minor, patch] = hooks.names_agents_since()?;
            Some(format!("before {} {major}.{minor}.{patch} they never do; ", harness.title()))
        });
        let since = since.unwrap_or_default();
        context.warn(&format!("no hook of its session has named an agent yet: {since}it may not be reached"));
    }
    if args.json {
        return output::print_json(&ordered);
    }
    let was = if ordered.repeat { "was already asked" } else { "is asked" };
    let when = match ordered.told_by {
        StopChannel::Hook => "ends after its running tool call or before its next",
        StopChannel::Publisher => {
            "its program gets the request: with the answer to the next event that it publishes, or by ACP"
        }
    };
    let line = format!("{} ({}) {was} to stop, and {when}", ordered.agent_id, ordered.title);
    output::print(&format!("{}\n", safe::line(&line, context.style(None).charset())))
}

/// Connects to the running hub. `hint` says what to do if none runs.
pub(crate) fn running_hub(hint: &str, context: &Context) -> Result<Client, CliError> {
    HubConnection::new(StartPolicy::Never, context)?.hub().map_err(|no_hub| match no_hub {
        NoHub::Unresponsive(why) => CliError::failed(why),
        NoHub::Failed(why) => CliError::failed(why).hint(hint),
        NoHub::NotWanted | NoHub::Locked => CliError::failed("no hub runs").hint(hint),
    })
}

/// Sends a stop request for a subagent to the running hub.
pub(crate) fn request_stop(
    session: Option<&str>,
    agent: &str,
    context: &Context,
) -> Result<Ordered, CliError> {
    let hint = "only a hub can ask the agent to stop: start `subscope serve`";
    running_hub(hint, context)?.stop(session, agent).map_err(|error| {
        if let ClientError::Refused { message, .. } = &error
            && !message.is_empty()
        {
            return CliError::failed(message).hint("`subscope tree last` shows who is at work");
        }
        CliError::from(error)
    })
}
