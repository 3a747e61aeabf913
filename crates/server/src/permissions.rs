//! Permission requests and questions whose hooks wait for a person's answer.
//!
//! A hook that can wait posts its request as all hooks do. If the setting is on and a frontend of the user is open and
//! looking, the request is held, and the response names it; the hook then waits for the decision on a second connection
//! ([`PermissionDesk::wait_at`]). The request goes with that connection: nobody can answer it once its hook has ended.
//! Each is answered at most once. Nothing is stored: a hub that ends gives all of them back to their terminals.

use std::{
    collections::VecDeque,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use subscope_client::hook::LONGEST_WAIT_SECONDS;
use subscope_hub::clock;
use subscope_model::{Millis, PermissionDecision, PermissionRequest, Text};
use tokio::sync::oneshot;

use crate::token::random_hex;

/// How long a hook waits for an answer at most.
pub(crate) const HOLD: Duration = Duration::from_secs(LONGEST_WAIT_SECONDS);
/// How long a frontend counts as looking after it has asked for the requests.
const LOOKS_FOR: Duration = Duration::from_secs(10);
/// How long a hook may take from the response to its second connection.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// Most requests held at a time.
const MAX_HELD: usize = 64;
/// Most bytes of a call's arguments: what is longer, nobody reads as a whole.
const MAX_ARGUMENTS_BYTES: usize = 64 << 10;
/// Answered requests that are remembered.
const MAX_ANSWERED: usize = 256;
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 16;

/// The permission requests that wait for an answer.
#[derive(Debug)]
pub(crate) struct PermissionDesk {
    is_enabled: bool,
    state: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    /// When a frontend last looked.
    looked_at: Option<Instant>,
    /// In the order in which they were asked.
    held: Vec<Held>,
    /// Ids of the latest answered requests.
    answered: VecDeque<Text>,
}

/// A request of which the hook waits, or is about to.
#[derive(Debug)]
struct Held {
    request: PermissionRequest,
    since: Instant,
    /// The request that this one repeats, of a hook that is installed twice. It is not shown, and gets that one's decision.
    repeats: Option<Text>,
    /// `None` once it is decided: its hook is about to fetch the decision.
    decide: Option<oneshot::Sender<PermissionDecision>>,
    /// The hook's end; `None` once it waits.
    decided: Option<oneshot::Receiver<PermissionDecision>>,
}

/// Why a request cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnansweredReason {
    /// It was answered before.
    AnsweredBefore,
    /// Its hook waits no longer, or it never was.
    Unknown,
    /// The decision is none about this request, for this reason; the request waits on.
    Unfit(String),
}

/// A hook that waits. Dropping it takes the request back.
pub(crate) struct WaitingHook<'d> {
    desk: &'d PermissionDesk,
    /// The request.
    pub(crate) request: PermissionRequest,
    /// Receives the decision.
    pub(crate) decided: oneshot::Receiver<PermissionDecision>,
}

impl Drop for WaitingHook<'_> {
    fn drop(&mut self) {
        self.desk.lock().held.retain(|held| held.request.id != self.request.id);
    }
}

impl PermissionDesk {
    pub(crate) fn new(is_enabled: bool) -> Self {
        Self { is_enabled, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether answers are taken.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Whether a request would be held now: answers are taken, and somebody looks.
    pub(crate) fn is_attended(&self) -> bool {
        let looks = |looked_at: Instant| clock::tick().saturating_duration_since(looked_at) < LOOKS_FOR;
        self.is_enabled && self.lock().looked_at.is_some_and(looks)
    }

    /// Notes that a frontend looks.
    pub(crate) fn note_look(&self) {
        self.lock().looked_at = Some(clock::tick());
    }

    /// Holds a request, and gives it an id. `None` if it is left to its terminal. `is_repeated` says that another hook has
    /// delivered the same payload: one decision answers both.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn hold(&self, request: PermissionRequest, is_repeated: bool) -> io::Result<Option<Text>> {
        if request.arguments.len() > MAX_ARGUMENTS_BYTES {
            return Ok(None);
        }
        let mut digits = random_hex()?;
        digits.truncate(ID_DIGITS);
        let id = Text::from(digits);
        let (decide, decided) = oneshot::channel();
        let until_ms = request.asked_at_ms + HOLD.as_millis() as Millis;
        let request = PermissionRequest { id: id.clone(), until_ms, ..request };
        let since = clock::tick();
        let mut desk = self.lock();
        let is_due = |held: &Held| {
            held.decided.is_none() || since.saturating_duration_since(held.since) < CONNECTS_WITHIN
        };
        desk.held.retain(is_due);
        if desk.held.len() >= MAX_HELD {
            return Ok(None);
        }
        let is_same = |held: &&Held| held.repeats.is_none() && is_same_question(&held.request, &request);
        let first = desk.held.iter().filter(|_| is_repeated).rfind(is_same);
        let repeats = first.map(|first| first.request.id.clone());
        desk.held.push(Held { request, since, repeats, decide: Some(decide), decided: Some(decided) });
        Ok(Some(id))
    }

    /// Returns the requests of hooks that wait, the oldest first.
    pub(crate) fn waiting(&self) -> Vec<PermissionRequest> {
        let desk = self.lock();
        let waiting = desk.held.iter().filter(|held| held.decided.is_none() && held.decide.is_some());
        let is_shown = |held: &&Held| {
            held.repeats.as_ref().is_none_or(|first| desk.held.iter().all(|held| held.request.id != *first))
        };
        waiting.filter(is_shown).map(|held| held.request.clone()).collect()
    }

    /// Begins the wait of a request's hook; `None` if there is no such request, or its hook waits already.
    pub(crate) fn wait_at(&self, id: &str) -> Option<WaitingHook<'_>> {
        let mut desk = self.lock();
        let held = desk.held.iter_mut().find(|held| held.request.id.as_ref() == id)?;
        let (request, decided) = (held.request.clone(), held.decided.take()?);
        Some(WaitingHook { desk: self, request, decided })
    }

    /// Gives a decision to the hook that waits for it. Returns its request.
    ///
    /// # Errors
    /// No hook waits for it, or it is no decision about this request.
    pub(crate) fn answer(
        &self,
        id: &str,
        decision: PermissionDecision,
    ) -> Result<PermissionRequest, UnansweredReason> {
        let mut desk = self.lock();
        let is_asked =
            |held: &Held| held.request.id.as_ref() == id && held.decided.is_none() && held.decide.is_some();
        let Some(index) = desk.held.iter().position(is_asked) else {
            let is_answered = desk.answered.iter().any(|answered| answered.as_ref() == id);
            return Err(if is_answered {
                UnansweredReason::AnsweredBefore
            } else {
                UnansweredReason::Unknown
            });
        };
        if let Some(objection) = desk.held[index].request.objection(&decision) {
            return Err(UnansweredReason::Unfit(objection));
        }
        let Held { request, decide, .. } = desk.held.remove(index);
        for repeat in desk.held.iter_mut().filter(|held| held.repeats.as_ref() == Some(&request.id)) {
            // A hook that has ended needs no decision.
            repeat.decide.take().map(|decide| decide.send(decision.clone()));
        }
        decide.ok_or(UnansweredReason::Unknown)?.send(decision).map_err(|_| UnansweredReason::Unknown)?;
        desk.answered.push_back(request.id.clone());
        if desk.answered.len() > MAX_ANSWERED {
            desk.answered.pop_front();
        }
        Ok(request)
    }
}

/// Whether two requests ask the same of the same agent.
fn is_same_question(one: &PermissionRequest, other: &PermissionRequest) -> bool {
    let key = |it: &PermissionRequest| {
        (it.session_id.clone(), it.agent_id.clone(), it.tool.clone(), it.arguments.clone(), it.cwd.clone())
    };
    key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use subscope_model::{AgentId, SessionId};

    use super::*;

    const ALLOW: PermissionDecision = PermissionDecision::ALLOW;

    fn request(arguments: &str) -> PermissionRequest {
        PermissionRequest {
            id: Text::default(),
            session_id: SessionId::from("s"),
            agent_id: AgentId::ROOT.into(),
            tool: "Bash".into(),
            arguments: arguments.into(),
            questions: Vec::new(),
            cwd: None,
            asked_at_ms: 1_000,
            until_ms: 0,
        }
    }

    #[test]
    fn request_is_answered_once_and_only_while_its_hook_waits() {
        let desk = PermissionDesk::new(true);
        let id = desk.hold(request("{}"), false).unwrap().unwrap();
        assert_eq!(desk.answer(&id, ALLOW), Err(UnansweredReason::Unknown), "its hook has not come back");
        assert_eq!(desk.waiting(), []);
        let mut hook = desk.wait_at(&id).unwrap();
        let unfit = PermissionDecision::answer(vec!["yes".into()]);
        assert!(matches!(desk.answer(&id, unfit), Err(UnansweredReason::Unfit(_))), "it has no questions");
        assert!(desk.wait_at(&id).is_none(), "only one hook waits for it");
        assert_eq!(desk.waiting()[0].until_ms, 301_000);
        assert_eq!(desk.answer(&id, ALLOW).unwrap().id, id);
        assert_eq!(hook.decided.try_recv(), Ok(ALLOW));
        assert_eq!(desk.answer(&id, ALLOW), Err(UnansweredReason::AnsweredBefore));
        assert_eq!(desk.waiting(), []);
    }

    #[test]
    fn one_decision_answers_both_hooks_of_a_payload_and_no_other_request() {
        let desk = PermissionDesk::new(true);
        let hold = |is_repeated| desk.hold(request("{}"), is_repeated).unwrap().unwrap();
        let ids = [hold(false), hold(true), hold(false), hold(true)];
        let [mut first, mut second, mut third] = [0, 1, 2].map(|at| desk.wait_at(&ids[at]).unwrap());
        let shown =
            |desk: &PermissionDesk| desk.waiting().into_iter().map(|held| held.id).collect::<Vec<_>>();
        assert_eq!(shown(&desk), [ids[0].clone(), ids[2].clone()]);
        desk.answer(&ids[0], ALLOW).unwrap();
        assert_eq!((first.decided.try_recv(), second.decided.try_recv()), (Ok(ALLOW), Ok(ALLOW)));
        assert!(third.decided.try_recv().is_err(), "an equal call asks for itself");
        desk.answer(&ids[2], ALLOW).unwrap();
        let mut late = desk.wait_at(&ids[3]).unwrap();
        assert_eq!(
            (third.decided.try_recv(), late.decided.try_recv()),
            (Ok(ALLOW), Ok(ALLOW)),
            "it connects later"
        );
        drop((first, second, third, late));
        let ids = [hold(false), hold(true)];
        let (first, mut second) = (desk.wait_at(&ids[0]).unwrap(), desk.wait_at(&ids[1]).unwrap());
        drop(first);
        assert_eq!(shown(&desk), [ids[1].clone()], "the other hook still waits");
        desk.answer(&ids[1], ALLOW).unwrap();
        assert_eq!(second.decided.try_recv(), Ok(ALLOW));
        assert_eq!(desk.waiting(), []);
    }

    #[test]
    fn request_goes_with_its_hook() {
        let desk = PermissionDesk::new(true);
        let id = desk.hold(request("{}"), false).unwrap().unwrap();
        drop(desk.wait_at(&id));
        assert_eq!(desk.waiting(), []);
        assert_eq!(desk.answer(&id, ALLOW), Err(UnansweredReason::Unknown));
    }

    #[test]
    fn nothing_is_held_that_nobody_can_read_or_nobody_looks_at() {
        let off = PermissionDesk::new(false);
        off.note_look();
        assert!(!off.is_attended());
        let desk = PermissionDesk::new(true);
        assert!(!desk.is_attended());
        desk.note_look();
        assert!(desk.is_attended());
        assert_eq!(desk.hold(request(&"x".repeat(MAX_ARGUMENTS_BYTES + 1)), false).unwrap(), None);
        for _ in 0..MAX_HELD {
            assert!(desk.hold(request("{}"), false).unwrap().is_some());
        }
        assert_eq!(desk.hold(request("{}"), false).unwrap(), None);
    }
}
