//! Goes to the terminal in which a session runs: finds its process, the terminal of that, and shows it. Nothing is ever
//! typed there.

#[cfg_attr(windows, path = "evidence_windows.rs")]
mod evidence;
mod processes;
mod terminals;

use std::{ffi::OsString, path::Path};

use subscope_harness::{harnesses, shell_command};
use subscope_model::{JUMPED_SCHEMA, JumpOutcome, Jumped, Session, Text};

use crate::HarnessHome;
use processes::SessionProcess;
use terminals::{Arrival, Place};

/// Goes to the terminal of a session, or says where it is, or how to resume the session. `caller_tmux` is the variable
/// `TMUX` of a caller with a terminal of its own: one inside the same tmux is taken along.
pub fn jump(session: &Session, homes: &[HarnessHome], caller_tmux: Option<OsString>) -> Jumped {
    let jumped = Jumped {
        schema: JUMPED_SCHEMA.into(),
        session_id: session.id.clone(),
        outcome: JumpOutcome::NotRunning,
        process: None,
        terminal: None,
        place: None,
        command: None,
        says: Text::default(),
    };
    if let Some(machine) = &session.machine {
        return Jumped { says: format!("it runs on {machine}, another machine").into(), ..jumped };
    }
    let Some(process) = SessionProcess::find(session, homes) else { return not_running(session, jumped) };
    let number = process.number;
    let Place { terminal, place, arrival } = terminals::go(&process, caller_tmux.as_deref());
    let at = [place.as_deref(), terminal.map(|_| "in"), terminal];
    let at = at.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let (outcome, command, says) = match arrival {
        Arrival::Shown => (JumpOutcome::Went, None, format!("went to {at}")),
        Arrival::Detached(command) => {
            (JumpOutcome::Detached, Some(command), format!("it runs at {at}, which no terminal shows"))
        }
        Arrival::Attachable(command) => {
            (JumpOutcome::Unreachable, Some(command), format!("it runs at {at}; a command attaches to it"))
        }
        Arrival::Failed(why) => {
            (JumpOutcome::Unreachable, None, format!("it runs at {at}, which cannot be shown: {why}"))
        }
        Arrival::NoCommand if at.is_empty() => {
            (JumpOutcome::Unreachable, None, format!("process {number} runs it, at no terminal"))
        }
        Arrival::NoCommand => (
            JumpOutcome::Unreachable,
            None,
            format!("process {number} runs it at {at}, to which no command goes"),
        ),
    };
    Jumped {
        outcome,
        process: Some(number),
        terminal: terminal.map(Text::from),
        place: place.map(Text::from),
        command: command.map(Text::from),
        says: says.into(),
        ..jumped
    }
}

fn not_running(session: &Session, jumped: Jumped) -> Jumped {
    let command = resume_command(session);
    let says = match &command {
        Some(_) => "no process of it was found; it can be resumed",
        None => "no process of it was found, and no command resumes it",
    };
    Jumped { command: command.map(Text::from), says: says.into(), ..jumped }
}

/// Returns the command that resumes a session in its folder; `None` where its harness has none, or a word of it has
/// characters that a terminal would obey.
fn resume_command(session: &Session) -> Option<String> {
    let name = session.harness.as_deref()?;
    let plan = harnesses().find(|harness| harness.name() == name)?.run()?;
    let is_plain = |text: &str| !text.chars().any(char::is_control) && !text.starts_with('-');
    let folder = session.cwd.as_deref();
    if !is_plain(&session.id) || !folder.is_none_or(is_plain) {
        return None;
    }
    let resume = shell_command(Path::new(plan.program()), &[plan.resume_option(), &session.id]);
    Some(match folder {
        Some(folder) => format!("{} && {resume}", shell_command(Path::new("cd"), &[folder])),
        None => resume,
    })
}

#[cfg(test)]
mod tests {
    use subscope_model::SessionId;

    use super::*;

    #[test]
    fn session_without_a_process_is_resumed_in_its_folder() {
        let session = |harness: &str, id: &str, cwd: &str| Session {
            id: SessionId::from(id),
            harness: Some(harness.into()),
            harness_version: None,
            cwd: Some(cwd.into()),
            project: None,
            title: None,
            started_at_ms: None,
            ended_at_ms: None,
            runs: 1,
            run_started_at_ms: None,
            machine: None,
            last_heard_ms: None,
            rev: None,
        };
        let command = |session: &Session| jump(session, &[], None).command.map(|command| command.to_string());
        assert_eq!(
            command(&session("claude-code", "59d3", "/home/me/it's")).as_deref(),
            Some(r"cd '/home/me/it'\''s' && claude --resume 59d3")
        );
        for (id, cwd) in [("--dangerous", "/x"), ("a\nrm", "/x"), ("a", "/x\u{1b}[2J")] {
            assert_eq!(command(&session("claude-code", id, cwd)), None, "{id:?} {cwd:?}");
        }
        let unknown = jump(&session("other", "59d3", "/x"), &[], None);
        assert_eq!((unknown.outcome, unknown.command), (JumpOutcome::NotRunning, None));
    }
}
