//! `state.json`: what the program notes of a session: its title, its folder, and the parents of its agents.
//!
//! Pitfall: `lastTurnReason` is of an earlier turn while one runs, so the lines of the root alone say how it ended.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{Flag, LineText, Str},
};
use subscope_model::{Basis, Claim, Clock, Fact, Parent, Sink, SourceKind, Spawn, TitleOrigin};

use super::layout::MAIN;

/// Decodes one such file.
#[derive(Debug)]
pub(super) struct State(pub(super) Hint);

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Note<'a> {
    id: Str<'a>,
    cwd: Str<'a>,
    /// Before 1.5.
    work_dir: Str<'a>,
    title: Str<'a>,
    is_custom_title: Flag,
    agents: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Agent<'a> {
    parent_agent_id: Str<'a>,
    labels: Labels<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Labels<'a> {
    profile_name: Str<'a>,
}

impl LineDecoder for State {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let note: Note<'_> = serde_json::from_str(text.text)?;
        let Some(session) = self.0.session.as_deref().or(note.id.filled()) else {
            return Err(LineError::MissingField { item: "a note of a session", field: "id" });
        };
        let claim = Claim::Root(Basis::Link);
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.session = Some(session);
        if let Some(cwd) = note.cwd.filled().or(note.work_dir.filled()).map(Cow::Borrowed) {
            out.emit_made(Fact::Session { version: None, cwd: Some(cwd), model: None, tells_starts: true });
        }
        if let Some(title) = note.title.0.clone().filter(|title| !title.is_empty()) {
            let is_person = note.is_custom_title.is_true();
            let origin = if is_person { TitleOrigin::Person } else { TitleOrigin::Harness };
            out.emit_made(Fact::Title { text: title, origin });
        }
        let agents: BTreeMap<Cow<'_, str>, &RawValue> =
            note.agents.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        for (id, raw) in agents.iter().filter(|(id, _)| **id != MAIN && !id.is_empty()) {
            let Ok(agent) = serde_json::from_str::<Agent<'_>>(raw.get()) else { continue };
            let parent = match agent.parent_agent_id.filled() {
                Some(MAIN) => Some(Parent::Root),
                Some(parent) => Some(Parent::Agent(parent)),
                None => None,
            };
            let agent_type = agent.labels.profile_name.0.clone().filter(|name| !name.is_empty());
            out.emit_made(Fact::Spawn(Spawn { agent: Some(id), parent, agent_type, ..Spawn::default() }));
        }
        Ok(())
    }
}
