//! Full-text search: the index finds positions of words, the files give the text, the rows give the agents.

use std::{cmp::Reverse, collections::HashMap, ops::ControlFlow};

use subscope_collect::{archive::Archive, read::SpanReader};
use subscope_model::{
    FacetCount, Facets, HITS_SCHEMA, Hits, RawJson, SearchHit, SearchQuery, SessionId, SessionRow, Text, Tree,
};
use subscope_session::passages::{PassageReader, file_argument};
use subscope_store::{
    AgentLabel, History, Hit, InboxPosition, ListQuery, PassageKind, ReceivedInput, StoreError, TextCounter,
    TextCounts, TextIndex, TextQuery, words,
};

/// Characters of a snippet before the first hit, and in total.
const SNIPPET_BEFORE: usize = 40;
const SNIPPET_CHARS: usize = 240;
/// Passages that are read for a phrase once there are as many hits as are requested: further ones are only counted.
const MAX_EXAMINED: u64 = 20_000;

/// Most sessions among which a project is looked for.
const MAX_SESSIONS: usize = 100_000;

/// Returns the newest passages that match a query. A term of several words is a phrase: it has to occur literally,
/// ignoring case. A term that ends in `*` matches all words with this prefix. Sessions and agents are named by `unsaved`
/// rows before those of the store.
///
/// # Errors
/// If the index or the store cannot be read.
pub fn search(
    history: &dyn History,
    unsaved: &[&Tree],
    texts: &TextIndex,
    archive: &Archive,
    query: &SearchQuery,
) -> Result<Hits, StoreError> {
    let SearchQuery { terms, limit, .. } = query;
    let mut found = Hits { schema: HITS_SCHEMA.into(), ..Hits::default() };
    let kind = query.kind.as_deref().map(PassageKind::parse);
    if kind == Some(None) {
        return Ok(found);
    }
    let of_project = |project: &Text| -> Result<Vec<SessionId>, StoreError> {
        let stored = history.list(&ListQuery::first(MAX_SESSIONS))?.into_iter();
        let stored = stored.filter(|row| unsaved.iter().all(|tree| tree.session.id != row.id));
        let all = stored.chain(unsaved.iter().map(|tree| SessionRow::of(tree)));
        Ok(all.filter(|row| row.is_of_project(project)).map(|row| row.id).collect())
    };
    let text_query = TextQuery {
        words: terms.clone(),
        session: query.session.clone(),
        sessions: query.project.as_ref().map(of_project).transpose()?,
        kind: kind.flatten(),
        tool: query.tool.clone(),
        since: query.since,
        until: query.until,
        only_failed: query.only_failed,
        limit: *limit,
    };
    let mut names = Names { history, unsaved, agents: HashMap::new(), sessions: HashMap::new() };
    let mut reader = TextReader { history, archive, files: SpanReader::default() };
    let phrases: Vec<String> =
        terms.iter().filter(|term| words(term).len() > 1).map(|term| term.to_lowercase()).collect();
    let (hits, counts) = if phrases.is_empty() {
        let mut hits = PairedHits::default();
        for hit in texts.find(&text_query)? {
            let text = reader.read(&hit);
            hits.add(&hit, search_hit(&hit, text.as_deref(), terms, &mut names));
        }
        (hits, texts.count(&text_query)?)
    } else {
        find_phrases(texts, &text_query, &phrases, &mut reader, &mut names)?
    };
    found.hits = hits.finish();
    (found.total, found.total_floor) = (counts.total, counts.is_floor);
    found.facets = facets(counts, &mut names);
    Ok(found)
}

/// Finds the newest passages with all phrases, wherever they stand, and counts them. The index knows words, not their
/// order: the texts of all passages with the words are read, until there are enough hits and [`MAX_EXAMINED`].
fn find_phrases(
    texts: &TextIndex,
    query: &TextQuery,
    phrases: &[String],
    reader: &mut TextReader<'_>,
    names: &mut Names<'_>,
) -> Result<(PairedHits, TextCounts), StoreError> {
    let (mut hits, mut counter, mut examined) = (PairedHits::default(), TextCounter::default(), 0_u64);
    texts.each_match(query, &mut |hit| {
        let is_enough = hits.all.len() >= query.limit;
        if is_enough && (counter.is_full() || examined >= MAX_EXAMINED) {
            counter.stop();
            return ControlFlow::Break(());
        }
        examined += 1;
        let text = reader.read(&hit);
        let lower = text.as_deref().map(str::to_lowercase);
        if lower.is_none_or(|text| phrases.iter().all(|phrase| text.contains(phrase.as_str()))) {
            counter.add(hit.kind, hit.tool.clone(), hit.session.clone(), hit.failed);
            if !is_enough {
                hits.add(&hit, search_hit(&hit, text.as_deref(), &query.words, names));
            }
        }
        ControlFlow::Continue(())
    })?;
    // Where a second is full, row numbers are out of order by a few seconds.
    hits.is_unordered = true;
    Ok((hits, counter.finish()))
}

fn facets(counts: TextCounts, names: &mut Names<'_>) -> Facets {
    let mut projects: HashMap<Text, u64> = HashMap::new();
    for (session, hits) in counts.sessions {
        if let Some(folder) = names.session(&session).1 {
            *projects.entry(folder).or_default() += hits;
        }
    }
    let sorted = |counts: Vec<(Text, u64)>| {
        let mut counts: Vec<FacetCount> =
            counts.into_iter().map(|(name, hits)| FacetCount { name, hits }).collect();
        counts.sort_by(|one, other| other.hits.cmp(&one.hits).then_with(|| one.name.cmp(&other.name)));
        counts
    };
    Facets {
        kinds: sorted(counts.kinds.into_iter().map(|(kind, hits)| (kind.as_str().into(), hits)).collect()),
        tools: sorted(counts.tools),
        projects: sorted(projects.into_iter().collect()),
        failed: counts.failed,
    }
}

/// Hits without duplicates: hooks and streams repeat the content of a transcript, which is returned once, as the
/// transcript's.
#[derive(Default)]
struct PairedHits {
    all: Vec<SearchHit>,
    /// Unpaired hits by session, kind and snippet (a hook has more text around a result than its transcript).
    unpaired: HashMap<(SessionId, &'static str, String), Unpaired>,
    /// Whether a hit replaced one with another time, so that the order is lost.
    is_unordered: bool,
}

/// Hits with equal text whose twin in the other kind of source was not found yet: each file hit pairs with one inbox
/// hit.
#[derive(Default)]
struct Unpaired {
    /// Number of hits in files.
    in_files: usize,
    /// Indices of the hits in the inbox.
    in_inbox: Vec<usize>,
}

impl PairedHits {
    fn add(&mut self, hit: &Hit, found: SearchHit) {
        let key = (hit.session.clone(), hit.kind.as_str(), found.snippet.clone());
        let unpaired = self.unpaired.entry(key).or_default();
        if hit.inbox_position().is_none() {
            let twin = unpaired.in_inbox.pop().and_then(|at| self.all.get_mut(at));
            match twin {
                Some(twin) => {
                    *twin = found;
                    self.is_unordered = true;
                    return;
                }
                None => unpaired.in_files += 1,
            }
        } else if unpaired.in_files > 0 {
            unpaired.in_files -= 1;
            return;
        } else {
            unpaired.in_inbox.push(self.all.len());
        }
        self.all.push(found);
    }

    /// Returns all hits, newest first.
    fn finish(mut self) -> Vec<SearchHit> {
        if self.is_unordered {
            self.all.sort_by_key(|found| Reverse(found.at_ms));
        }
        self.all
    }
}

/// Reads the texts of hits.
struct TextReader<'a> {
    history: &'a dyn History,
    archive: &'a Archive,
    files: SpanReader,
}

impl TextReader<'_> {
    /// Returns the text of a hit; `None` if its file was replaced, or deleted and not archived, or its inbox input was
    /// removed.
    fn read(&mut self, hit: &Hit) -> Option<String> {
        let len = usize::try_from(hit.span.bytes).ok()?;
        let bytes = match hit.inbox_position() {
            Some(InboxPosition { row, offset }) => {
                let ReceivedInput { body, dialect, .. } = self.history.received_row(row).ok().flatten()?;
                if len == 0 {
                    return PassageReader::encoded_text(subscope_harness::dialect(&dialect)?, &body, offset);
                }
                let from = usize::try_from(offset).ok()?;
                body.get(from..from.checked_add(len)?)?.to_vec()
            }
            // The passages of a file mostly follow each other.
            None => match self.files.read(&hit.path, hit.span.start, len) {
                Ok(bytes) => bytes.to_vec(),
                Err(_) => self.archive.read_span(&hit.path, hit.span.start, len).ok()?,
            },
        };
        let json = String::from_utf8(bytes).ok()?;
        Some(RawJson { json: &json, offset: 0 }.text().into_owned())
    }
}

fn search_hit(hit: &Hit, text: Option<&str>, terms: &[String], names: &mut Names<'_>) -> SearchHit {
    let (session_title, project) = names.session(&hit.session);
    let excerpt = text.map_or_else(|| "(its file is gone)".to_owned(), |text| excerpt(text, terms));
    let (agent_id, agent) = match hit.inbox_position() {
        // The agent is known only from the complete session: it may be the root.
        Some(_) if hit.agent.is_empty() => (hit.agent.clone(), "an unknown agent".to_owned()),
        _ => names.agent(&hit.session, &hit.agent),
    };
    let (path, offset) = match hit.inbox_position() {
        Some(InboxPosition { row, offset }) => (format!("inbox/{row}"), offset),
        None => (hit.path.display().to_string(), hit.span.start),
    };
    let file = text.filter(|_| hit.kind == PassageKind::ToolInput).and_then(file_argument);
    SearchHit {
        session_id: hit.session.clone(),
        agent_id,
        agent,
        kind: hit.kind.as_str().into(),
        at_ms: (hit.at_ms > 0).then_some(hit.at_ms),
        tool: Some(&hit.tool).filter(|tool| !tool.is_empty()).cloned(),
        line: file.as_ref().and_then(|(_, line)| *line),
        file: file.map(|(path, _)| Text::from(path)),
        failed: hit.failed,
        session_title,
        project,
        snippet: excerpt.split_whitespace().collect::<Vec<_>>().join(" "),
        excerpt,
        path,
        offset,
        bytes: hit.span.bytes,
    }
}

/// Returns the text around the first word that is searched for.
pub fn excerpt(text: &str, terms: &[String]) -> String {
    let lower = text.to_lowercase();
    let first = terms.iter().flat_map(|term| words(term)).filter_map(|word| lower.find(&word)).min();
    // Lower case may have another length in bytes: the position is counted in characters.
    let at = first.map_or(0, |byte| lower.get(..byte).map_or(0, |before| before.chars().count()));
    let from = at.saturating_sub(SNIPPET_BEFORE);
    let shown: String = text.chars().skip(from).take(SNIPPET_CHARS).collect();
    let shown = shown.trim();
    if from > 0 { format!("…{shown}") } else { shown.to_owned() }
}

/// Cache of names: many hits belong to few agents and sessions.
struct Names<'a> {
    history: &'a dyn History,
    unsaved: &'a [&'a Tree],
    agents: HashMap<(SessionId, Text), (Text, String)>,
    /// Title and working directory.
    sessions: HashMap<SessionId, (Option<Text>, Option<Text>)>,
}

impl<'a> Names<'a> {
    fn unsaved(&self, session: &SessionId) -> Option<&'a Tree> {
        self.unsaved.iter().copied().find(|tree| tree.session.id == *session)
    }

    /// Returns the title and the working directory of a session.
    fn session(&mut self, session: &SessionId) -> (Option<Text>, Option<Text>) {
        let (history, unsaved) = (self.history, self.unsaved(session));
        let load = || match unsaved {
            Some(Tree { session, .. }) => (session.title.clone(), session.cwd.clone()),
            None => {
                let row = history.session_row(session).ok().flatten();
                row.map_or((None, None), |row| (row.title, row.cwd))
            }
        };
        self.sessions.entry(session.clone()).or_insert_with(load).clone()
    }

    /// Returns the id and the display name of the agent of a passage.
    fn agent(&mut self, session: &SessionId, agent: &Text) -> (Text, String) {
        let (history, unsaved) = (self.history, self.unsaved(session));
        let label = || match unsaved {
            Some(tree) => AgentLabel::of(tree, agent),
            None => history.agent_label(session, agent).ok().flatten(),
        };
        let load = || match label() {
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
        self.agents.entry((session.clone(), agent.clone())).or_insert_with(load).clone()
    }
}
