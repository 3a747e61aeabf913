//! Agents by id: lookup by prefix, and their labels.

use clickhouse::Row;
use serde::Deserialize;
use subscope_model::{AgentId, SessionId, Text};
use subscope_store::AgentLabel;

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

    pub(super) async fn label(
        &self,
        session: &SessionId,
        agent: &str,
    ) -> Result<Option<AgentLabel>, EngineError> {
        #[derive(Row, Deserialize)]
        struct AgentColumns {
            agent_ids: Vec<String>,
            agent_spawns: Vec<String>,
            agent_types: Vec<String>,
            agent_descriptions: Vec<String>,
            is_deleted: u8,
        }
        let columns = "agent_ids, agent_spawns, agent_types, agent_descriptions, is_deleted";
        let select = TenantQuery::new(columns, TenantTable::Sessions, Versions::All)
            .matching("session_id = ?", "String", BoundValue::Text(session.to_string()))
            .tail("ORDER BY rev DESC LIMIT 1");
        let Some(found) =
            self.scoped.first::<AgentColumns>(select).await?.filter(|found| found.is_deleted == 0)
        else {
            return Ok(None);
        };
        if agent == AgentId::ROOT {
            return Ok(Some(AgentLabel { id: agent.into(), agent_type: None, description: None }));
        }
        let by_id = found.agent_ids.iter().position(|id| id == agent);
        let place = by_id.or_else(|| {
            found.agent_spawns.iter().position(|call| call == agent).filter(|_| !agent.is_empty())
        });
        let text = |texts: &[String], place: usize| {
            texts.get(place).filter(|text| !text.is_empty()).map(|text| Text::from(text.as_str()))
        };
        Ok(place.and_then(|place| {
            Some(AgentLabel {
                id: AgentId(found.agent_ids.get(place)?.as_str().into()),
                agent_type: text(&found.agent_types, place),
                description: text(&found.agent_descriptions, place),
            })
        }))
    }
}
