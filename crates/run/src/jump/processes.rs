//! Finds the process of a session: by the note that it keeps, by the session's file that it holds open for writing, or by
//! the session's id among its arguments.

use subscope_model::{Session, SessionId};
use subscope_platform::ProcessStart;

use super::evidence;
use crate::{HarnessHome, process_identity::has_made};

/// A process that runs a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionProcess {
    pub(super) number: i32,
    /// The tmux pane that it names, where its environment cannot be read.
    pub(super) noted_pane: Option<String>,
}

impl SessionProcess {
    /// Finds the process of a session; of several, one at a terminal before others, and the one that started last.
    pub(super) fn find(session: &Session, homes: &[HarnessHome]) -> Option<Self> {
        let of_harness = |home: &&HarnessHome| Some(home.harness.name()) == session.harness.as_deref();
        let homes: Vec<&HarnessHome> = homes.iter().filter(of_harness).collect();
        let noted = homes.iter().flat_map(|home| home.note_files()).filter_map(|file| {
            let note = file.read().filter(|note| SessionId::from_outside(&note.session) == session.id)?;
            let is_running = ProcessStart::of(note.process).is_some_and(|start| has_made(&start, &note));
            is_running.then_some(Self { number: note.process, noted_pane: note.tmux_pane })
        });
        let noted: Vec<Self> = noted.collect();
        let found = if noted.is_empty() { Self::with_evidence(&session.id, &homes) } else { noted };
        let rank = |process: &Self| {
            let start = ProcessStart::of(process.number).and_then(|start| start.ticks.parse::<u64>().ok());
            (evidence::terminal_of(process.number).is_some(), start, process.number)
        };
        found.into_iter().max_by_key(rank)
    }

    fn with_evidence(session: &SessionId, homes: &[&HarnessHome]) -> Vec<Self> {
        let found = evidence::processes_of(session, homes).into_iter();
        found.map(|number| Self { number, noted_pane: None }).collect()
    }
}
