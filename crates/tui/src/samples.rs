//! Small trees for unit tests.

use subscope_model::{Agent, AgentId, AgentStatus, Session, SessionId, Summary, TREE_SCHEMA, Tree};

/// Builds a session of completed agents from ids and depths in pre-order.
pub(crate) fn tree(id: &str, agents: &[(&str, u32)]) -> Tree {
    let mut above: Vec<&str> = Vec::new();
    let agents = agents.iter().map(|(id, depth)| {
        above.truncate(*depth as usize);
        let parent_id = above.last().map(|id| AgentId::from(*id));
        above.push(id);
        Agent { parent_id, ..Agent::unknown(AgentId::from(*id), *depth, AgentStatus::Completed) }
    });
    Tree {
        schema: TREE_SCHEMA.into(),
        session: Session {
            id: SessionId::from(id),
            harness: Some("claude-code".into()),
            harness_version: None,
            cwd: Some("/home/user/shop".into()),
            project: None,
            title: Some(format!("title of {id}").into()),
            started_at_ms: Some(0),
            ended_at_ms: Some(0),
            runs: 1,
            run_started_at_ms: None,
            machine: None,
            last_heard_ms: None,
            rev: None,
        },
        agents: agents.collect(),
        summary: Summary::default(),
        problems: Vec::new(),
    }
}
