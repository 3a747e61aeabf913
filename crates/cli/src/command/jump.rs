//! `subscope jump`: goes to the terminal in which a session runs, or says where it is and how to get there.

use subscope_model::{JumpOutcome, Jumped, NeedGroup, SessionId};

use crate::{
    command::{harness_homes::homes, history::show::one_agent},
    hub_connection::LAST,
    prelude::*,
};

/// Agents with one prefix that are looked at: two are one too many.
const MAX_FOUND: usize = 2;

pub(crate) fn run(args: &JumpArgs, context: &Context) -> Result<(), CliError> {
    let mut backend = Backend::open(Needs::Rows, context)?;
    let session = match &args.agent {
        Some(word) => session_of(word, &mut backend)?,
        None => first_that_waits(&mut backend, context)?,
    };
    let jumped = go(&session, &mut backend, context)?;
    if args.json {
        return output::print_json(&jumped);
    }
    let Jumped { outcome, says, command, .. } = jumped;
    match (outcome, command) {
        (JumpOutcome::Went, _) => output::print_line(&says, context),
        (_, Some(command)) => {
            Err(CliError::failed(says.to_string()).hint(format!("this leads there: {command}")))
        }
        (_, None) => Err(CliError::failed(says.to_string())),
    }
}

/// Goes to the terminal of a session.
pub(crate) fn go(session: &SessionId, backend: &mut Backend, context: &Context) -> Result<Jumped, CliError> {
    let unknown = || CliError::failed(format!("the store has no agents of session {session}"));
    let tree = backend.queries().tree(session)?.ok_or_else(unknown)?;
    // Inside tmux, the client that shows this command is the one to take along.
    let caller_tmux = context.environment.get("TMUX");
    Ok(subscope_run::jump(&tree.session, &homes(context), caller_tmux))
}

/// Returns the session that a word names: as SESSION/AGENT, by its own id, or by that of an agent if no session has it.
fn session_of(word: &str, backend: &mut Backend) -> Result<SessionId, CliError> {
    let session = word.split_once('/').map_or(word, |(session, _)| session);
    let found = backend.queries().names(word, MAX_FOUND)?;
    if word != LAST && found.sessions.is_empty() && !found.agents.is_empty() {
        return one_agent(&found.agents, word).map(|agent| agent.session_id);
    }
    backend.session(session)
}

/// Returns the first session of the inbox that waits for its user.
fn first_that_waits(backend: &mut Backend, context: &Context) -> Result<SessionId, CliError> {
    let inbox = backend.queries().inbox(context.now_ms())?;
    let waits = inbox.entries.into_iter().map(|entry| entry.session);
    let mut waits = waits.filter(|row| row.need.as_ref().is_some_and(|need| need.group == NeedGroup::Waits));
    waits.next().map(|row| row.id).ok_or_else(|| {
        CliError::failed("no session waits for you")
            .hint("name one: `subscope ls --live` lists those at work")
    })
}
