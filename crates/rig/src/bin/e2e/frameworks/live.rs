//! Looks at a hub while a program runs, and finds states that were never true.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Value, json};
use subscope_client::{Address, Client, ListQuery, Queries as _};
use subscope_model::{Agent, Flag, Tree};
use subscope_rig::{Actor, Exchange, Outcome, tick};

use crate::world::World;

/// Polling interval for the first row.
const POLL: Duration = Duration::from_millis(25);
/// Interval between two looks at the trees.
const LOOK: Duration = Duration::from_millis(200);

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When the hub first listed a session.
    pub(super) first_row: Option<Instant>,
    looks: Vec<Look>,
}

/// The trees at one time.
#[derive(Debug)]
struct Look {
    at: Instant,
    trees: Vec<Tree>,
    /// The actors that had got their last answer. Read after the trees: it may be ahead, never behind.
    ended: BTreeSet<String>,
}

/// Returns all trees of a hub. A session may move to another id between the list and its tree: then it is listed again.
pub(super) fn trees(client: &mut Client) -> Result<Vec<Tree>> {
    let mut trees = Vec::new();
    for _ in 0..2 {
        let sessions = client.sessions(&ListQuery::first(100))?.sessions;
        trees.clear();
        for row in &sessions {
            trees.extend(client.tree(&row.id)?);
        }
        if trees.len() == sessions.len() {
            break;
        }
    }
    Ok(trees)
}

/// Looks at the hub until `is_over` is set.
pub(super) fn watch(hub: SocketAddr, world: &World, is_over: &AtomicBool) -> Result<Seen> {
    let mut client = Client::connect(Address::Tcp(hub))?;
    let (mut seen, mut last) = (Seen::default(), None::<Instant>);
    while !is_over.load(Ordering::Relaxed) {
        if seen.first_row.is_none() && !client.sessions(&ListQuery::first(1))?.sessions.is_empty() {
            seen.first_row = Some(tick());
        }
        if seen.first_row.is_some() && last.is_none_or(|last| last.elapsed() >= LOOK) {
            let trees = trees(&mut client)?;
            let ended = ended(world);
            last = Some(tick());
            seen.looks.extend(last.map(|at| Look { at, trees, ended }));
        }
        thread::sleep(POLL);
    }
    Ok(seen)
}

/// Actors whose last answer has been sent.
fn ended(world: &World) -> BTreeSet<String> {
    let log = world.stand_in.log();
    let has_ended = |actor: &&Actor| {
        let mut own = log.iter().filter(|it| it.actor.as_ref() == Some(&actor.id));
        own.any(|it| it.outcome == Outcome::Answered && it.step + 1 >= actor.steps.len())
    };
    world.scenario.actors.iter().filter(has_ended).map(|actor| actor.id.clone()).collect()
}

impl Seen {
    /// States that contradict the trees at the end or the log: what of the tree is false, and a description with the
    /// number of looks.
    pub(super) fn false_states(&self, at_end: &[Tree]) -> Vec<(&'static str, String)> {
        let last: BTreeMap<&str, (&Tree, &Agent)> = rows(at_end).map(|it| (it.1.id.as_str(), it)).collect();
        let mut states: BTreeMap<(&str, String), usize> = BTreeMap::new();
        let mut before: BTreeSet<&str> = BTreeSet::new();
        for look in &self.looks {
            let mut found = BTreeSet::new();
            if look.trees.len() > at_end.len() {
                found.insert(("sessions", format!("{} sessions", look.trees.len())));
            }
            for (tree, row) in rows(&look.trees) {
                match last.get(row.id.as_str()) {
                    Some((last_tree, last)) => {
                        let parents = [parent(tree, row), parent(last_tree, last)];
                        found.extend(false_states_of(row, last, parents, &look.ended));
                    }
                    None => drop(found.insert(("rows", format!("a row {:?} that vanished", name(row))))),
                }
            }
            let now: BTreeSet<&str> = rows(&look.trees).map(|(_, row)| row.id.as_str()).collect();
            let gone = before.difference(&now).filter_map(|id| last.get(id));
            found.extend(gone.map(|(_, row)| ("rows", format!("the row of {} was gone", name(row)))));
            before = now;
            for state in found {
                *states.entry(state).or_default() += 1;
            }
        }
        states.into_iter().map(|((what, state), looks)| (what, format!("{state} ({looks} looks)"))).collect()
    }

    /// When each agent was first shown, after its first request to the model.
    pub(super) fn delays(&self, log: &[Exchange], at_end: &[Tree]) -> Vec<String> {
        let mut delays = Vec::new();
        for (_, last) in rows(at_end) {
            let asked = log.iter().find(|it| it.actor.as_deref() == Some(name(last)));
            let shown = self.looks.iter().find(|look| rows(&look.trees).any(|(_, row)| row.id == last.id));
            if let (Some(asked), Some(shown)) = (asked, shown) {
                let delay = shown.at.saturating_duration_since(asked.asked_at);
                delays.push(format!("{} {} ms", name(last), delay.as_millis()));
            }
        }
        delays
    }

    /// All looks, as lines of JSON with milliseconds after `began`.
    pub(super) fn lines(&self, began: Instant) -> String {
        let row = |(tree, row): (&Tree, &Agent)| -> Value {
            json!({"id": row.id, "name": row.agent_type, "parent": parent(tree, row), "parent_id": row.parent_id,
                "flags": row.flags, "depth": row.depth, "status": row.status,
                "calls": row.tools.len(), "tokens": row.usage.map(|usage| usage.total_tokens)})
        };
        let line = |look: &Look| {
            let rows: Vec<Value> = rows(&look.trees).map(row).collect();
            let ids: Vec<_> = look.trees.iter().map(|tree| &tree.session.id).collect();
            let at = look.at.saturating_duration_since(began).as_millis() as u64;
            format!("{}\n", json!({"ms": at, "sessions": ids, "ended": look.ended, "rows": rows}))
        };
        self.looks.iter().map(line).collect()
    }
}

/// What of a row is false, by the row at the end, by the parents of both and by who has ended.
fn false_states_of(
    row: &Agent,
    last: &Agent,
    [parent, last_parent]: [Option<&str>; 2],
    ended: &BTreeSet<String>,
) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let name = name(last);
    if row.agent_type.is_some() && row.agent_type != last.agent_type {
        found.push(("names", format!("{name} is named {:?}", row.agent_type)));
    }
    if parent != last_parent {
        let is_marked = row.has(Flag::Inferred) || row.has(Flag::Orphan);
        let what = if is_marked { "marked_places" } else { "parents" };
        let [parent, last_parent] = [parent, last_parent].map(|parent| parent.unwrap_or("nobody"));
        found.push((what, format!("{name} is below {parent}, and not {last_parent}")));
    }
    if !row.status.is_live() && (!ended.contains(name) || row.status != last.status) {
        found.push(("endings", format!("{name} is {} before its end", row.status.as_str())));
    }
    for call in row.tools.iter().filter(|call| last.tools.iter().all(|other| other.name != call.name)) {
        let what = if row.id.is_root() { "calls_of_root" } else { "calls" };
        found.push((what, format!("{name} has the call {} of another agent", call.name)));
    }
    let tokens = |row: &Agent| row.usage.map_or(0, |usage| usage.total_tokens);
    if tokens(row) > tokens(last) {
        let what = if row.id.is_root() { "tokens_of_root" } else { "tokens" };
        found.push((what, format!("{name} has tokens of other agents")));
    }
    found
}

fn rows(trees: &[Tree]) -> impl Iterator<Item = (&Tree, &Agent)> {
    trees.iter().flat_map(|tree| tree.agents.iter().map(move |row| (tree, row)))
}

/// The name of an agent; the root may have none.
fn name(row: &Agent) -> &str {
    row.agent_type.as_deref().unwrap_or(if row.id.is_root() { "main" } else { row.id.as_str() })
}

/// The name of an agent's parent; the root's may change.
fn parent<'t>(tree: &'t Tree, row: &'t Agent) -> Option<&'t str> {
    let id = row.parent_id.as_ref()?;
    if id.is_root() {
        return Some(id.as_str());
    }
    tree.agents.iter().find(|other| other.id == *id).map(name)
}

#[cfg(test)]
mod tests {
    use subscope_model::{AgentId, AgentStatus, ToolCall, Usage};

    use super::*;

    fn row() -> Agent {
        let mut row = Agent::unknown(AgentId::from("a1"), 1, AgentStatus::Running);
        row.agent_type = Some("alpha".into());
        row.usage = Some(Usage::new(1, 2, 0, 0));
        row
    }

    fn call() -> ToolCall {
        let call = serde_json::json!({"id": "c1", "name": "add", "status": "ok", "basis": "wire",
            "started_at_ms": 1, "ended_at_ms": 2, "detail": null});
        serde_json::from_value(call).unwrap()
    }

    type Spoil = fn(&mut Agent);

    #[test]
    fn finds_states_that_were_never_true() {
        let (last, nobody) = (row(), BTreeSet::new());
        let kinds = |row: &Agent, parents| -> Vec<&'static str> {
            false_states_of(row, &last, parents, &nobody).into_iter().map(|(what, _)| what).collect()
        };
        let right = [Some("root"), Some("root")];
        assert!(kinds(&row(), right).is_empty());
        let spoiled: [(&str, Spoil); 4] = [
            ("names", |row| row.agent_type = Some("beta".into())),
            ("endings", |row| row.status = AgentStatus::Completed),
            ("calls", |row| row.tools = vec![call()]),
            ("tokens", |row| row.usage = Some(Usage::new(9, 2, 0, 0))),
        ];
        for (what, spoil) in spoiled {
            let mut row = row();
            spoil(&mut row);
            assert_eq!(kinds(&row, right), [what]);
        }
        let elsewhere = [Some("a2"), Some("root")];
        assert_eq!(kinds(&row(), elsewhere), ["parents"]);
        let mut marked = row();
        marked.flags.push(Flag::Inferred);
        assert_eq!(kinds(&marked, elsewhere), ["marked_places"]);
    }
}
