//! What a process of Claude Code notes of itself as long as it runs: `sessions/<process id>.json` in its home.
//!
//! It is no dialect, since it tells nothing that happens: it says which session a process is in. Observed: 2.1.330, for
//! interactive and one-shot processes alike; the file is removed when the process ends, unless it is killed.

use serde::Deserialize;
use subscope_model::Millis;

/// Where the notes stand, below the harness's home.
pub const FOLDER: &str = "sessions";

/// Which session a process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The process.
    pub process: i32,
    /// The session; another one after `/clear`.
    pub session: String,
    /// When the process began, by its clock. A note that was left behind is older than a process that has its number now.
    pub started_ms: Millis,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    pid: i32,
    session_id: String,
    started_at: Millis,
}

/// Reads a note; `None` where it is none, or is just being written.
pub fn read(bytes: &[u8]) -> Option<Note> {
    let Written { pid, session_id, started_at } = serde_json::from_slice(bytes).ok()?;
    Some(Note { process: pid, session: session_id, started_ms: started_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_names_its_process_and_session_and_half_a_note_nothing() {
        let text =
            r#"{"pid":4711,"sessionId":"5e55","cwd":"/x","startedAt":1795293783518,"kind":"interactive"}"#;
        let note = Note { process: 4711, session: "5e55".to_owned(), started_ms: 1_795_293_783_518 };
        assert_eq!(read(text.as_bytes()), Some(note));
        for cut in 0..text.len() {
            assert_eq!(read(&text.as_bytes()[..cut]), None);
        }
    }
}
