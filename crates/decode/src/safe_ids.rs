//! Gives the ids of any decoder their safe form: the one place where ids of a source enter.

use std::borrow::Cow;

use subscope_model::{Decoded, Sink};

use crate::Decoder;

/// Decoder whose observations have ids in their safe form.
pub(crate) struct SafeIds {
    inner: Box<dyn Decoder>,
    safe: fn(&str) -> Cow<'_, str>,
}

impl SafeIds {
    pub(crate) fn new(inner: Box<dyn Decoder>, safe: fn(&str) -> Cow<'_, str>) -> Self {
        Self { inner, safe }
    }
}

/// Passes on what a decoder emits, with safe ids.
fn pass(safe: fn(&str) -> Cow<'_, str>, decoded: Decoded<'_, '_>, sink: &mut Sink<'_>) {
    match decoded {
        Decoded::Observation(seen) => {
            seen.with_safe_ids(safe, &mut |seen| sink(Decoded::Observation(seen)));
        }
        Decoded::Problem { .. } => sink(decoded),
    }
}

impl Decoder for SafeIds {
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>) {
        let safe = self.safe;
        self.inner.push(chunk, &mut |decoded| pass(safe, decoded, sink));
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let safe = self.safe;
        self.inner.flush(&mut |decoded| pass(safe, decoded, sink));
    }

    fn skip_to(&mut self, line: u64, offset: u64) {
        self.inner.skip_to(line, offset);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use subscope_model::{Claim, Event, own_id, safe_id};

    use crate::{Dialect, FEED, Hint, LineSession, SUBAGENT_EVENTS};

    /// Returns the sessions and agents of the observations of a line.
    fn ids(dialect: Dialect, line: &str) -> Vec<(Option<String>, Option<String>)> {
        let mut all = Vec::new();
        dialect.decoder(&Hint::default()).push(format!("{line}\n").as_bytes(), &mut |decoded| {
            if let super::Decoded::Observation(seen) = decoded {
                let agent = match seen.claim {
                    Claim::Agent(agent, _) => Some(agent.to_owned()),
                    Claim::Root(_) | Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => None,
                };
                all.push((seen.session.map(str::to_owned), agent));
            }
        });
        all
    }

    proptest! {
        #[test]
        fn decoder_and_routes_name_a_line_alike_whatever_its_ids_are(session in ".{1,12}", run in ".{1,12}") {
            let event = json!({
                "subagentName": "n", "subagentRunId": run, "sessionId": session, "timestamp": 1, "type": "subagent_start",
            });
            let line = event.to_string();
            let (session, run) = (safe_id(&session).into_owned(), safe_id(&run).into_owned());
            for (named, agent) in ids(SUBAGENT_EVENTS, &line) {
                prop_assert_eq!(named.as_deref(), Some(session.as_str()));
                prop_assert_eq!(agent.as_deref(), Some(run.as_str()));
            }
            prop_assert_eq!(SUBAGENT_EVENTS.line_session(line.as_bytes()), LineSession::Named(session));
        }

        #[test]
        fn what_subscope_wrote_is_read_under_the_same_ids(session in ".{1,12}") {
            let of = |session: &str| {
                let event = json!({"schema": Event::SCHEMA, "kind": "heartbeat", "session_id": session});
                FEED.line_session(event.to_string().as_bytes())
            };
            let safe = own_id(&session).into_owned();
            prop_assert_eq!(of(&session), LineSession::Named(safe.clone()));
            prop_assert_eq!(of(&safe), LineSession::Named(safe));
        }
    }
}
