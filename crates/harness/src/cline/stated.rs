//! What Cline states about its own sessions: the tokens of the root, in the object about a session and in its row.

use serde_json::Value;

use super::{ROWS, STATE};
use crate::self_report::{SelfReport, StatedScope, StatedTotal, Statement, number, text, tokens};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[StatedTotal { name: "metadata.usage", dialects: &[STATE, ROWS], read: usage }],
    is_work: |_| false,
    asks_with: |_| false,
    shows_own_requests: |_| false,
    ends_turn: |_| None,
};

fn usage(line: &Value) -> Vec<Statement> {
    let count = |name: &str| number(line, &format!("/metadata/usage/{name}"));
    let of = || {
        let cached = [count("cacheReadTokens").unwrap_or(0), count("cacheWriteTokens").unwrap_or(0)];
        let figures = tokens(count("inputTokens")?, count("outputTokens")?, cached, true);
        // The session's own id is the root.
        Some(Statement::of(StatedScope::Agent(text(line, "/session_id")?), figures))
    };
    of().into_iter().collect()
}
