//! What the programs of the family state about their own sessions: the columns of a session in its database, without those of its children.
//! The output does not hold the tokens of reasoning.

use serde_json::Value;

use super::{DATABASE, kilo};
use crate::self_report::{
    Figure, SelfReport, StatedScope, StatedTotal, Statement, dollars, is, number, text, tokens,
};

/// The type of a line that the database's columns become.
const TOTALS: &str = "session.totals";

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[StatedTotal {
        name: "session (database)",
        dialects: &[DATABASE, kilo::DATABASE],
        read: columns,
    }],
    is_work: |_| false,
    asks_with: |_| false,
    shows_own_requests: |_| false,
    ends_turn: |_| None,
};

fn columns(line: &Value) -> Vec<Statement> {
    let session = text(line, "/id").filter(|_| is(line, "/type", TOTALS));
    let of = |session| {
        let count = |name: &str| number(line, &format!("/{name}")).unwrap_or(0);
        let cached = [count("cache_read"), count("cache_write")];
        let mut figures = tokens(count("input"), count("output") + count("reasoning"), cached, false);
        figures.extend(dollars(line, "/cost").filter(|cost| *cost > 0).map(|cost| (Figure::Cost, cost)));
        Statement::of(StatedScope::Agent(session), figures)
    };
    session.map(of).into_iter().collect()
}
