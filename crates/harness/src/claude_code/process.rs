//! The file that each process of Claude Code keeps while it runs: `sessions/<process id>.json` in its home.
//!
//! It is not a dialect, since it reports no events: it names the session of a process. Observed: 2.1.110, 2.1.197
//! and 2.1.330, for one-shot processes too (2.1.80 makes it for interactive ones only); the file is there before the
//! model is asked for anything, and removed when the process ends, unless it is killed. From 2.1.330 on (or somewhat
//! before) it says what the process does, and is written again at each change, 0.6 s later at most.

use std::ffi::OsStr;

use serde::Deserialize;
use subscope_model::{Millis, ProcessActivity};

use crate::ProcessNote;

/// Folder of the notes, below the harness's home.
pub(super) const FOLDER: &str = "sessions";

/// Value of `entrypoint` for an interactive process; one-shot ones are `sdk-cli`.
const AT_TERMINAL: &str = "cli";

/// Value of `waitingFor` while a permission is asked.
const PERMISSION_PROMPT: &str = "permission prompt";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    pid: i32,
    session_id: String,
    started_at: Millis,
    /// Not in notes of 2.1.197.
    proc_start: Option<String>,
    entrypoint: Option<String>,
    status: Option<String>,
    status_updated_at: Option<Millis>,
    waiting_for: Option<String>,
    /// `SESSION:@WINDOW.%PANE`.
    tmux: Option<String>,
}

/// Returns what the process does; `None` for a word that is not known.
fn activity(status: &str, waiting_for: Option<&str>) -> Option<ProcessActivity> {
    match (status, waiting_for) {
        ("idle", _) => Some(ProcessActivity::Idle),
        ("busy", _) => Some(ProcessActivity::Busy),
        ("waiting", Some(PERMISSION_PROMPT)) => Some(ProcessActivity::Permission),
        // Observed: `input needed`, for AskUserQuestion.
        ("waiting", _) => Some(ProcessActivity::Input),
        _ => None,
    }
}

/// Returns the pane's id of a place in tmux.
fn pane(place: &str) -> Option<&str> {
    let at = place.rfind(".%")? + 1;
    let pane = place.get(at..)?;
    pane[1..].bytes().all(|byte| byte.is_ascii_digit()).then_some(pane).filter(|pane| pane.len() > 1)
}

/// Returns the process whose note a file of this name is.
pub(super) fn process_of(name: &OsStr) -> Option<i32> {
    name.to_str()?.strip_suffix(".json")?.parse().ok()
}

/// Reads a note; `None` where it is none, or is just being written.
pub(super) fn read(bytes: &[u8]) -> Option<ProcessNote> {
    let Written {
        pid,
        session_id,
        started_at,
        proc_start,
        entrypoint,
        status,
        status_updated_at,
        waiting_for,
        tmux,
    } = serde_json::from_slice(bytes).ok()?;
    let activity = status.and_then(|status| activity(&status, waiting_for.as_deref())).zip(status_updated_at);
    Some(ProcessNote {
        process: pid,
        session: session_id,
        started_ms: started_at,
        start_ticks: proc_start,
        has_screen: entrypoint.is_some_and(|word| word == AT_TERMINAL),
        activity,
        tmux_pane: tmux.and_then(|place| pane(&place).map(str::to_owned)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_names_its_process_and_session_and_half_a_note_nothing() {
        let text = r#"{"pid":4711,"sessionId":"5e55","cwd":"/x","startedAt":1795293783518,"kind":"interactive","entrypoint":"sdk-cli"}"#;
        let note = ProcessNote {
            process: 4711,
            session: "5e55".to_owned(),
            started_ms: 1_795_293_783_518,
            start_ticks: None,
            has_screen: false,
            activity: None,
            tmux_pane: None,
        };
        assert_eq!(read(text.as_bytes()), Some(note.clone()));
        let at_terminal = text.replace("sdk-cli", "cli");
        assert_eq!(read(at_terminal.as_bytes()), Some(ProcessNote { has_screen: true, ..note.clone() }));
        for (place, pane) in
            [("s1:@0.%0", Some("%0")), ("a.%b:@12.%34", Some("%34")), ("s1:@0.%", None), ("s1", None)]
        {
            let with_place = text.replace(r#""kind""#, &format!(r#""tmux":"{place}","kind""#));
            let tmux_pane = pane.map(str::to_owned);
            assert_eq!(
                read(with_place.as_bytes()),
                Some(ProcessNote { tmux_pane, ..note.clone() }),
                "{place}"
            );
        }
        let with_start = text.replace(r#""kind""#, r#""procStart":"123128","kind""#);
        let start_ticks = Some("123128".to_owned());
        assert_eq!(read(with_start.as_bytes()), Some(ProcessNote { start_ticks, ..note.clone() }));
        for (words, activity) in [
            (r#""status":"idle","#, ProcessActivity::Idle),
            (r#""status":"busy","#, ProcessActivity::Busy),
            (r#""status":"waiting","waitingFor":"permission prompt","#, ProcessActivity::Permission),
            (r#""status":"waiting","waitingFor":"input needed","#, ProcessActivity::Input),
            (r#""status":"waiting","#, ProcessActivity::Input),
        ] {
            let at = |words: &str| text.replace(r#""kind""#, &format!(r#"{words}"kind""#));
            let with_time = at(&format!(r#"{words}"statusUpdatedAt":7,"#));
            let activity = Some((activity, 7));
            assert_eq!(read(with_time.as_bytes()), Some(ProcessNote { activity, ..note.clone() }), "{words}");
            assert_eq!(read(at(words).as_bytes()), Some(note.clone()), "without its time it says nothing");
        }
        let other = text.replace(r#""kind""#, r#""status":"dreaming","statusUpdatedAt":7,"kind""#);
        assert_eq!(read(other.as_bytes()), Some(note));
        for cut in 0..text.len() {
            assert_eq!(read(&text.as_bytes()[..cut]), None);
        }
    }
}
