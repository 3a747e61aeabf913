//! Watches the processes of all sessions of the machine, including those that subscope did not start: harnesses write
//! nothing when they are killed, or when they exit while subagents run.

use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, SystemTime},
};

use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use subscope_hub::HubHandle;
use subscope_model::SessionId;

use crate::{HarnessHome, process_end};

/// Interval at which processes are looked at: an end is published within a second.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// The processes whose files were there at the last look.
#[derive(Debug, Default)]
struct Watched(BTreeMap<i32, WatchedProcess>);

#[derive(Debug)]
struct WatchedProcess {
    session: SessionId,
    modified: SystemTime,
    /// Whether it was seen alive. It never is if it has its own process numbers, as in a container.
    was_alive: bool,
    /// Whether its end was returned.
    has_ended: bool,
}

/// Reports to the hub which sessions have lost their process, until the other end of `ended` is dropped.
pub fn watch_processes(homes: &[HarnessHome], hub: &HubHandle, ended: &Receiver<()>) {
    let mut watched = Watched::default();
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(WATCH_INTERVAL) {
        let gone = watched.look(homes, is_alive);
        if !gone.is_empty() {
            process_end::report_gone(hub, &gone);
        }
    }
}

impl Watched {
    /// Looks at all process files and returns the sessions whose process has ended since the last look: it has removed
    /// its file, or was seen alive and no longer exists.
    fn look(&mut self, homes: &[HarnessHome], is_alive: impl Fn(i32) -> bool) -> Vec<SessionId> {
        let mut gone = Vec::new();
        let mut before = std::mem::take(&mut self.0);
        for file in homes.iter().flat_map(HarnessHome::note_files) {
            let Some(modified) = file.modified() else { continue };
            let known = before.remove(&file.process);
            let mut process = match known {
                Some(known) if known.modified == modified => known,
                known => {
                    // Half a note is read again at the next look.
                    let Some(note) = file.read() else {
                        self.0.extend(known.map(|known| (file.process, known)));
                        continue;
                    };
                    let session = SessionId::from(note.session.as_str());
                    WatchedProcess { session, modified, was_alive: false, has_ended: false }
                }
            };
            let is_alive = is_alive(file.process);
            if process.was_alive && !is_alive && !process.has_ended {
                process.has_ended = true;
                gone.push(process.session.clone());
            }
            process.was_alive |= is_alive;
            self.0.insert(file.process, process);
        }
        gone.extend(before.into_values().filter(|process| !process.has_ended).map(|process| process.session));
        gone
    }
}

/// Whether a process exists, that of another user included.
fn is_alive(process: i32) -> bool {
    kill(Pid::from_raw(process), None) != Err(Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use subscope_harness::{HARNESSES, Harness};

    use super::*;

    fn home(notes: &Path) -> HarnessHome {
        let with_notes = |harness: &'static dyn Harness| Some((harness, harness.run()?.notes()?));
        let (harness, form) = HARNESSES.iter().copied().find_map(with_notes).unwrap();
        HarnessHome { harness, notes: Some((form, notes.to_owned())), roots: Vec::new() }
    }

    fn write(notes: &Path, process: i32, session: &str) {
        let note = format!(r#"{{"pid":{process},"sessionId":"{session}","startedAt":5,"entrypoint":"cli"}}"#);
        fs::write(notes.join(format!("{process}.json")), note).unwrap();
    }

    fn ids(sessions: &[&str]) -> Vec<SessionId> {
        sessions.iter().map(|id| SessionId::from(*id)).collect()
    }

    #[test]
    fn process_has_ended_once_its_file_or_itself_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path();
        let homes = [home(notes)];
        let mut watched = Watched::default();
        write(notes, 11, "killed");
        write(notes, 12, "leaves");
        write(notes, 13, "elsewhere");
        write(notes, 14, "left behind");
        fs::write(notes.join("15.json"), "{\"pid\":15,").unwrap();
        let mut look = |alive: &[i32]| watched.look(&homes, |process| alive.contains(&process));
        assert_eq!(look(&[11, 12, 15]), ids(&[]));
        write(notes, 15, "half a note before");
        fs::remove_file(notes.join("12.json")).unwrap();
        assert_eq!(look(&[15]), ids(&["killed", "leaves"]));
        assert_eq!(look(&[15]), ids(&[]), "each once");
        // Never seen alive: its numbers may be those of a container.
        fs::remove_file(notes.join("13.json")).unwrap();
        fs::remove_file(notes.join("11.json")).unwrap();
        assert_eq!(look(&[15]), ids(&["elsewhere"]));
        assert_eq!(look(&[]), ids(&["half a note before"]));
    }

    #[test]
    fn process_that_goes_on_in_another_session_has_not_ended() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path();
        let homes = [home(notes)];
        let mut watched = Watched::default();
        write(notes, 11, "first");
        assert_eq!(watched.look(&homes, |_| true), ids(&[]));
        write(notes, 11, "second");
        let file = fs::File::options().write(true).open(notes.join("11.json")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(watched.look(&homes, |_| true), ids(&[]));
        assert_eq!(watched.look(&homes, |_| false), ids(&["second"]));
    }
}
