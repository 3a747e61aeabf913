//! Watches the processes of all sessions of the machine, including those that subscope did not start: harnesses write
//! nothing when they are killed, or when they exit while subagents run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, SystemTime},
};

use subscope_harness::ProcessNote;
use subscope_hub::HubHandle;
use subscope_model::SessionId;

use crate::{HarnessHome, process_end, process_identity::ProcessStart};

/// Interval at which processes are looked at: an end is published within a second.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// The processes whose notes were read.
#[derive(Debug, Default)]
struct Watched(BTreeMap<i32, WatchedProcess>);

#[derive(Debug)]
struct WatchedProcess {
    note: ProcessNote,
    modified: SystemTime,
    state: ProcessState,
}

/// What is known of the process that made a note.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProcessState {
    /// It was never seen: it ended before, or has process numbers of its own, as in a container. Whether its note stays
    /// or vanishes says nothing of it: other programs remove the notes of processes that they do not see.
    Unseen,
    /// It runs, as far as was seen. A note that vanishes is no end.
    Running(ProcessStart),
    /// It has ended, which was reported.
    Ended,
}

/// Reports to the hub which sessions have lost their process, until the other end of `ended` is dropped.
pub fn watch_processes(homes: &[HarnessHome], hub: &HubHandle, ended: &Receiver<()>) {
    let mut watched = Watched::default();
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(WATCH_INTERVAL) {
        let gone = watched.look(homes, ProcessStart::of);
        if !gone.is_empty() {
            process_end::report_gone(hub, &gone);
        }
    }
}

impl Watched {
    /// Looks at all notes and their processes. Returns the sessions whose process was seen and has ended since the last
    /// look. `start` tells when a running process started.
    fn look(&mut self, homes: &[HarnessHome], start: impl Fn(i32) -> Option<ProcessStart>) -> Vec<SessionId> {
        let mut listed = BTreeSet::new();
        for file in homes.iter().flat_map(HarnessHome::note_files) {
            listed.insert(file.process);
            let known = self.0.get_mut(&file.process);
            let Some(modified) = file.modified() else { continue };
            if known.as_ref().is_some_and(|known| known.modified == modified) {
                continue;
            }
            // Half a note, or one that cannot be read, is read again at the next look.
            let Some(note) = file.read() else { continue };
            match known {
                Some(known) => {
                    // The same process in another session, or another process with the same number.
                    if matches!(known.state, ProcessState::Ended) {
                        known.state = ProcessState::Unseen;
                    }
                    (known.note, known.modified) = (note, modified);
                }
                None => {
                    let process = WatchedProcess { note, modified, state: ProcessState::Unseen };
                    self.0.insert(file.process, process);
                }
            }
        }
        let mut gone = Vec::new();
        self.0.retain(|number, process| {
            let running = start(*number).filter(|start| match &process.state {
                ProcessState::Running(seen) => start.ticks == seen.ticks,
                ProcessState::Unseen | ProcessState::Ended => start.is_of(&process.note),
            });
            process.state = match (&process.state, running) {
                (ProcessState::Ended, _) => ProcessState::Ended,
                (_, Some(start)) => ProcessState::Running(start),
                (ProcessState::Running(_), None) => {
                    gone.push(SessionId::from_outside(&process.note.session));
                    ProcessState::Ended
                }
                (ProcessState::Unseen, None) => ProcessState::Unseen,
            };
            listed.contains(number) || matches!(process.state, ProcessState::Running(_))
        });
        gone
    }
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

    /// Writes the note of a process that started at a tick.
    fn write(notes: &Path, process: i32, ticks: u64, session: &str) {
        let note = format!(
            r#"{{"pid":{process},"sessionId":"{session}","startedAt":5,"procStart":"{ticks}","entrypoint":"cli"}}"#
        );
        fs::write(notes.join(format!("{process}.json")), note).unwrap();
    }

    fn ids(sessions: &[&str]) -> Vec<SessionId> {
        sessions.iter().map(|id| SessionId::from_outside(id)).collect()
    }

    /// Looks while these processes run, given with the ticks of their starts.
    fn look(watched: &mut Watched, homes: &[HarnessHome], running: &[(i32, u64)]) -> Vec<SessionId> {
        watched.look(homes, |process| {
            let (_, ticks) = running.iter().find(|(number, _)| *number == process)?;
            Some(ProcessStart { ticks: ticks.to_string(), at_ms: None })
        })
    }

    #[test]
    fn process_has_ended_once_it_is_gone_whatever_became_of_its_note() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path();
        let homes = [home(notes)];
        let mut watched = Watched::default();
        let mut look = |running: &[(i32, u64)]| look(&mut watched, &homes, running);
        write(notes, 11, 1, "killed");
        write(notes, 12, 2, "leaves");
        write(notes, 13, 3, "elsewhere");
        write(notes, 14, 4, "its note vanishes");
        fs::write(notes.join("15.json"), "{\"pid\":15,").unwrap();
        assert_eq!(look(&[(11, 1), (12, 2), (14, 4), (15, 5)]), ids(&[]));
        write(notes, 15, 5, "half a note before");
        fs::remove_file(notes.join("12.json")).unwrap();
        fs::remove_file(notes.join("14.json")).unwrap();
        assert_eq!(look(&[(14, 4), (15, 5)]), ids(&["killed", "leaves"]));
        assert_eq!(look(&[(14, 4), (15, 5)]), ids(&[]), "each once");
        // Never seen: its numbers may be those of a container, and another program may have removed its note.
        fs::remove_file(notes.join("13.json")).unwrap();
        assert_eq!(look(&[(14, 4), (15, 5)]), ids(&[]));
        // The whole folder is gone; the processes are not.
        fs::remove_dir_all(notes).unwrap();
        assert_eq!(look(&[(14, 4), (15, 5)]), ids(&[]));
        assert_eq!(look(&[(15, 5)]), ids(&["its note vanishes"]));
        assert_eq!(look(&[]), ids(&["half a note before"]));
    }

    #[test]
    fn number_given_to_another_process_is_an_end_of_the_one_that_was_seen_alone() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path();
        let homes = [home(notes)];
        let mut watched = Watched::default();
        let mut look = |running: &[(i32, u64)]| look(&mut watched, &homes, running);
        write(notes, 11, 1, "seen");
        write(notes, 12, 2, "stale");
        assert_eq!(look(&[(11, 1), (12, 99)]), ids(&[]));
        assert_eq!(look(&[(11, 98), (12, 99)]), ids(&["seen"]));
        assert_eq!(look(&[(11, 98)]), ids(&[]), "the process with that number now was never the session's");
        // The new process makes a note of its own.
        write(notes, 11, 98, "next");
        touch(notes, 11, 1);
        assert_eq!(look(&[(11, 98)]), ids(&[]));
        assert_eq!(look(&[]), ids(&["next"]));
    }

    #[test]
    fn process_that_goes_on_in_another_session_has_not_ended() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path();
        let homes = [home(notes)];
        let mut watched = Watched::default();
        let mut look = |running: &[(i32, u64)]| look(&mut watched, &homes, running);
        write(notes, 11, 1, "first");
        assert_eq!(look(&[(11, 1)]), ids(&[]));
        write(notes, 11, 1, "second");
        touch(notes, 11, 0);
        assert_eq!(look(&[(11, 1)]), ids(&[]));
        assert_eq!(look(&[]), ids(&["second"]));
    }

    fn touch(notes: &Path, process: i32, seconds: u64) {
        let file = fs::File::options().write(true).open(notes.join(format!("{process}.json"))).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
}
