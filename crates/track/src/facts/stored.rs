//! Facts as a store keeps them, as JSON: what the transcripts of a session reported, so that rows stay exact after a
//! transcript was cut, replaced or deleted.
//!
//! Facts of hooks and streams whose order counts are left out: the inbox has their input, and it is replayed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use subscope_model::{SourceKind, Text};

use super::{Facts, PromptFact, RootLineFact, TurnFact};

/// Facts of a session, and its harness.
#[derive(Serialize)]
struct WrittenFacts<'f> {
    harness: Option<&'f str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_harness_shared: bool,
    facts: &'f Facts,
}

/// The same as read.
#[derive(Deserialize)]
pub(crate) struct ReadFacts {
    pub(crate) harness: Option<Text>,
    /// Whether forks of the harness write the same lines.
    #[serde(default)]
    pub(crate) is_harness_shared: bool,
    pub(crate) facts: Facts,
}

/// Returns the JSON of facts.
///
/// # Errors
/// Where a value has no JSON.
pub(crate) fn write(
    facts: &Facts,
    harness: Option<&str>,
    is_harness_shared: bool,
) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&WrittenFacts { harness, is_harness_shared, facts })
}

/// Reads the JSON of facts. Their sources are numbered from 0.
///
/// # Errors
/// Where the JSON is damaged, or of another version.
pub(crate) fn read(json: &[u8]) -> serde_json::Result<ReadFacts> {
    let mut read: ReadFacts = serde_json::from_slice(json)?;
    read.facts.renumber_sources();
    Ok(read)
}

impl Facts {
    fn renumber_sources(&mut self) {
        let mut numbers = BTreeMap::new();
        let mut renumber = |source: &mut u32| {
            let next = numbers.len() as u32;
            *source = *numbers.entry(*source).or_insert(next);
        };
        self.prompts.iter_mut().for_each(|it| renumber(&mut it.source));
        self.turns.iter_mut().for_each(|it| renumber(&mut it.source));
        self.root_lines.iter_mut().for_each(|it| renumber(&mut it.source));
        let places = std::mem::take(&mut self.call_by_place).into_iter();
        self.call_by_place = places
            .map(|((mut source, offset), call)| {
                renumber(&mut source);
                ((source, offset), call)
            })
            .collect();
    }
}

/// A fact that comes from one kind of source.
pub(super) trait OfSource {
    fn kind(&self) -> SourceKind;
}

impl OfSource for PromptFact {
    fn kind(&self) -> SourceKind {
        self.kind
    }
}

impl OfSource for TurnFact {
    fn kind(&self) -> SourceKind {
        self.kind
    }
}

impl OfSource for RootLineFact {
    fn kind(&self) -> SourceKind {
        self.order.kind
    }
}

/// Serializes the facts of transcripts.
pub(super) fn of_transcripts<T: OfSource + Serialize, S: Serializer>(
    facts: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(facts.iter().filter(|fact| fact.kind() == SourceKind::Transcript))
}

/// Maps and small vectors as lists: a key of JSON is a text.
pub(super) mod list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<'c, C, S: Serializer>(items: &'c C, serializer: S) -> Result<S::Ok, S::Error>
    where
        &'c C: IntoIterator<Item: Serialize>,
    {
        serializer.collect_seq(items)
    }

    pub(crate) fn deserialize<'de, C, D: Deserializer<'de>>(deserializer: D) -> Result<C, D::Error>
    where
        C: IntoIterator<Item: Deserialize<'de>> + FromIterator<<C as IntoIterator>::Item>,
    {
        Ok(Vec::deserialize(deserializer)?.into_iter().collect())
    }
}
