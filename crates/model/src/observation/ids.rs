//! The ids of an observation that name sessions, agents and calls: all that a row or an event may have as its id.

use std::borrow::Cow;

use super::{AgentEnd, CallBegin, CallEnd, Claim, Fact, Observation, Parent, Spawn, SpawnBatch, SpawnResult};

/// Passes each id of an observation, by reference, to the macro `$see`.
macro_rules! each_id {
    ($seen:expr, $see:ident) => {{
        let Observation { session, claim, fact, .. } = $seen;
        each_id!(some $see: session);
        match claim {
            Claim::Agent(id, _) | Claim::SpawnedBy(id) => $see!(id),
            // A chain links lines by their own ids.
            Claim::Root(_) | Claim::Chain { .. } | Claim::Silent => {}
        }
        match fact {
            Fact::CallBegin(CallBegin { id, starts_run, .. }) => each_id!(some $see: id, starts_run),
            Fact::CallEnd(CallEnd { id, spawn, stopped, resumed, batch_run, .. }) => {
                each_id!(some $see: id, stopped, resumed, batch_run);
                if let Some(SpawnResult { agent, .. }) = spawn {
                    each_id!(some $see: agent);
                }
            }
            Fact::Spawn(Spawn { agent, call, run_id, parent, batch, .. }) => {
                each_id!(some $see: agent, call, run_id);
                match parent {
                    Some(Parent::Agent(id)) => $see!(id),
                    Some(Parent::Root) | None => {}
                }
                match batch {
                    Some(SpawnBatch::Call(id) | SpawnBatch::Run(id)) => $see!(id),
                    None => {}
                }
            }
            Fact::AgentEnd(AgentEnd { agent, call, run_id, .. }) => each_id!(some $see: agent, call, run_id),
            Fact::Stop { call: id, .. } | Fact::Progress { agent: id, .. } | Fact::Retry { agent: id, .. } => {
                each_id!(some $see: id);
            }
            Fact::Session { .. }
            | Fact::Harness { .. }
            | Fact::Activity
            | Fact::TurnStart
            | Fact::Prompt { .. }
            | Fact::Message { .. }
            | Fact::Thought { .. }
            | Fact::Response(_)
            | Fact::TurnEnd { .. }
            | Fact::Heartbeat
            | Fact::Permission { .. }
            | Fact::PermissionReply { .. }
            | Fact::SessionStart { .. }
            | Fact::SessionEnd { .. }
            | Fact::ProcessEnd(_)
            | Fact::ProcessActivity { .. }
            | Fact::Warmup
            | Fact::Uncounted
            | Fact::AwaitsPrompt
            | Fact::Checksum(_)
            | Fact::VendorCost { .. }
            | Fact::Totals { .. }
            | Fact::WireHasIdentity
            | Fact::ReportsQuestions
            | Fact::Span(_)
            | Fact::Note { .. }
            | Fact::WorkTree(_)
            | Fact::Title { .. } => {}
        }
    }};
    (some $see:ident: $($id:ident),+) => {
        {
            $(if let Some(id) = $id { $see!(id) })+
        }
    };
}

impl Observation<'_> {
    /// Passes this observation on with its ids in a safe form. `safe` returns an ordinary id as it is.
    pub fn with_safe_ids(&self, safe: fn(&str) -> Cow<'_, str>, pass: &mut dyn FnMut(&Observation<'_>)) {
        let mut escaped = Vec::new();
        macro_rules! escape {
            ($id:ident) => {
                if let Cow::Owned(other) = safe($id) {
                    escaped.push(other);
                }
            };
        }
        each_id!(self, escape);
        if escaped.is_empty() {
            return pass(self);
        }
        let (mut seen, mut escaped) = (self.clone(), escaped.iter());
        macro_rules! replace {
            ($id:ident) => {
                if let Cow::Owned(_) = safe($id)
                    && let Some(other) = escaped.next()
                {
                    *$id = other.as_str().into();
                }
            };
        }
        each_id!(&mut seen, replace);
        pass(&seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Basis, Clock, SourceKind, SourcePosition, safe_id};

    /// Returns a text of the observation as it is passed on.
    fn passed(claim: Claim<'_>, fact: Fact<'_>) -> String {
        let (place, line_id) = (SourcePosition::default(), Some("line $x"));
        let kind = SourceKind::Transcript;
        let seen = Observation {
            place,
            kind,
            time: None,
            clock: Clock::Stream,
            session: Some("s $x"),
            line_id,
            claim,
            fact,
        };
        let mut text = String::new();
        seen.with_safe_ids(safe_id, &mut |seen| text = format!("{seen:?}"));
        text
    }

    #[test]
    fn every_id_is_escaped_and_nothing_else() {
        let id = Some("i $x");
        let spawn = Some(SpawnResult { agent: id, ..SpawnResult::default() });
        let (parent, batch) = (Some(Parent::Agent("i $x")), Some(SpawnBatch::Run("i $x")));
        for (fact, count) in [
            (
                Fact::CallBegin(CallBegin {
                    id,
                    name: "n $x",
                    starts_run: id.map(Cow::Borrowed),
                    ..CallBegin::default()
                }),
                2,
            ),
            (
                Fact::CallEnd(CallEnd {
                    id,
                    name: Some("n $x"),
                    spawn,
                    stopped: id,
                    resumed: id,
                    batch_run: id,
                    ..CallEnd::default()
                }),
                5,
            ),
            (
                Fact::Spawn(Spawn {
                    agent: id,
                    call: id,
                    run_id: id,
                    parent,
                    batch,
                    name: Some("n $x".into()),
                    ..Spawn::default()
                }),
                5,
            ),
            (Fact::AgentEnd(AgentEnd { agent: id, call: id, run_id: id, ..AgentEnd::default() }), 3),
            (
                Fact::Progress {
                    agent: id,
                    message: Some("n $x".into()),
                    tool_calls: None,
                    total_tokens: None,
                },
                1,
            ),
        ] {
            let text = passed(Claim::Agent("c $x", Basis::Wire), fact);
            assert_eq!(text.matches("i%20%24x").count(), count, "{text}");
            assert!(text.contains("s%20%24x") && text.contains("c%20%24x"), "{text}");
            assert!(!text.contains("i $x") && text.contains("line $x"), "{text}");
            assert!(!text.contains("n%20"), "{text}");
        }
        let chain = Claim::Chain { line: "l $x", parent: None };
        assert!(passed(chain, Fact::Activity).contains("l $x"));
    }
}
