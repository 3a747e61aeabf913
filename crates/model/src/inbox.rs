//! The inbox: which sessions need a person, and what ended since the user last looked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AgentStatus, Attention, MicroUsd, Millis, NeedGroup, SessionId, SessionRow, Text};

/// Schema version of [`Inbox`].
pub const INBOX_SCHEMA: &str = "subscope.inbox/1";

/// Most ended sessions listed.
const MAX_ENDED: usize = 200;

/// A lost session is noticed at most this long after its last event. One whose row changed after the user had looked ended
/// unseen, if it is not older.
const NOTICED_WITHIN_MS: Millis = 60 * 60_000;

/// What the user has seen, of all sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Looks {
    /// Until when the user has seen what ended; `None` if that is not kept.
    pub seen_until_ms: Option<Millis>,
    /// The facts that the user has dismissed, by session ([`crate::SessionNeed::facts`], [`SessionRow::end_fact`]).
    pub dismissed: BTreeMap<SessionId, Vec<Text>>,
}

/// A session that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InboxEntry {
    /// The session; its `need` has the agents and the reasons.
    pub session: SessionRow,
    /// What identifies the need: the facts that a dismissal names.
    pub facts: Vec<Text>,
}

/// What needs the user, and what ended since the user last looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Inbox {
    /// Always [`INBOX_SCHEMA`].
    pub schema: Text,
    /// Number of sessions that wait for the user.
    pub waits: u32,
    /// Number of sessions in trouble.
    pub trouble: u32,
    /// Number of sessions that may wait for the user.
    pub perhaps: u32,
    /// The sessions that need the user and were not dismissed, the most urgent first.
    pub entries: Vec<InboxEntry>,
    /// Until when the user has seen what ended; `None` if that is not kept, and nothing is listed as ended then.
    pub seen_until_ms: Option<Millis>,
    /// Number of sessions that finished since then.
    pub finished: u32,
    /// Number of sessions that failed since then.
    pub failed: u32,
    /// Number of sessions that were stopped since then.
    pub stopped: u32,
    /// Number of sessions that were lost since then, and ask for nobody.
    pub lost: u32,
    /// The sessions that ended since then, the newest first; the first 200.
    pub ended: Vec<SessionRow>,
    /// Cost of all sessions with an event since then; `None` if no price is known.
    pub cost_micro_usd: Option<MicroUsd>,
    /// Whether the cost is a lower bound.
    pub cost_floor: bool,
    /// Time of this answer.
    pub at_ms: Millis,
}

impl Looks {
    /// Whether the user has dismissed all these facts of a session. A new one brings the session back.
    fn has_dismissed(&self, session: &SessionId, facts: &[Text]) -> bool {
        let dismissed = self.dismissed.get(session);
        dismissed.is_some_and(|dismissed| facts.iter().all(|fact| dismissed.contains(fact)))
    }

    /// Whether a session has an event, or was found lost, after the user had looked.
    fn is_news(&self, row: &SessionRow) -> bool {
        let (Some(seen), Some(last)) = (self.seen_until_ms, row.last_event_at_ms) else { return false };
        let is_found_lost =
            row.root == Some(AgentStatus::Lost) && row.kept_at_ms.is_none_or(|kept| kept > seen);
        last > seen || is_found_lost && last > seen - NOTICED_WITHIN_MS
    }

    /// Whether a list of sessions, newest first, that ends with this row can lack what is [news](Self::is_news).
    pub fn may_lack_news(&self, last_row: &SessionRow) -> bool {
        self.seen_until_ms.is_some_and(|seen| last_row.last_event_at_ms > Some(seen - NOTICED_WITHIN_MS))
    }
}

impl SessionRow {
    /// Returns what identifies the end of the session for a dismissal; `None` if it is at work.
    pub fn end_fact(&self) -> Option<Text> {
        let at = self.last_event_at_ms.filter(|_| self.attention == Attention::Ended)?;
        Some(format!("ended {at}").into())
    }
}

impl Inbox {
    /// Returns the inbox of sessions at a time: all that are at work, and those that ended since the user looked.
    pub fn of(rows: &[SessionRow], looks: &Looks, at_ms: Millis) -> Self {
        let rows = || rows.iter().filter(|row| !row.is_own);
        let entries = rows().filter(|row| row.attention != Attention::Ended || looks.is_news(row));
        let entries = entries.filter_map(|row| {
            let facts = row.need.as_ref()?.facts();
            let is_dismissed = looks.has_dismissed(&row.id, &facts);
            (!is_dismissed).then(|| InboxEntry { session: row.clone(), facts })
        });
        let mut entries: Vec<InboxEntry> = entries.collect();
        entries.sort_by_cached_key(InboxEntry::place);
        let is_asking = |row: &SessionRow| entries.iter().any(|entry| entry.session.id == row.id);
        let is_listed = |row: &&SessionRow| {
            let facts: Vec<Text> = row.end_fact().into_iter().collect();
            !facts.is_empty()
                && looks.is_news(row)
                && !is_asking(row)
                && !looks.has_dismissed(&row.id, &facts)
        };
        let mut ended: Vec<SessionRow> = rows().filter(is_listed).cloned().collect();
        ended.sort_by_cached_key(SessionRow::place);
        let with = |status| ended.iter().filter(|row| row.root == Some(status)).count() as u32;
        let is_recent =
            |row: &&SessionRow| looks.seen_until_ms.is_some_and(|seen| row.last_event_at_ms > Some(seen));
        let costs = || rows().filter(is_recent).filter_map(|row| row.cost_micro_usd);
        let is_floor = |row: &SessionRow| row.cost_floor || row.cost_micro_usd.is_none();
        let mut inbox = Self {
            schema: INBOX_SCHEMA.into(),
            seen_until_ms: looks.seen_until_ms,
            finished: with(AgentStatus::Completed),
            failed: with(AgentStatus::Failed),
            stopped: with(AgentStatus::Stopped),
            lost: with(AgentStatus::Lost),
            cost_micro_usd: costs().next().map(|_| costs().sum()),
            cost_floor: rows().filter(is_recent).any(is_floor),
            at_ms,
            ended,
            ..Self::default()
        }
        .with_entries(entries);
        // A root that waits for the next prompt has ended its turn.
        inbox.finished +=
            inbox.ended.iter().filter(|row| row.root.is_none_or(AgentStatus::is_live)).count() as u32;
        inbox.ended.truncate(MAX_ENDED);
        inbox
    }

    /// Returns the inbox of one session, without what ended.
    #[must_use]
    pub fn of_session(self, session: &SessionId) -> Self {
        let own = self.entries.into_iter().filter(|entry| entry.session.id == *session);
        Self { schema: self.schema, at_ms: self.at_ms, ..Self::default() }.with_entries(own.collect())
    }

    fn with_entries(mut self, entries: Vec<InboxEntry>) -> Self {
        let count = |group| entries.iter().filter(|entry| entry.group() == Some(group)).count() as u32;
        (self.waits, self.trouble) = (count(NeedGroup::Waits), count(NeedGroup::Trouble));
        (self.perhaps, self.entries) = (count(NeedGroup::Perhaps), entries);
        self
    }

    /// Since when the session that needs the user for the longest does, of a group; `None` if none does or that is unknown.
    pub fn since_ms(&self, group: NeedGroup) -> Option<Millis> {
        let own = self.entries.iter().filter(|entry| entry.group() == Some(group));
        own.filter_map(|entry| entry.session.need.as_ref()?.since_ms()).min()
    }

    /// Number of sessions that need the user for certain.
    pub fn certain(&self) -> u32 {
        self.waits + self.trouble
    }

    /// Returns the entry of a session.
    pub fn entry(&self, session: &SessionId) -> Option<&InboxEntry> {
        self.entries.iter().find(|entry| entry.session.id == *session)
    }

    /// Whether a session ended since the user looked.
    pub fn has_ended(&self, session: &SessionId) -> bool {
        self.ended.iter().any(|row| row.id == *session)
    }
}

impl InboxEntry {
    /// Returns the group of the session's need.
    pub fn group(&self) -> Option<NeedGroup> {
        self.session.need.as_ref().map(|need| need.group)
    }

    /// Returns the sort key: the most urgent group first, then as in lists of sessions ([`SessionRow::attention_place`]), so
    /// that entries keep their places.
    fn place(&self) -> (Option<NeedGroup>, Millis, SessionId) {
        (self.group(), self.session.started_at_ms.unwrap_or(0), self.session.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Agent, AgentId, Flag, SessionNeed, SessionStatus};

    /// A session whose root has a status, with a subagent that is stalled since some times.
    fn row(id: &str, root: AgentStatus, last: Millis, stalled: &[Millis]) -> SessionRow {
        let mut agents = vec![Agent::unknown(AgentId::from(AgentId::ROOT), 0, root)];
        agents.extend(stalled.iter().map(|at| Agent {
            flags: vec![Flag::Stalled],
            last_event_at_ms: Some(*at),
            ..Agent::unknown(AgentId::from(format!("a{at}").as_str()), 1, AgentStatus::Running)
        }));
        if root == AgentStatus::Lost {
            agents[0].evidence = Some(format!("{}15 min", crate::SILENT_EVIDENCE).as_str().into());
        }
        let need = SessionNeed::of(&agents, None);
        let attention = Attention::of(&agents, need.as_ref());
        let status = if attention == Attention::Ended { SessionStatus::Ended } else { SessionStatus::Live };
        SessionRow {
            status,
            attention,
            need,
            root: Some(root),
            last_event_at_ms: Some(last),
            cost_micro_usd: Some(last),
            ..SessionRow::empty(id.into())
        }
    }

    fn ids<'r>(rows: impl Iterator<Item = &'r SessionRow>) -> Vec<&'r str> {
        rows.map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn dismissed_entry_comes_back_with_a_new_fact_only() {
        let mut looks = Looks::default();
        let inbox = |stalled: &[Millis], looks: &Looks| {
            Inbox::of(&[row("s", AgentStatus::Running, 90, stalled)], looks, 100)
        };
        let first = inbox(&[5, 7], &looks);
        assert_eq!((first.trouble, first.entries.len(), first.certain()), (1, 1, 1), "one entry a session");
        looks.dismissed.insert("s".into(), first.entries[0].facts.clone());
        assert_eq!(inbox(&[5, 7], &looks).certain(), 0);
        assert_eq!(inbox(&[7], &looks).certain(), 0, "one of them goes on");
        assert_eq!(inbox(&[5, 7, 9], &looks).certain(), 1, "another one stalled");
        assert_eq!(inbox(&[5, 8], &looks).certain(), 1, "it went on, and stalled again");
    }

    #[test]
    fn what_ended_is_listed_from_the_last_look_on() {
        let rows = [
            row("old", AgentStatus::Failed, 10, &[]),
            row("done", AgentStatus::Completed, 30, &[]),
            row("bad", AgentStatus::Failed, 40, &[]),
            row("live", AgentStatus::Running, 50, &[]),
            row("waits", AgentStatus::Completed, 60, &[5]),
            row("stopped", AgentStatus::Stopped, 35, &[]),
            SessionRow { kept_at_ms: Some(60), ..row("lost", AgentStatus::Lost, 45, &[]) },
            SessionRow { kept_at_ms: Some(99), ..row("lost late", AgentStatus::Lost, 15, &[]) },
        ];
        let mut looks = Looks { seen_until_ms: Some(20), ..Looks::default() };
        let inbox = Inbox::of(&rows, &looks, 100);
        assert_eq!(ids(inbox.ended.iter()), ["bad", "stopped", "done"]);
        assert_eq!((inbox.finished, inbox.failed, inbox.stopped, inbox.lost), (1, 1, 1, 0));
        // What was lost in silence stays in trouble, although nothing is at work.
        let entries = ids(inbox.entries.iter().map(|entry| &entry.session));
        assert_eq!(entries, ["lost", "lost late", "waits"]);
        assert_eq!(inbox.cost_micro_usd, Some(30 + 40 + 50 + 60 + 35 + 45));
        looks.dismissed.insert("bad".into(), rows[2].end_fact().into_iter().collect());
        assert_eq!(Inbox::of(&rows, &looks, 100).failed, 0);
        looks.seen_until_ms = Some(100);
        let seen = Inbox::of(&rows, &looks, 100);
        assert_eq!((seen.ended.len(), seen.cost_micro_usd, seen.certain()), (0, None, 1));
        let unknown = Inbox::of(&rows, &Looks::default(), 100);
        assert_eq!((unknown.ended.len(), unknown.certain()), (0, 1), "without a last look nothing is news");
    }
}
