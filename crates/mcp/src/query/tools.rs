//! Tool definitions as presented to the model.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations, object};
use serde_json::{Value, json};
use subscope_model::SessionOrder;

/// Tool names.
pub(super) const LIST_SESSIONS: &str = "list_sessions";
pub(super) const GET_TREE: &str = "get_tree";
pub(super) const GET_AGENT: &str = "get_agent";
pub(super) const SEARCH: &str = "search";
pub(super) const GET_EVENTS: &str = "get_events";

/// Default and largest page size, by tool.
pub(super) const SESSIONS: (usize, usize) = (20, 100);
pub(super) const AGENTS: (usize, usize) = (50, 200);
pub(super) const CALLS: (usize, usize) = (50, 200);
pub(super) const HITS: (usize, usize) = (20, 50);
pub(super) const EVENTS: (usize, usize) = (50, 200);

const AFTER: &str = "The `next` of the page before, for the page behind it.";

/// Returns all tools.
pub(super) fn all() -> Vec<Tool> {
    let session = || {
        text(
            "The session: its id, the beginning of its id, `self` for your own (the default), or `last` for the newest of this \
             project, which may be another's.",
        )
    };
    let after = || text(AFTER);
    let after_event = json!({ "type": ["integer", "string"], "description": AFTER });
    vec![
        tool(
            LIST_SESSIONS,
            "Lists the sessions of agents in this project, the newest first or by `sort`: id, title (the first prompt), whether it is \
             live, what it needs of its person (`need`), when it was, how many subagents it has and how many of them run or failed, tool calls, how many of them failed or were denied, tokens, cost.",
            &[],
            json!({
                "limit": limit(SESSIONS), "after": after(),
                "live": { "type": "boolean", "description": "Only sessions in which something is still at work." },
                "failed": { "type": "boolean", "description": "Only sessions in which an agent failed." },
                "denied": { "type": "boolean", "description": "Only sessions in which a tool call was denied." },
                "days": { "type": "integer", "minimum": 1, "description": "Only sessions with an event in the last so many days of 24 hours." },
                "sort": {
                    "type": "string", "enum": SessionOrder::ALL.map(SessionOrder::name),
                    "description": "The order, the greatest first; `duration` is from the first event to the last, `errors` and `denied` count tool calls.",
                },
            }),
        ),
        tool(
            GET_TREE,
            "Returns the agents of one session in order of the tree, the root first: id, parent_id, depth, type, \
             description, status (pending, running, completed, failed, stopped, lost), what it waits for (liveness), flags such \
             as stalled or looping, times, counts of tool calls and errors, tokens, cost, and the beginnings of prompt, result and \
             error. Tool calls are counted and not listed: get_agent lists them.",
            &[],
            json!({
                "session": session(),
                "agent": text("Only this agent and those below it: its id or the beginning of it."),
                "limit": limit(AGENTS), "after": after(),
            }),
        ),
        tool(
            GET_AGENT,
            "Returns one agent of a session whole: its prompt and result, and its tool calls in order (name, status, a short \
             detail, times), a page at a time.",
            &["agent"],
            json!({
                "agent": text("The agent's id or the beginning of it; `root` for the main agent."),
                "session": text("The session: its id, the beginning of its id, `self` or `last`. Without it the agent is looked for in \
                                 all sessions of the project; `root` is that of your own."), "limit": limit(CALLS), "after": after(),
            }),
        ),
        tool(
            SEARCH,
            "Finds words in the prompts, messages, thoughts, tool arguments and tool results of this project's sessions, the \
             newest first: whose it is, when, and some words around it.",
            &["query"],
            json!({
                "query": text("Words that all occur in one passage; \"a phrase\" in quotes; word* for all that begin so."),
                "session": text("Only in this session: its id, the beginning of its id, `self` or `last`."),
                "limit": limit(HITS),
            }),
        ),
        tool(
            GET_EVENTS,
            "Returns what happened in a session, in order: prompts, messages, thoughts, tool calls with arguments and results, \
             starts and ends of agents. Begin with a filter: a session has thousands of events.",
            &[],
            json!({
                "session": session(),
                "agent": text("Only events of this agent: its id or the beginning of it; `root` for the main agent."),
                "kinds": {
                    "type": "array", "items": { "type": "string" },
                    "description": "Only these kinds, for example tool.pre, tool.post, tool.failure, agent.message, reasoning, \
                                    subagent.start, subagent.stop, user.prompt, permission.request, stall.",
                },
                "limit": limit(EVENTS), "after": after_event,
            }),
        ),
    ]
}

fn tool(name: &'static str, about: &'static str, required: &[&str], properties: Value) -> Tool {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let annotations = ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
    Tool::new(name, about, Arc::new(object(schema))).with_annotations(annotations)
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn limit((usual, most): (usize, usize)) -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": most,
        "description": format!("The most entries of a page: {usual} by default, {most} at most. A page may have fewer; `next` is set if there are more."),
    })
}
