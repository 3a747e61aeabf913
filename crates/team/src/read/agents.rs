//! Agents by id prefix.

use clickhouse::Row;
use serde::Deserialize;
use subscope_model::{AgentId, AgentName, SessionId};

use super::Reader;
use crate::engine::{BoundValue, EngineError, TenantQuery, TenantTable, Versions};

impl Reader {
    /// Returns agents by prefix. A whole id is looked up by the filter first, which leaves out nearly all rows.
    pub(super) async fn agents(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<(SessionId, AgentId)>, EngineError> {
        let whole = self.agents_where("has(agent_ids, ?)", "id = ?", prefix, limit).await?;
        if !whole.is_empty() {
            return Ok(whole);
        }
        self.agents_where(
            "arrayExists(id -> startsWith(id, ?), agent_ids)",
            "startsWith(id, ?)",
            prefix,
            limit,
        )
        .await
    }

    /// Returns agents whose id, type and description have all words, those of the newest sessions first.
    pub(super) async fn agents_with_words(
        &self,
        words: &str,
        limit: usize,
    ) -> Result<Vec<AgentName>, EngineError> {
        #[derive(Row, Deserialize)]
        struct NamedAgent {
            session_id: String,
            id: String,
            kind: String,
            description: String,
        }
        let columns = "session_id, id, kind, description";
        let mut select = TenantQuery::new(columns, TenantTable::Sessions, Versions::Newest)
            .join("ARRAY JOIN agent_ids AS id, agent_types AS kind, agent_descriptions AS description");
        for word in words.split_whitespace() {
            select = select.matching(
                "position(lowerUTF8(concatWithSeparator('\\n', id, kind, description)), ?) > 0",
                "String",
                BoundValue::Text(word.to_lowercase()),
            );
        }
        let select = select.tail(format!("ORDER BY last_event_at_ms DESC, session_id, id LIMIT {limit}"));
        let rows: Vec<NamedAgent> = self.scoped.rows(select).await?;
        let known = |text: String| (!text.is_empty()).then_some(text);
        let found = rows.into_iter().filter_map(|row| {
            let (session, agent) = (SessionId(row.session_id.into()), AgentId(row.id.into()));
            let (kind, description) = (known(row.kind), known(row.description));
            AgentName::found(words, session, agent, kind.as_deref(), description.as_deref())
        });
        Ok(found.collect())
    }

    async fn agents_where(
        &self,
        has_one: &str,
        is_one: &str,
        word: &str,
        limit: usize,
    ) -> Result<Vec<(SessionId, AgentId)>, EngineError> {
        #[derive(Row, Deserialize)]
        struct FoundAgent {
            session_id: String,
            id: String,
        }
        let select = TenantQuery::new("session_id, id", TenantTable::Sessions, Versions::Newest)
            .join("ARRAY JOIN agent_ids AS id")
            .matching(has_one, "String", BoundValue::Text(word.to_owned()))
            .matching(is_one, "String", BoundValue::Text(word.to_owned()))
            .tail(format!("ORDER BY last_event_at_ms DESC, session_id, id LIMIT {limit}"));
        let rows: Vec<FoundAgent> = self.scoped.rows(select).await?;
        Ok(rows.into_iter().map(|row| (SessionId(row.session_id.into()), AgentId(row.id.into()))).collect())
    }
}
