//! Moves traces whose session became known later: in the table of sessions, in the inbox, and for subscribers.
//!
//! Spans are ingested under the id of their trace ([`subscope_model::TraceSpan::session_of_trace`]), and their input is
//! about that id and about the session that they name, once one does. So a hub that has not seen a trace finds its earlier
//! spans, and with them its session.

use subscope_model::{AgentId, Change, SessionId, TraceSpan, Tree, Update};
use subscope_session::TraceMove;
use subscope_store::{MovedInput, ReceivedInput};

use super::EventLoop;

impl EventLoop {
    /// Returns the session of input that names this one: that of its trace, if it names a trace.
    pub(super) fn session_of_input(&self, named: String) -> String {
        self.router.session_of_trace(&named).map_or(named, |session| session.as_str().to_owned())
    }

    /// Whether an id may be that of a trace with input in the inbox, whatever the session of the trace is.
    pub(super) fn may_be_trace(session: &SessionId) -> bool {
        TraceSpan::trace_of_session(session).is_some()
    }

    /// Forgets what the table has of sessions that were no more than a trace of another. `named` is such an id, too.
    pub(super) fn forget_moved(&mut self, moves: &[TraceMove], named: Option<&str>) {
        let moved = moves.iter().filter(|moved| moved.is_whole).map(|moved| moved.from.clone());
        let named = named.map(SessionId::from).filter(Self::may_be_trace);
        for session in moved.chain(named) {
            if !self.router.is_known(&session) {
                self.sessions.set_deadline(&session, None);
                self.sessions.evict(&session, false);
            }
        }
    }

    /// Publishes that nothing is left of sessions, and returns what the store is to move.
    pub(super) fn take_moved_input(&mut self, received: &mut [ReceivedInput]) -> Vec<MovedInput> {
        let moves = std::mem::take(&mut self.pending.moves);
        let mut all = Vec::new();
        for TraceMove { trace, from, to, is_whole } in moves {
            let named = SessionId::from(TraceSpan::session_of_trace(trace).as_str());
            for input in received.iter_mut().filter(|input| input.session.as_deref() == Some(named.as_str()))
            {
                input.sessions = vec![named.clone(), to.clone()];
            }
            all.push(MovedInput { named, from, to, is_whole });
        }
        all
    }

    /// Publishes to subscribers that a session has no agents any more: they are another's.
    pub(super) fn publish_emptied(&mut self, session: &SessionId) {
        let Some(tree) = self.sessions.tree(session).map(|tree| Tree::clone(tree)) else { return };
        let gone: Vec<AgentId> = tree.agents.iter().map(|row| row.id.clone()).collect();
        let mut change = Change::of(&tree, |_| false, gone);
        change.seq = self.figures.seq;
        self.publish(&Update::change(change));
    }
}
