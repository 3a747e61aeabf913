//! Facts about tool calls: owner, begin, ends, payloads, and the agent that a spawn call starts.

use serde::{Deserialize, Deserializer, Serialize};
use smallvec::SmallVec;
use subscope_model::{Basis, Millis, Outcome, Payload, SourceKind, SpawnMode, SpawnTotals, Text, ToolClass};

use super::{AgentRef, Best, FactOrder, MaybeTime, stored::list};

/// Begin of a call. The smallest one is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct CallBeginFact {
    /// Whether its time is unknown. First field, so that a begin with a time is preferred whatever its source.
    pub(crate) is_timeless: bool,
    pub(crate) kind: SourceKind,
    pub(crate) order: FactOrder,
}

impl CallBeginFact {
    /// Returns the time, if known.
    pub(crate) fn time(&self) -> Option<Millis> {
        (!self.is_timeless).then_some(self.order.time)
    }
}

/// End of a call as reported by one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallEndFact {
    pub(crate) time: MaybeTime,
    /// Agent whose lines report it; `AgentRef::MAX` if the line names none.
    reporter: AgentRef,
    #[serde(default)]
    basis: Basis,
    pub(crate) kind: SourceKind,
    pub(crate) outcome: Outcome,
    pub(crate) refused: bool,
    /// Whether any other reported end takes precedence.
    pub(crate) is_provisional: bool,
    /// Whether the turn of its call had ended before.
    #[serde(default)]
    pub(crate) is_late: bool,
}

impl CallEndFact {
    pub(crate) fn new(
        kind: SourceKind,
        outcome: Outcome,
        by: Option<(AgentRef, Basis)>,
        time: Option<Millis>,
    ) -> Self {
        let (reporter, basis) = by.unwrap_or((AgentRef::MAX, Basis::Unknown));
        Self {
            time: time.into(),
            reporter,
            basis,
            kind,
            outcome,
            refused: false,
            is_provisional: false,
            is_late: false,
        }
    }

    /// Returns the agent whose lines report it, with the basis of that; `None` if the line names none.
    pub(crate) fn claim(&self) -> Option<(AgentRef, Basis)> {
        self.reporter().map(|reporter| (reporter, self.basis))
    }

    /// Returns the agent whose lines report it; `None` if the line names none.
    pub(crate) fn reporter(&self) -> Option<AgentRef> {
        (self.reporter != AgentRef::MAX).then_some(self.reporter)
    }

    /// Returns the same end with another reporter.
    pub(crate) fn reported_by(self, by: Option<AgentRef>) -> Self {
        Self { reporter: by.unwrap_or(AgentRef::MAX), ..self }
    }
}

/// Facts from a spawn call and its result about the agent that it starts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SpawnCallFacts {
    pub(crate) agent_type: Option<Best<Text>>,
    pub(crate) description: Option<Best<Text>>,
    pub(crate) name: Option<Best<Text>>,
    pub(crate) model: Option<Best<Text>>,
    pub(crate) resolved_model: Option<Best<Text>>,
    pub(crate) prompt: Option<Best<Text>>,
    pub(crate) mode: Option<Best<SpawnMode>>,
    /// Id of the agent in the call's result.
    pub(crate) agent: Option<Best<Text>>,
    /// Whether the agent had finished when the result was written (`false`: launched in the background).
    pub(crate) finished: Option<Best<bool>>,
    pub(crate) report: Option<Best<Text>>,
    pub(crate) error: Option<Best<Text>>,
    pub(crate) totals: Option<SpawnTotals>,
    pub(crate) proves_agent: bool,
    /// Whether the call started an agent although its tool is not a spawn tool.
    pub(crate) is_forked: bool,
    /// Whether its agent is a teammate.
    pub(crate) is_teammate: bool,
    /// Order of the earliest result.
    pub(crate) result_order: Option<FactOrder>,
}

/// Facts about a tool call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CallFacts {
    pub(crate) id: Option<Text>,
    pub(crate) name: Option<Text>,
    pub(crate) class: ToolClass,
    /// Whether a source reports that its id is unique only inside the session.
    pub(crate) has_local_id: bool,
    /// Whether it counts only where the session has no transcript.
    pub(crate) is_renumbered: bool,
    /// Bit set of the source kinds that reported its begin.
    pub(crate) seen: u8,
    pub(crate) begin: Option<CallBeginFact>,
    #[serde(with = "list")]
    pub(crate) owners: SmallVec<[(AgentRef, Basis); 1]>,
    pub(crate) digest: Option<(SourceKind, u64)>,
    /// Whether a source has its arguments: calls without known ones are not equal.
    pub(crate) has_arguments: bool,
    pub(crate) detail: Option<(SourceKind, Text)>,
    /// The files that it writes. Facts of earlier versions have one, or `null`.
    #[serde(deserialize_with = "one_or_several")]
    pub(crate) writes: Box<[Text]>,
    #[serde(with = "list")]
    pub(crate) ends: SmallVec<[CallEndFact; 1]>,
    /// Longest reported duration; recorded only from ends without a time.
    pub(crate) duration_ms: Option<i64>,
    /// Whether the command that it started is still running after its end.
    pub(crate) left_running: bool,
    pub(crate) payloads: Option<Box<CallPayloads>>,
    pub(crate) spawn: Option<Box<SpawnCallFacts>>,
}

fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Text]>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Several(Box<[Text]>),
        One(Option<Text>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Several(files) => files,
        Written::One(file) => file.into_iter().collect(),
    })
}

/// Arguments and result of a call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CallPayloads {
    pub(crate) input: ReportedPayloads,
    pub(crate) result: ReportedPayloads,
}

/// Payloads of a call, the first per source kind and reporter. A forked agent's copy of a call has another result, and
/// the owner is derived later.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReportedPayloads(
    #[serde(with = "list")] SmallVec<[(SourceKind, Option<AgentRef>, Payload); 1]>,
);

impl ReportedPayloads {
    pub(crate) fn add(&mut self, kind: SourceKind, by: Option<AgentRef>, payload: impl FnOnce() -> Payload) {
        if !self.0.iter().any(|(known, reporter, _)| (*known, *reporter) == (kind, by)) {
            self.0.push((kind, by, payload()));
        }
    }

    /// Returns the payload of the best source kind among the reporters that `counts` accepts, named reporters first; if
    /// it accepts none, of the best source kind.
    pub(crate) fn best(&self, counts: impl Fn(Option<AgentRef>) -> bool) -> Option<&Payload> {
        let of_owner = self.0.iter().filter(|(_, by, _)| counts(*by));
        let best = of_owner.min_by_key(|(kind, by, _)| (*kind, by.is_none()));
        best.or_else(|| self.0.iter().min_by_key(|(kind, ..)| *kind)).map(|(.., payload)| payload)
    }

    /// Returns source kind, reporter and payload of each entry.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (SourceKind, Option<AgentRef>, Payload)> {
        self.0.into_iter()
    }
}

impl CallFacts {
    /// Whether a source of this kind reported its begin.
    pub(crate) fn seen_in(&self, kind: SourceKind) -> bool {
        self.seen & (1 << kind as u8) != 0
    }

    /// Whether a source reports its begin or its end: it is more than an id that something else names.
    pub(crate) fn is_reported(&self) -> bool {
        self.name.is_some() || self.ends.iter().any(|end| end.outcome != Outcome::Over)
    }

    /// Whether an equal id in another session is another call: the harness numbers its calls, or only published events
    /// report it, with ids of the program's own (`1`, `call_1`).
    pub(crate) fn is_local(&self) -> bool {
        self.has_local_id || self.is_published()
    }

    /// Whether only published events report it.
    pub(crate) fn is_published(&self) -> bool {
        let is_known = self.seen != 0 || !self.ends.is_empty();
        let others = self.seen & !(1 << SourceKind::Posted as u8);
        is_known && others == 0 && self.ends.iter().all(|end| end.kind == SourceKind::Posted)
    }

    /// Returns the time of its begin, if known.
    pub(crate) fn begun_at(&self) -> Option<Millis> {
        self.begin.and_then(|begin| begin.time())
    }

    /// Sort key: order of its begin; calls without one come last.
    pub(crate) fn order(&self) -> (bool, Option<FactOrder>) {
        (self.begin.is_none(), self.begin.map(|begin| begin.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_call_are_read_as_every_version_wrote_them() {
        let cases: [(&str, &[&str]); 5] = [
            ("{}", &[]),
            (r#"{"writes":null}"#, &[]),
            (r#"{"writes":"/a"}"#, &["/a"]),
            (r#"{"writes":[]}"#, &[]),
            (r#"{"writes":["/a","/b"]}"#, &["/a", "/b"]),
        ];
        for (json, files) in cases {
            let call: CallFacts = serde_json::from_str(json).unwrap();
            assert!(call.writes.iter().map(|file| &**file).eq(files.iter().copied()), "{json}");
            let again: CallFacts = serde_json::from_str(&serde_json::to_string(&call).unwrap()).unwrap();
            assert_eq!(again.writes, call.writes, "{json}");
        }
    }
}
