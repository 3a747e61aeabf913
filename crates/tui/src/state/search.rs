//! A search of all stored text: its hits, and the filters of which it gives the counts.

use subscope_model::{FacetCount, Hits, SearchQuery, Text};

/// Most hits of a search.
const MAX_HITS: usize = 200;

/// Most filters of one kind, the most frequent first.
const MAX_FACETS: usize = 8;

/// A filter of hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Facet {
    Kind(Text),
    Tool(Text),
    Project(Text),
    Failed,
}

/// The last answer to a search, shown as an overlay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchResults {
    pub(crate) query: SearchQuery,
    pub(crate) found: Hits,
    /// Index of the selected hit.
    pub(crate) at: usize,
    /// Index of the selected filter.
    pub(crate) facet: usize,
}

/// Returns the query for a typed text.
pub(crate) fn query_of(text: &str) -> SearchQuery {
    let terms = text.split_whitespace().map(str::to_owned).collect();
    SearchQuery { terms, limit: MAX_HITS, ..SearchQuery::default() }
}

/// Whether a query has a filter.
pub(crate) fn is_filtered(query: &SearchQuery) -> bool {
    query.kind.is_some() || query.tool.is_some() || query.project.is_some() || query.only_failed
}

impl SearchResults {
    /// The filters that can be chosen with the number of their hits: those of the answer, and those in effect.
    pub(crate) fn facets(&self) -> Vec<(Facet, u64)> {
        let Self { query, found, .. } = self;
        let mut all = Vec::new();
        let mut add = |counts: &[FacetCount], chosen: Option<&Text>, of: fn(Text) -> Facet| {
            let mut names: Vec<(&Text, u64)> =
                counts.iter().take(MAX_FACETS).map(|count| (&count.name, count.hits)).collect();
            if let Some(chosen) = chosen.filter(|chosen| names.iter().all(|(name, _)| name != chosen)) {
                let count = counts.iter().find(|count| count.name == *chosen).map_or(0, |count| count.hits);
                names.push((chosen, count));
            }
            all.extend(names.into_iter().map(|(name, hits)| (of(name.clone()), hits)));
        };
        add(&found.facets.kinds, query.kind.as_ref(), Facet::Kind);
        add(&found.facets.tools, query.tool.as_ref(), Facet::Tool);
        add(&found.facets.projects, query.project.as_ref(), Facet::Project);
        if found.facets.failed > 0 || query.only_failed {
            all.push((Facet::Failed, found.facets.failed));
        }
        all
    }

    /// Whether a filter is in effect.
    pub(crate) fn has(&self, facet: &Facet) -> bool {
        match facet {
            Facet::Kind(name) => self.query.kind.as_ref() == Some(name),
            Facet::Tool(name) => self.query.tool.as_ref() == Some(name),
            Facet::Project(name) => self.query.project.as_ref() == Some(name),
            Facet::Failed => self.query.only_failed,
        }
    }

    /// The query with a filter put into effect, or taken off.
    pub(crate) fn toggled(&self, facet: &Facet) -> SearchQuery {
        let mut query = self.query.clone();
        let is_on = self.has(facet);
        let chosen = |name: &Text| Some(name.clone()).filter(|_| !is_on);
        match facet {
            Facet::Kind(name) => query.kind = chosen(name),
            Facet::Tool(name) => query.tool = chosen(name),
            Facet::Project(name) => query.project = chosen(name),
            Facet::Failed => query.only_failed = !is_on,
        }
        query
    }
}
