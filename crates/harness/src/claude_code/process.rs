//! The file that each process of Claude Code keeps while it runs: `sessions/<process id>.json` in its home.
//!
//! It is not a dialect, since it reports no events: it names the session of a process. Observed: 2.1.110, 2.1.197
//! and 2.1.330, for one-shot processes too (2.1.80 makes it for interactive ones only); the file is there before the
//! model is asked for anything, and removed when the process ends, unless it is killed.

use std::ffi::OsStr;

use serde::Deserialize;
use subscope_model::Millis;

use crate::ProcessNote;

/// Folder of the notes, below the harness's home.
pub(super) const FOLDER: &str = "sessions";

/// Value of `entrypoint` for an interactive process; one-shot ones are `sdk-cli`.
const AT_TERMINAL: &str = "cli";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    pid: i32,
    session_id: String,
    started_at: Millis,
    /// Not in notes of 2.1.197.
    proc_start: Option<String>,
    entrypoint: Option<String>,
}

/// Returns the process whose note a file of this name is.
pub(super) fn process_of(name: &OsStr) -> Option<i32> {
    name.to_str()?.strip_suffix(".json")?.parse().ok()
}

/// Reads a note; `None` where it is none, or is just being written.
pub(super) fn read(bytes: &[u8]) -> Option<ProcessNote> {
    let Written { pid, session_id, started_at, proc_start, entrypoint } =
        serde_json::from_slice(bytes).ok()?;
    Some(ProcessNote {
        process: pid,
        session: session_id,
        started_ms: started_at,
        start_ticks: proc_start,
        has_screen: entrypoint.is_some_and(|word| word == AT_TERMINAL),
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
        };
        assert_eq!(read(text.as_bytes()), Some(note.clone()));
        let at_terminal = text.replace("sdk-cli", "cli");
        assert_eq!(read(at_terminal.as_bytes()), Some(ProcessNote { has_screen: true, ..note.clone() }));
        let with_start = text.replace(r#""kind""#, r#""procStart":"123128","kind""#);
        let start_ticks = Some("123128".to_owned());
        assert_eq!(read(with_start.as_bytes()), Some(ProcessNote { start_ticks, ..note }));
        for cut in 0..text.len() {
            assert_eq!(read(&text.as_bytes()[..cut]), None);
        }
    }
}
