//! Finds passages and says whose they are: the index knows words and places, the files know what was said, the rows know
//! the agents.

use std::{cmp::Reverse, collections::HashMap};

use subscope_collect::archive::Archive;
use subscope_model::{RawJson, SearchHit, SessionId, Text};
use subscope_store::{History, Hit, InboxPosition, StoreError, TextIndex, TextQuery, words};

/// How many characters of a passage are shown in front of the first hit, and in all.
const BEFORE: usize = 40;
const SHOWN: usize = 240;
/// How many more hits are looked at for a phrase than are asked for: the index knows words, not their order.
const PHRASE_FACTOR: usize = 20;

/// Returns the newest passages that have all the words of all terms, at most `limit`. A term of several words is a phrase:
/// it has to occur as it is, but for upper and lower case. One that ends in `*` stands for all that begin so.
pub fn search(
    history: &dyn History,
    texts: &TextIndex,
    archive: &Archive,
    terms: &[String],
    session: Option<SessionId>,
    limit: usize,
) -> Result<Vec<SearchHit>, StoreError> {
    let phrases: Vec<String> =
        terms.iter().filter(|term| words(term).len() > 1).map(|term| term.to_lowercase()).collect();
    let factor = if phrases.is_empty() { 1 } else { PHRASE_FACTOR };
    let query = TextQuery { words: terms.to_vec(), session, limit: limit.saturating_mul(factor) };
    let mut names = Names { history, known: HashMap::new() };
    let mut passages = Passages::default();
    for hit in texts.find(&query)? {
        let text = text_of(&hit, history, archive);
        let lower = text.as_deref().map(str::to_lowercase);
        let has = |phrase: &String| lower.as_deref().is_none_or(|text| text.contains(phrase.as_str()));
        if phrases.iter().all(has) {
            passages.add(&hit, found(&hit, text.as_deref(), terms, &mut names));
        }
        if passages.all.len() == limit {
            break;
        }
    }
    Ok(passages.finish())
}

/// Passages that were found: hooks and streams repeat what a transcript says, which is shown once, as the transcript's.
#[derive(Default)]
struct Passages {
    all: Vec<SearchHit>,
    /// By session, kind and what is shown of them, since a hook has more around a result than its transcript.
    alike: HashMap<(SessionId, &'static str, String), Unpaired>,
    /// Whether one took the place of another that is newer, since it was received later than it was said.
    is_moved: bool,
}

/// Passages that look alike and have no twin in another source: each of the one kind stands for one of the other.
#[derive(Default)]
struct Unpaired {
    /// How many stand in files.
    in_files: usize,
    /// The places among all of those that stand in the inbox.
    in_inbox: Vec<usize>,
}

impl Passages {
    fn add(&mut self, hit: &Hit, found: SearchHit) {
        let key = (hit.session.clone(), hit.kind.as_str(), found.snippet.clone());
        let alike = self.alike.entry(key).or_default();
        if hit.inbox_position().is_none() {
            let twin = alike.in_inbox.pop().and_then(|at| self.all.get_mut(at));
            match twin {
                Some(twin) => {
                    *twin = found;
                    self.is_moved = true;
                    return;
                }
                None => alike.in_files += 1,
            }
        } else if alike.in_files > 0 {
            alike.in_files -= 1;
            return;
        } else {
            alike.in_inbox.push(self.all.len());
        }
        self.all.push(found);
    }

    /// All of them, the newest first.
    fn finish(mut self) -> Vec<SearchHit> {
        if self.is_moved {
            self.all.sort_by_key(|found| Reverse(found.at_ms));
        }
        self.all
    }
}

/// The passage, read again where it stands; `None` where its file is gone and not archived, or was replaced, or what was received
/// was forgotten.
fn text_of(hit: &Hit, history: &dyn History, archive: &Archive) -> Option<String> {
    let len = usize::try_from(hit.span.bytes).ok()?;
    let bytes = match hit.inbox_position() {
        Some(InboxPosition { row, offset }) => {
            let body = history.received_body(row).ok().flatten()?;
            let from = usize::try_from(offset).ok()?;
            body.get(from..from.checked_add(len)?)?.to_vec()
        }
        None => archive.read_span(&hit.path, hit.span.start, len).ok()?,
    };
    let json = String::from_utf8(bytes).ok()?;
    Some(RawJson { json: &json, offset: 0 }.text().into_owned())
}

fn found(hit: &Hit, text: Option<&str>, terms: &[String], names: &mut Names<'_>) -> SearchHit {
    let (agent_id, agent) = match hit.inbox_position() {
        // Only the whole session tells: the root may have said it.
        Some(_) if hit.agent.is_empty() => (hit.agent.clone(), "an unknown agent".to_owned()),
        _ => names.of(&hit.session, &hit.agent),
    };
    let (path, offset) = match hit.inbox_position() {
        Some(InboxPosition { row, offset }) => (format!("inbox/{row}"), offset),
        None => (hit.path.display().to_string(), hit.span.start),
    };
    SearchHit {
        session_id: hit.session.clone(),
        agent_id,
        agent,
        kind: hit.kind.as_str().into(),
        at_ms: (hit.at_ms > 0).then_some(hit.at_ms),
        snippet: text.map_or_else(|| "(its file is gone)".to_owned(), |text| snippet(text, terms)),
        path,
        offset,
        bytes: hit.span.bytes,
    }
}

/// Some words around the first hit, in one line.
fn snippet(text: &str, terms: &[String]) -> String {
    let lower = text.to_lowercase();
    let first = terms.iter().flat_map(|term| words(term)).filter_map(|word| lower.find(&word)).min();
    // Lower case may be longer or shorter in bytes: the place is counted in characters.
    let at = first.map_or(0, |byte| lower.get(..byte).map_or(0, |before| before.chars().count()));
    let from = at.saturating_sub(BEFORE);
    let shown: String = text.chars().skip(from).take(SHOWN).collect();
    let line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    if from > 0 { format!("…{line}") } else { line }
}

/// Agents by their sessions and what passages call them: many hits are of few agents.
struct Names<'h> {
    history: &'h dyn History,
    known: HashMap<(SessionId, Text), (Text, String)>,
}

impl Names<'_> {
    /// The id of the agent that a passage names, and what people call it.
    fn of(&mut self, session: &SessionId, agent: &Text) -> (Text, String) {
        let history = self.history;
        let look_up = || match history.agent_label(session, agent).ok().flatten() {
            Some(row) if row.id.is_root() => (row.id.0, "main".to_owned()),
            Some(row) => {
                let kind = row.agent_type.as_deref().unwrap_or("agent");
                let name = match row.description.as_deref() {
                    Some(words) => format!("{kind}: {words}"),
                    None => format!("{kind} {}", row.id),
                };
                (row.id.0, name)
            }
            None if agent.is_empty() => (agent.clone(), "a subagent".to_owned()),
            None => (agent.clone(), agent.to_string()),
        };
        self.known.entry((session.clone(), agent.clone())).or_insert_with(look_up).clone()
    }
}
