//! Asks the running hub which agents of a connection a user wants to stop.

use subscope_harness::acp::StoppableChild;
use subscope_model::{AgentId, Flag, SessionId};
use subscope_query::Queries as _;

use crate::{
    hub_connection::{HubConnection, StartPolicy},
    prelude::*,
};

/// Returns the function that asks whether a user wants an agent to stop. Without a hub no user can. `None` if no hub can be
/// asked.
pub(super) fn stop_requests(context: &Context) -> Option<impl FnMut(&StoppableChild) -> bool + Send + use<>> {
    let mut hub = HubConnection::new(StartPolicy::Never, context).ok()?;
    let mut client = None;
    Some(move |child: &StoppableChild| {
        let Some(mut connected) = client.take().or_else(|| hub.hub().ok()) else { return false };
        let (session, agent) = (SessionId::from_outside(&child.root), AgentId::from_outside(&child.agent));
        let Ok(found) = connected.agent(Some(&session), &agent) else { return false };
        client = Some(connected);
        found.is_some_and(|found| found.agent.has(Flag::Stopping))
    })
}
