//! The list of sessions, in the order of [`SessionRow::attention_place`].

use std::collections::{BTreeSet, HashMap};

use subscope_model::{Attention, Millis, SessionId, SessionRow, SessionStatus, Text};

use super::trees::Trees;

/// Initial limit of the session query. A screen shows some dozens.
pub(crate) const FIRST_SESSIONS: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct SessionList {
    /// Displayed rows, in order.
    pub(crate) rows: Vec<SessionRow>,
    pub(crate) selected: Option<SessionId>,
    /// Stored sessions, as of the last reply.
    pub(crate) history: Vec<SessionRow>,
    /// Whether there were more than the last reply has.
    pub(crate) has_more: bool,
    /// Limit of the last query; 0 before the first.
    pub(crate) limit: usize,
    /// Time of the last query, by the monotonic clock.
    pub(crate) queried_ms: Millis,
    /// When the pointer last moved over a row, by the monotonic clock; until some time later no row moves.
    pub(crate) pointed_ms: Option<Millis>,
    /// Time of the newest event of any row.
    pub(crate) newest_ms: Option<Millis>,
    /// Whether the user has selected a session.
    pub(crate) is_user_choice: bool,
    /// The other machine whose sessions are displayed; `None` for those of all.
    pub(crate) machine: Option<Text>,
    /// The other machines of which sessions are known.
    pub(crate) machines: BTreeSet<Text>,
    /// All rows in order, while those of one machine are displayed: what needs the user is on any of them.
    all: Vec<SessionRow>,
}

impl SessionList {
    /// Rebuilds the rows from stored sessions and subscribed trees.
    pub(crate) fn rebuild(&mut self, trees: &Trees) {
        let mut rows: HashMap<&SessionId, SessionRow> =
            self.history.iter().map(|row| (&row.id, row.clone())).collect();
        let subscribed: Vec<SessionRow> = trees.subscribed().map(SessionRow::of).collect();
        for row in &subscribed {
            // The feed does not say when the store last saved a change.
            let kept_at_ms = rows.get(&row.id).and_then(|stored| stored.kept_at_ms);
            rows.insert(&row.id, SessionRow { kept_at_ms, ..row.clone() });
        }
        let mut rows: Vec<SessionRow> = rows.into_values().collect();
        self.machines = rows.iter().filter_map(|row| row.machine.clone()).collect();
        // A filter that nothing passes any more, because its machine has left, is taken off.
        self.machine = self.machine.take().filter(|machine| self.machines.contains(machine));
        // A stored row may still be live although no source follows the session any more: only subscribed sessions are
        // live.
        for row in &mut rows {
            if !trees.is_subscribed(&row.id) {
                (row.status, row.attention) = (SessionStatus::Ended, Attention::Ended);
            }
        }
        // Under the pointer no known row changes its place.
        let held = self.rows.iter().filter(|_| self.pointed_ms.is_some());
        let held: HashMap<&SessionId, usize> = held.enumerate().map(|(at, row)| (&row.id, at)).collect();
        rows.sort_by_cached_key(|row| {
            (held.get(&row.id).copied().unwrap_or(usize::MAX), row.attention_place())
        });
        self.newest_ms = rows.iter().filter_map(|row| row.last_event_at_ms).max();
        self.all.clear();
        if self.machine.is_some() {
            self.all.clone_from(&rows);
            rows.retain(|row| row.machine == self.machine);
        }
        self.rows = rows;
        // Until the user selects one, the first is selected: the one that needs a person most. One that a filter of machines
        // takes away is selected no more.
        let is_hidden = self.machine.is_some() && self.selected_index().is_none();
        let is_free = !self.is_user_choice || self.selected.is_none() || is_hidden;
        if let Some(first) = self.rows.first().filter(|_| is_free) {
            self.selected = Some(first.id.clone());
        }
    }

    /// Returns the rows of all machines.
    pub(crate) fn all_rows(&self) -> &[SessionRow] {
        if self.machine.is_some() { &self.all } else { &self.rows }
    }

    /// Displays the sessions of the next machine; after the last one those of all.
    pub(crate) fn choose_next_machine(&mut self) {
        let next = match &self.machine {
            Some(machine) => self.machines.iter().find(|next| *next > machine),
            None => self.machines.first(),
        };
        self.machine = next.cloned();
    }

    pub(crate) fn selected_index(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows.iter().position(|row| row.id == *selected)
    }

    pub(crate) fn row(&self) -> Option<&SessionRow> {
        self.rows.get(self.selected_index()?)
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{AgentStatus, Flag, Update};

    use super::*;
    use crate::samples;

    fn ids(sessions: &SessionList) -> Vec<&str> {
        sessions.rows.iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn first_is_selected_until_a_person_selects_another() {
        let mut trees = Trees::default();
        let mut live = samples::tree("live", &[("root", 0)]);
        live.session.ended_at_ms = Some(5);
        live.agents[0].status = AgentStatus::Running;
        trees.apply(Update::snapshot(live));
        let past = |id: &str, at| {
            let mut tree = samples::tree(id, &[("root", 0)]);
            tree.session.ended_at_ms = Some(at);
            SessionRow { status: SessionStatus::Live, attention: Attention::Live, ..SessionRow::of(&tree) }
        };
        let history = vec![past("new", 90), past("old", 10), past("live", 1)];
        let mut sessions = SessionList { history, ..SessionList::default() };
        sessions.rebuild(&trees);
        assert_eq!(ids(&sessions), ["live", "new", "old"]);
        assert_eq!(sessions.rows[1].status, SessionStatus::Ended);
        assert_eq!((sessions.selected.as_deref(), sessions.selected_index()), (Some("live"), Some(0)));
        let mut stalled = samples::tree("stalled", &[("root", 0)]);
        (stalled.agents[0].status, stalled.agents[0].flags) = (AgentStatus::Running, vec![Flag::Stalled]);
        trees.apply(Update::snapshot(stalled));
        sessions.rebuild(&trees);
        assert_eq!(sessions.selected.as_deref(), Some("stalled"), "it needs a person more");
        (sessions.selected, sessions.is_user_choice) = (Some("old".into()), true);
        sessions.rebuild(&trees);
        assert_eq!(sessions.selected_index(), Some(3));
    }

    #[test]
    fn machines_are_chosen_one_after_the_other_and_one_that_leaves_hides_nothing() {
        let of = |id: &str, machine: Option<&str>| SessionRow {
            machine: machine.map(Text::from),
            ..SessionRow::of(&samples::tree(id, &[("root", 0)]))
        };
        let history =
            vec![of("here", None), of("b~1", Some("b")), of("a~1", Some("a")), of("b~2", Some("b"))];
        let mut sessions = SessionList { history, ..SessionList::default() };
        let mut shown = Vec::new();
        for _ in 0..4 {
            sessions.rebuild(&Trees::default());
            shown.push(sessions.rows.len());
            assert_eq!(sessions.all_rows().len(), 4);
            assert!(sessions.selected_index().is_some(), "what is selected is shown");
            sessions.choose_next_machine();
        }
        assert_eq!(shown, [4, 1, 2, 4]);
        sessions.choose_next_machine();
        assert_eq!(sessions.machine.as_deref(), Some("b"));
        sessions.history.retain(|row| row.machine.as_deref() != Some("b"));
        sessions.rebuild(&Trees::default());
        assert_eq!((sessions.machine.as_deref(), sessions.rows.len()), (None, 2));
    }

    #[test]
    fn live_sessions_keep_their_places_whatever_they_do() {
        let mut trees = Trees::default();
        let mut all: Vec<subscope_model::Tree> = (0..10)
            .map(|at| {
                let mut tree = samples::tree(&format!("s{at}"), &[("root", 0)]);
                tree.session.started_at_ms = Some(at);
                tree.agents[0].status = AgentStatus::Running;
                tree
            })
            .collect();
        let mut sessions = SessionList::default();
        for step in 0..30 {
            let posting = &mut all[step * 7 % 10];
            posting.session.ended_at_ms = Some(1_000 + step as i64);
            trees.apply(Update::snapshot(posting.clone()));
            sessions.rebuild(&trees);
            assert!(ids(&sessions).is_sorted(), "{:?}", ids(&sessions));
        }
        assert_eq!(sessions.rows.len(), 10);
        all[7].agents[0].flags = vec![Flag::Stalled];
        trees.apply(Update::snapshot(all[7].clone()));
        sessions.rebuild(&trees);
        assert_eq!(ids(&sessions)[..3], ["s7", "s0", "s1"]);
    }
}
