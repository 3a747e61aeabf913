//! Watches the processes of all sessions of the machine, including those that subscope did not start: harnesses write
//! nothing when they are killed, or when they exit while subagents run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, SystemTime},
};

use subscope_harness::ProcessNote;
use subscope_hub::HubHandle;
use subscope_model::{Millis, ProcessActivity, SessionId};
use subscope_platform::ProcessStart;

use crate::{
    HarnessHome,
    process_end::{self, NotedActivity},
    process_identity::has_made,
};

/// Interval at which processes are looked at: an end is published within a second.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Number of looks after a note was written at which a session that the hub does not know is tried again: its
/// transcript may not be read yet. One without a prompt becomes known at the next change of its note.
const MAX_TRIES: u32 = 20;
/// Number of looks after which a wait for the user that goes on is reported to the hub again: ten minutes.
const REMIND_AFTER: u32 = 1_200;

/// The processes whose notes were read.
#[derive(Debug, Default)]
struct Watched(BTreeMap<i32, WatchedProcess>);

#[derive(Debug)]
struct WatchedProcess {
    note: ProcessNote,
    modified: SystemTime,
    state: ProcessState,
    /// The activity that was last reported to the hub.
    reported: Option<(ProcessActivity, Millis)>,
    /// Looks since the note was written, or its activity was reported.
    looks: u32,
}

/// What a look found.
#[derive(Debug, Default, PartialEq, Eq)]
struct LookResult {
    /// The sessions whose process was seen and has ended since the last look.
    gone: Vec<SessionId>,
    /// Activities of running processes that are to be reported to the hub.
    noted: Vec<NotedActivity>,
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

/// Reports to the hub what the processes of sessions do, and which sessions have lost theirs, until the other end of
/// `ended` is dropped.
pub fn watch_processes(homes: &[HarnessHome], hub: &HubHandle, ended: &Receiver<()>) {
    let mut watched = Watched::default();
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(WATCH_INTERVAL) {
        let LookResult { gone, noted } = watched.look(homes, ProcessStart::of);
        if !gone.is_empty() {
            process_end::report_gone(hub, &gone);
        }
        watched.record_reported(&process_end::report_activities(hub, &noted), &noted);
    }
}

impl Watched {
    /// Looks at all notes and their processes. `start` tells when a running process started.
    fn look(&mut self, homes: &[HarnessHome], start: impl Fn(i32) -> Option<ProcessStart>) -> LookResult {
        let mut listed = BTreeSet::new();
        let LookResult { mut gone, mut noted } = LookResult::default();
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
                    if known.note.session != note.session && known.reported.take().is_some() {
                        noted.push(NotedActivity {
                            process: file.process,
                            session: SessionId::from_outside(&known.note.session),
                            activity: ProcessActivity::Elsewhere,
                            since_ms: note.activity.map_or(note.started_ms, |(_, since_ms)| since_ms),
                        });
                    }
                    (known.note, known.modified, known.looks) = (note, modified, 0);
                }
                None => {
                    let state = ProcessState::Unseen;
                    let process = WatchedProcess { note, modified, state, reported: None, looks: 0 };
                    self.0.insert(file.process, process);
                }
            }
        }
        self.0.retain(|number, process| {
            let running = start(*number).filter(|start| match &process.state {
                ProcessState::Running(seen) => start.ticks == seen.ticks,
                ProcessState::Unseen | ProcessState::Ended => has_made(start, &process.note),
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
            let is_running = matches!(process.state, ProcessState::Running(_));
            noted.extend(process.unreported().filter(|_| is_running));
            listed.contains(number) || is_running
        });
        LookResult { gone, noted }
    }

    /// Records that the activities of these processes were reported.
    fn record_reported(&mut self, processes: &[i32], noted: &[NotedActivity]) {
        for noted in noted.iter().filter(|noted| processes.contains(&noted.process)) {
            let process = self.0.get_mut(&noted.process);
            let is_of = |process: &&mut WatchedProcess| {
                SessionId::from_outside(&process.note.session) == noted.session
            };
            if let Some(process) = process.filter(is_of) {
                (process.reported, process.looks) = (Some((noted.activity, noted.since_ms)), 0);
            }
        }
    }
}

impl WatchedProcess {
    /// Returns the activity of the process if it is to be reported now.
    fn unreported(&mut self) -> Option<NotedActivity> {
        let (activity, since_ms) = self.note.activity?;
        self.looks = self.looks.saturating_add(1);
        let is_due = if self.reported == self.note.activity {
            activity.wait().is_some() && self.looks > REMIND_AFTER
        } else {
            self.looks <= MAX_TRIES
        };
        let session = SessionId::from_outside(&self.note.session);
        is_due.then_some(NotedActivity { process: self.note.process, session, activity, since_ms })
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
        let looked = watched.look(homes, |process| {
            let (_, ticks) = running.iter().find(|(number, _)| *number == process)?;
            Some(ProcessStart { ticks: ticks.to_string(), at_ms: None })
        });
        looked.gone
    }

    #[test]
    fn what_a_process_does_is_reported_until_the_hub_knows_its_session() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path();
        let homes = [home(notes)];
        let mut watched = Watched::default();
        let start = |ticks: u64| move |_| Some(ProcessStart { ticks: ticks.to_string(), at_ms: None });
        let write = |session: &str, status: &str, since: u64| {
            let note = format!(
                r#"{{"pid":11,"sessionId":"{session}","startedAt":5,"procStart":"1","status":{status},"statusUpdatedAt":{since}}}"#
            );
            fs::write(notes.join("11.json"), note).unwrap();
            touch(notes, 11, since);
        };
        let noted = |session: &str, activity, since_ms| {
            vec![NotedActivity { process: 11, session: SessionId::from_outside(session), activity, since_ms }]
        };
        let asks = r#""waiting","waitingFor":"permission prompt""#;
        write("s", r#""busy""#, 6);
        assert_eq!(watched.look(&homes, start(2)).noted, [], "the process of the note does not run");
        assert_eq!(watched.look(&homes, start(1)).noted, noted("s", ProcessActivity::Busy, 6));
        let again = watched.look(&homes, start(1)).noted;
        assert_eq!(again, noted("s", ProcessActivity::Busy, 6), "the hub did not know the session");
        watched.record_reported(&[], &again);
        watched.record_reported(&[11], &again);
        assert_eq!(watched.look(&homes, start(1)).noted, []);
        write("s", asks, 7);
        let asking = noted("s", ProcessActivity::Permission, 7);
        assert_eq!(watched.look(&homes, start(1)).noted, asking);
        watched.record_reported(&[11], &asking);
        let reminders = (0..2_500).filter(|_| {
            let looked = watched.look(&homes, start(1)).noted;
            watched.record_reported(&[11], &looked);
            looked == asking
        });
        assert_eq!(reminders.count(), 2, "a wait that goes on is not forgotten");
        write("t", asks, 8);
        let other = noted("t", ProcessActivity::Permission, 8);
        let looked = watched.look(&homes, start(1)).noted;
        assert_eq!(
            looked,
            [noted("s", ProcessActivity::Elsewhere, 8), other.clone()].concat(),
            "as by /clear"
        );
        watched.record_reported(&[11], &looked[..1]);
        let tries = (0..100).filter(|_| watched.look(&homes, start(1)).noted == other).count();
        assert_eq!(tries, MAX_TRIES as usize - 1, "of a session that the hub does not know");
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
