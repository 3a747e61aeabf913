//! Search in passages: first the keys of the newest ones by the index of words, then their texts.

use std::collections::{HashMap, HashSet};

use clickhouse::Row;
use serde::Deserialize;
use subscope_hub::search::excerpt;
use subscope_model::{FacetCount, Facets, HITS_SCHEMA, Hits, SearchHit, SearchQuery, SessionId, Text};
use subscope_store::words;

use super::{Reader, lists::of_project};
use crate::engine::{BoundValue, EngineError, TenantQuery, TenantTable, Versions};

/// Keys that are read for so many hits: some are of passages that were replaced or belong to sessions that are gone.
const FACTOR: usize = 2;
/// Most keys.
const MAX_KEYS: usize = 4_000;
/// Most sessions whose names are read.
const MAX_NAMES: usize = 4_000;

#[derive(Row, Deserialize)]
struct PassageKey {
    session_id: String,
    doc: u64,
}

#[derive(Row, Deserialize)]
struct StoredPassage {
    session_id: String,
    doc: u64,
    rev: u64,
    is_deleted: u8,
    agent_id: String,
    kind: String,
    at_ms: i64,
    text: String,
}

#[derive(Row, Deserialize)]
struct HitNames {
    session_id: String,
    rev: u64,
    title: String,
    project: String,
    agent_ids: Vec<String>,
    agent_types: Vec<String>,
    agent_descriptions: Vec<String>,
}

impl Reader {
    pub(super) async fn find(&self, query: &SearchQuery) -> Result<Hits, EngineError> {
        let mut found = Hits { schema: HITS_SCHEMA.into(), ..Hits::default() };
        if query.terms.iter().all(|term| words(term).is_empty()) {
            return Ok(found);
        }
        let wanted = query.limit.saturating_mul(FACTOR).saturating_add(10).min(MAX_KEYS);
        let select =
            conditions(query, TenantQuery::new("session_id, doc", TenantTable::Texts, Versions::All))
                .when("is_deleted = 0")
                .tail(format!("ORDER BY at_ms DESC, session_id, doc LIMIT {wanted}"));
        let keys: Vec<PassageKey> = self.scoped.rows(select).await?;
        let passages = self.passages(&keys).await?;
        let names = self.names(&passages, query).await?;
        let mut kinds: HashMap<String, u64> = HashMap::new();
        let mut projects: HashMap<String, u64> = HashMap::new();
        for passage in passages {
            let Some(names) = names.get(&passage.session_id) else { continue };
            // A snapshot has all passages of its session: older ones are gone, also where the machine has forgotten that it
            // sent them. The newest version of a passage may have other words.
            if passage.rev < names.rev || !has_all(&passage.text, &query.terms) {
                continue;
            }
            found.total += 1;
            *kinds.entry(passage.kind.clone()).or_default() += 1;
            if !names.project.is_empty() {
                *projects.entry(names.project.clone()).or_default() += 1;
            }
            if found.hits.len() < query.limit {
                found.hits.push(hit(passage, names, &query.terms));
            }
        }
        found.total_floor = keys.len() == wanted;
        found.facets = Facets { kinds: counted(kinds), projects: counted(projects), ..Facets::default() };
        Ok(found)
    }

    /// Returns the newest versions of passages, the newest first.
    async fn passages(&self, keys: &[PassageKey]) -> Result<Vec<StoredPassage>, EngineError> {
        let ids: HashSet<&str> = keys.iter().map(|key| key.session_id.as_str()).collect();
        let docs = keys.iter().map(|key| key.doc.to_string()).collect();
        let wanted: HashSet<(&str, u64)> =
            keys.iter().map(|key| (key.session_id.as_str(), key.doc)).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let columns = "session_id, doc, rev, is_deleted, agent_id, kind, at_ms, text";
        let select = TenantQuery::new(columns, TenantTable::Texts, Versions::All)
            .matching(
                "session_id IN ?",
                "Array(String)",
                BoundValue::Texts(ids.iter().map(|id| (*id).to_owned()).collect()),
            )
            .matching("doc IN arrayMap(doc -> toUInt64(doc), ?)", "Array(String)", BoundValue::Texts(docs))
            .tail("ORDER BY rev DESC LIMIT 1 BY session_id, doc");
        let mut passages: Vec<StoredPassage> = self.scoped.rows(select).await?;
        passages.retain(|one| one.is_deleted == 0 && wanted.contains(&(one.session_id.as_str(), one.doc)));
        passages.sort_by(|one, other| {
            other
                .at_ms
                .cmp(&one.at_ms)
                .then_with(|| (&one.session_id, one.doc).cmp(&(&other.session_id, other.doc)))
        });
        Ok(passages)
    }

    /// Returns the names of the sessions of passages that the query covers; deleted sessions have none.
    async fn names(
        &self,
        passages: &[StoredPassage],
        query: &SearchQuery,
    ) -> Result<HashMap<String, HitNames>, EngineError> {
        let ids: HashSet<&String> = passages.iter().map(|passage| &passage.session_id).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids = ids.into_iter().take(MAX_NAMES).cloned().collect();
        let columns = "session_id, rev, title, project, agent_ids, agent_types, agent_descriptions";
        let mut select = self
            .filter
            .add_to(TenantQuery::new(columns, TenantTable::Sessions, Versions::Newest))
            .matching("session_id IN ?", "Array(String)", BoundValue::Texts(ids));
        if let Some(project) = &query.project {
            select = of_project(select, project);
        }
        let rows: Vec<HitNames> = self.scoped.rows(select).await?;
        Ok(rows.into_iter().map(|row| (row.session_id.clone(), row)).collect())
    }
}

/// Adds the conditions of a query on passages.
fn conditions(query: &SearchQuery, mut select: TenantQuery) -> TenantQuery {
    for term in &query.terms {
        let mut parts = words(term);
        let is_prefix = term.ends_with('*');
        // The last word of a prefix matches all words that begin with it, which the index cannot find.
        let start = if is_prefix { parts.pop() } else { None };
        for word in &parts {
            // The index has runs of ASCII letters and digits, and all other letters.
            select = if word.chars().all(|one| one.is_ascii_alphanumeric()) {
                select.matching("hasToken(lower(text), ?)", "String", BoundValue::Text(word.clone()))
            } else {
                select.matching("position(lowerUTF8(text), ?) > 0", "String", BoundValue::Text(word.clone()))
            };
        }
        if let Some(start) = start {
            let pattern = "match(lowerUTF8(text), concat('(^|[^\\\\pL\\\\pN])', regexpQuoteMeta(?)))";
            select = select.matching(pattern, "String", BoundValue::Text(start));
        } else if parts.len() > 1 {
            let phrase = BoundValue::Text(term.to_lowercase());
            select = select.matching("position(lowerUTF8(text), ?) > 0", "String", phrase);
        }
    }
    if let Some(session) = &query.session {
        select = select.matching("session_id = ?", "String", BoundValue::Text(session.to_string()));
    }
    if let Some(kind) = &query.kind {
        select = select.matching("kind = ?", "String", BoundValue::Text(kind.to_string()));
    }
    if let Some(since) = query.since {
        select = select.matching("at_ms >= ?", "Int64", BoundValue::Number(since));
    }
    if let Some(until) = query.until {
        select = select.matching("at_ms < ?", "Int64", BoundValue::Number(until));
    }
    select
}

/// Whether a text has the words of all terms.
fn has_all(text: &str, terms: &[String]) -> bool {
    let lower = text.to_lowercase();
    terms.iter().flat_map(|term| words(term)).all(|word| lower.contains(&word))
}

fn hit(passage: StoredPassage, names: &HitNames, terms: &[String]) -> SearchHit {
    let excerpt = excerpt(&passage.text, terms);
    let some = |text: &String| (!text.is_empty()).then(|| Text::from(text.as_str()));
    let place = names.agent_ids.iter().position(|id| *id == passage.agent_id);
    let of =
        |texts: &[String]| place.and_then(|place| texts.get(place)).filter(|text| !text.is_empty()).cloned();
    let agent = match (of(&names.agent_types), of(&names.agent_descriptions)) {
        (Some(kind), Some(description)) => format!("{kind}: {description}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if passage.agent_id == "root" => "main".to_owned(),
        (None, None) if passage.agent_id.is_empty() => "a subagent".to_owned(),
        (None, None) => passage.agent_id.clone(),
    };
    SearchHit {
        session_id: SessionId(passage.session_id.into()),
        agent_id: passage.agent_id.into(),
        agent,
        kind: passage.kind.into(),
        at_ms: (passage.at_ms > 0).then_some(passage.at_ms),
        session_title: some(&names.title),
        project: some(&names.project),
        snippet: excerpt.split_whitespace().collect::<Vec<_>>().join(" "),
        excerpt,
        bytes: passage.text.len() as u64,
        ..SearchHit::default()
    }
}

fn counted(counts: HashMap<String, u64>) -> Vec<FacetCount> {
    let mut counts: Vec<FacetCount> =
        counts.into_iter().map(|(name, hits)| FacetCount { name: name.into(), hits }).collect();
    counts.sort_by(|one, other| other.hits.cmp(&one.hits).then_with(|| one.name.cmp(&other.name)));
    counts
}
