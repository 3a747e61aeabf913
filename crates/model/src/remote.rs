//! What two hubs of one person say to each other: the lines of `subscope serve --stdio` on another machine, and those of
//! the hub that started it.

use serde::{Deserialize, Serialize};

use crate::{ContentLevel, Millis, Ordered, SessionId, Snapshot, SnapshotText, Text, Tree};

/// Schema version of [`RemoteLine`] and [`RemoteRequest`].
pub const REMOTE_SCHEMA: &str = "subscope.remote/1";

/// Most characters of the name of another machine.
const MAX_NAME: usize = 32;

/// What stands between the name of a machine and the id that a session has there.
const SEPARATOR: char = '~';

/// The first line of the other machine. What comes before it (a banner of a login) is not its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RemoteHello {
    /// Always [`REMOTE_SCHEMA`].
    pub schema: Text,
    /// Version of subscope there.
    pub version: Text,
    /// Name of the host.
    pub host: Text,
    /// Its clock.
    pub now_ms: Millis,
    /// Id of its store: a position in another one means nothing.
    pub store: Text,
    /// Number of sessions in its store.
    pub sessions: u64,
}

/// A line of the other machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum RemoteLine {
    /// The first line.
    Hello(RemoteHello),
    /// A session, whole: it replaces what came of it before.
    Session {
        /// Its rows.
        snapshot: Box<Snapshot>,
    },
    /// Everything up to a position has been sent.
    Position {
        /// The position.
        rev: u64,
        /// Whether that is everything that there is: from here on lines come as sessions change.
        is_caught_up: bool,
    },
    /// The answer to [`RemoteRequest::Clock`], and a sign of life.
    Clock {
        /// Time of the request, by the clock of the hub that asked.
        asked_ms: Millis,
        /// Time of the answer, by the clock of this machine.
        now_ms: Millis,
    },
    /// A part of the answer to [`RemoteRequest::Texts`].
    Texts {
        /// The session, as it is named there.
        session: SessionId,
        /// Its passages, in the order of their lines.
        texts: Vec<SnapshotText>,
        /// Whether it is the last part.
        is_last: bool,
        /// Why they cannot be read now; it is the last part then.
        unread: Option<Text>,
    },
    /// The answer to [`RemoteRequest::Stop`].
    Stop {
        /// Number of the request.
        number: u64,
        /// The order; `None` if it was refused.
        ordered: Option<Ordered>,
        /// Why it was refused.
        refused: Option<Text>,
    },
    /// A line of a newer version.
    #[serde(other)]
    Unknown,
}

/// A line of the hub that shows the other machine's sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum RemoteRequest {
    /// The first line: what is to be sent.
    Start {
        /// Always [`REMOTE_SCHEMA`].
        schema: Text,
        /// Level of content.
        content: ContentLevel,
        /// Id of the store in which `rev` is a position; empty at first.
        store: Text,
        /// Everything up to this position is known.
        rev: u64,
    },
    /// Asks for the time.
    Clock {
        /// Time of the request.
        asked_ms: Millis,
    },
    /// Asks for the passages of a session, to search them here; only at the level `text`.
    Texts {
        /// The session, as it is named there.
        session: SessionId,
    },
    /// Orders a subagent to stop.
    Stop {
        /// Number of the request, which the answer has.
        number: u64,
        /// The session, as it is named there.
        session: SessionId,
        /// The agent, or the beginning of its id.
        agent: Text,
    },
    /// A line of a newer version.
    #[serde(other)]
    Unknown,
}

/// State of the connection to another machine: `remote list --json`, `GET /healthz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RemoteMachine {
    /// Its name in the settings.
    pub name: Text,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Whether all of its sessions have come since it was connected.
    pub is_caught_up: bool,
    /// When it was last heard, by the clock of this machine; `None` if it was not since the hub started.
    pub last_heard_ms: Option<Millis>,
    /// Version of subscope there, as the next two known since it was connected.
    pub version: Option<Text>,
    /// Name of the host.
    pub host: Option<Text>,
    /// Number of sessions in its store when it was connected.
    pub sessions: Option<u64>,
    /// How far its clock is ahead of this machine's; measured at half of the round trip.
    pub clock_offset_ms: Option<Millis>,
    /// Time of the round trip of that measurement.
    pub round_trip_ms: Option<Millis>,
    /// Number of its sessions whose texts are not here, or older than their rows: a search may lack hits in them. `None`
    /// if that is not known, or its texts stay there (`content`).
    #[serde(default)]
    pub unsearched: Option<u64>,
    /// Why it is not connected.
    pub error: Option<Text>,
}

impl RemoteMachine {
    /// Whether all that was said there is found by a search here.
    pub fn is_searched(&self) -> bool {
        self.is_connected && self.is_caught_up && self.unsearched == Some(0)
    }
}

/// Schema version of [`RemoteMachines`].
pub const REMOTES_SCHEMA: &str = "subscope.remotes/1";

/// The other machines of the settings: `remote list --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RemoteMachines {
    /// Always [`REMOTES_SCHEMA`].
    pub schema: Text,
    /// Whether a hub runs that connects to them.
    pub is_hub_running: bool,
    /// In the order of the settings.
    pub remotes: Vec<RemoteMachine>,
}

/// Whether a text can be the name of another machine: lower-case letters, digits, `.`, `_` and `-`, at most 32, and it begins
/// with a letter or digit.
pub fn is_remote_name(name: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    name.len() <= MAX_NAME
        && name.chars().next().is_some_and(is_word)
        && name.chars().all(|letter| is_word(letter) || matches!(letter, '.' | '_' | '-'))
}

/// Returns the id that a session of another machine has here.
pub fn remote_session(machine: &str, session: &str) -> SessionId {
    SessionId::from_outside(&format!("{machine}{SEPARATOR}{session}"))
}

/// Returns the rows of another machine's session as this machine keeps them: under its id here, with the name of the
/// machine. `None` if the session is gone there.
pub fn remote_tree(machine: &str, snapshot: Snapshot) -> Option<Tree> {
    let mut tree = snapshot.tree.filter(|_| !snapshot.deleted)?;
    tree.session.id = remote_session(machine, &snapshot.row.id);
    tree.session.machine = Some(machine.into());
    tree.session.last_heard_ms = None;
    tree.session.project = snapshot.project;
    Some(tree)
}

impl SessionId {
    /// Returns the id that a session of a machine has there; `None` if it is none of that machine.
    pub fn on_machine(&self, machine: &str) -> Option<&str> {
        self.as_str().strip_prefix(machine)?.strip_prefix(SEPARATOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_of_other_machines() {
        for good in ["gpu1", "build-7.lan", "0_a"] {
            assert!(is_remote_name(good), "{good}");
        }
        for bad in ["", "GPU", "-o", "a~b", "a/b", "a b", "\u{1b}", &"a".repeat(33)] {
            assert!(!is_remote_name(bad), "{bad:?}");
        }
        let id = remote_session("gpu1", "aa151f21");
        assert_eq!(id.as_str(), "gpu1~aa151f21");
        assert_eq!((id.on_machine("gpu1"), id.on_machine("gpu")), (Some("aa151f21"), None));
    }

    #[test]
    fn lines_of_newer_versions_are_known_as_such() {
        let newer = r#"{"line":"weather","wind":3}"#;
        assert_eq!(serde_json::from_str::<RemoteLine>(newer).unwrap(), RemoteLine::Unknown);
        assert_eq!(serde_json::from_str::<RemoteRequest>(newer).unwrap(), RemoteRequest::Unknown);
        let stop = RemoteRequest::Stop { number: 3, session: "s".into(), agent: "a1".into() };
        let json = serde_json::to_string(&stop).unwrap();
        assert_eq!(json, r#"{"line":"stop","number":3,"session":"s","agent":"a1"}"#);
        assert_eq!(serde_json::from_str::<RemoteRequest>(&json).unwrap(), stop);
    }
}
