//! What Roo Code and Kilo Code state about a task in the document about it: sums of the tokens and costs of its requests.
//!
//! Whether the sum of the input holds the tokens of the cache differs by the API of each request, so it is not compared.

use serde_json::Value;

use super::family::{kilo_vscode, roo};
use crate::self_report::{
    Figure, SelfReport, StatedFigures, StatedScope, StatedTotal, Statement, dollars, is, number, text,
};

pub(super) const SELF_REPORT: SelfReport = SelfReport {
    totals: &[StatedTotal {
        name: "history_item.json",
        dialects: &[roo::TASKS, kilo_vscode::TASKS],
        read: totals,
    }],
    is_work: |_| false,
    asks_with: |_| false,
    // The cost of a summary is in the sum alone.
    shows_own_requests: |line| {
        let messages = line.get("content").and_then(Value::as_array);
        messages.is_some_and(|all| all.iter().any(|message| is(message, "/say", "condense_context")))
    },
    ends_turn: |_| None,
};

fn totals(line: &Value) -> Vec<Statement> {
    let is_about = text(line, "/type").is_some_and(|kind| kind.ends_with(".task.about"));
    let count = |name: &str| number(line, &format!("/content/{name}")).unwrap_or(0);
    let of = || {
        // The session's own id is the root.
        let task = text(line, "/task").filter(|_| is_about)?;
        let mut figures = [
            (Figure::Output, number(line, "/content/tokensOut")?),
            (Figure::CacheRead, count("cacheReads")),
            (Figure::CacheWrite, count("cacheWrites")),
        ]
        .into_iter()
        .collect::<StatedFigures>();
        // Nothing is written where the price of the model is not known.
        figures.extend(
            dollars(line, "/content/totalCost").filter(|cost| *cost > 0).map(|cost| (Figure::Cost, cost)),
        );
        Some(Statement::of(StatedScope::Agent(task), figures))
    };
    of().into_iter().collect()
}
