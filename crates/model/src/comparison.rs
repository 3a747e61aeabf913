//! Comparison of two sessions, or of two agents with what they started: the JSON of `subscope diff --json`.
//!
//! Sessions share no ids. Agents are paired by their parents, their task and their position among equals; [`Likeness`]
//! says how. All other data is copied from the trees.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{
    Agent, AgentId, AgentStatus, Attention, MicroUsd, Millis, Session, SessionNeed, Summary, Text,
    ToolStatus, Tree, Usage,
};

/// Schema version of [`Comparison`]. Changes within it are additive only.
pub const DIFF_SCHEMA: &str = "subscope.diff/1";

/// What is compared: a session, or one of its agents with all below it.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'t> {
    /// The session.
    pub tree: &'t Tree,
    /// The place of the agent in [`Tree::agents`]; `None` for the whole session.
    agent: Option<usize>,
}

impl<'t> Compared<'t> {
    /// Compares a whole session.
    pub fn session(tree: &'t Tree) -> Self {
        Self { tree, agent: None }
    }

    /// Compares an agent with all below it; `None` if the session has no such agent.
    pub fn agent(tree: &'t Tree, agent: &AgentId) -> Option<Self> {
        let place = tree.agents.iter().position(|row| row.id == *agent)?;
        Some(Self { tree, agent: Some(place) })
    }

    fn top(&self) -> Option<&'t Agent> {
        self.agent.and_then(|place| self.tree.agents.get(place))
    }

    /// All agents that are compared, in pre-order.
    fn agents(&self) -> &'t [Agent] {
        let agents = self.tree.agents.get(self.agent.unwrap_or_default()..).unwrap_or_default();
        let Some(top) = self.top() else { return agents };
        let below = agents.iter().skip(1).take_while(|row| row.depth > top.depth).count();
        agents.get(..=below).unwrap_or_default()
    }

    /// Statistics over the agents that are compared; as in a tree, the topmost is not counted among the agents.
    fn summary(&self) -> Summary {
        let Some(top) = self.top() else { return self.tree.summary.clone() };
        let agents = self.agents();
        let below = || agents.iter().skip(1);
        let count = |status: AgentStatus| {
            u32::try_from(below().filter(|row| row.status == status).count()).unwrap_or(u32::MAX)
        };
        let sum = |of: fn(&Agent) -> u32| agents.iter().map(of).fold(0, u32::saturating_add);
        let mut by_type = BTreeMap::new();
        for row in below() {
            *by_type.entry(row.agent_type.as_deref().unwrap_or("unknown").to_owned()).or_default() += 1;
        }
        let need = SessionNeed::of(agents, self.tree.session.run_started_at_ms);
        Summary {
            agents: top.subtree.agents.saturating_sub(1),
            pending: count(AgentStatus::Pending),
            running: count(AgentStatus::Running),
            completed: count(AgentStatus::Completed),
            failed: count(AgentStatus::Failed),
            stopped: count(AgentStatus::Stopped),
            lost: count(AgentStatus::Lost),
            max_depth: agents.iter().map(|row| row.depth - top.depth).max().unwrap_or_default(),
            tool_calls: top.subtree.tool_calls,
            tool_errors: sum(|row| row.tool_errors),
            tools_denied: sum(|row| row.tools_denied),
            permissions_asked: None,
            usage: top.subtree.usage,
            unattributed_usage: None,
            cost_micro_usd: top.subtree.cost_micro_usd,
            cost_floor: top.subtree.cost_floor,
            vendor_costs: Vec::new(),
            wall_ms: top.subtree.wall_ms,
            agent_ms: top.subtree.agent_ms,
            by_type,
            attention: Attention::of(agents, need.as_ref()),
            need,
        }
    }
}

/// A comparison of two sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Comparison {
    /// Always [`DIFF_SCHEMA`].
    pub schema: Text,
    /// The first session.
    pub a: Side,
    /// The second session.
    pub b: Side,
    /// All agents of both, in the first's pre-order; those only in the second follow their siblings.
    pub agents: Vec<AgentPair>,
    /// All tools of both, the most called first.
    pub tools: Vec<ToolPair>,
}

/// One of the compared sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Side {
    /// The session.
    pub session: Session,
    /// The agent that is compared with all below it; `None` if the whole session is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Status of that agent, or of the root; `None` if there is none.
    pub status: Option<AgentStatus>,
    /// Its statistics.
    pub summary: Summary,
}

/// Why two agents are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Likeness {
    /// Both are roots.
    Root,
    /// Paired parents, equal type and description; the n-th of several with the n-th.
    Task,
    /// Paired parents and equal type, in their order, but another description. Frontends mark it `~`.
    Type,
}

/// A pair of agents, one of each session; at least one is present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AgentPair {
    /// Why they are paired; `None` if there is only one.
    pub likeness: Option<Likeness>,
    /// 0 for roots, 1 for their subagents and for orphans.
    pub depth: u32,
    /// The first session's.
    pub a: Option<ComparedAgent>,
    /// The second session's.
    pub b: Option<ComparedAgent>,
}

/// An agent of a comparison, without its descendants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[expect(missing_docs, reason = "the fields are those of `Agent`")]
pub struct ComparedAgent {
    pub id: AgentId,
    /// Display name.
    pub title: String,
    #[serde(rename = "type")]
    pub agent_type: Option<Text>,
    pub description: Option<Text>,
    pub model: Option<Text>,
    pub status: AgentStatus,
    pub error: Option<Text>,
    pub started_at_ms: Option<Millis>,
    pub ended_at_ms: Option<Millis>,
    pub wall_ms: Option<i64>,
    pub tool_calls: u32,
    pub tool_errors: u32,
    pub tools_denied: u32,
    pub usage: Option<Usage>,
    pub cost_micro_usd: Option<MicroUsd>,
    pub cost_floor: bool,
}

/// Calls of one tool, by all agents of each session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolPair {
    /// Name of the tool in the harness.
    pub name: Text,
    /// In the first session.
    pub a: Calls,
    /// In the second session.
    pub b: Calls,
}

/// Numbers of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Calls {
    /// All calls, regardless of their outcome.
    pub calls: u32,
    /// Failed calls.
    pub errors: u32,
    /// Denied calls.
    pub denied: u32,
}

impl Comparison {
    /// Compares two sessions or agents. Of an agent and a session, the agent is paired with the session's root.
    pub fn of(a: Compared<'_>, b: Compared<'_>) -> Self {
        Self {
            schema: DIFF_SCHEMA.into(),
            a: Side::of(a),
            b: Side::of(b),
            agents: pair_agents(a, b),
            tools: tools(a, b),
        }
    }
}

impl Side {
    fn of(compared: Compared<'_>) -> Self {
        let top = compared.top().or_else(|| compared.tree.agents.iter().find(|agent| agent.id.is_root()));
        Self {
            session: compared.tree.session.clone(),
            agent_id: compared.top().map(|agent| agent.id.clone()),
            status: top.map(|top| top.status),
            summary: compared.summary(),
        }
    }
}

impl ComparedAgent {
    fn of(agent: &Agent) -> Self {
        Self {
            id: agent.id.clone(),
            title: agent.title(),
            agent_type: agent.agent_type.clone(),
            description: agent.description.clone(),
            model: agent.model.clone(),
            status: agent.status,
            error: agent.error.clone(),
            started_at_ms: agent.started_at_ms,
            ended_at_ms: agent.ended_at_ms,
            wall_ms: agent.wall_ms,
            tool_calls: agent.tool_calls,
            tool_errors: agent.tool_errors,
            tools_denied: agent.tools_denied,
            usage: agent.usage,
            cost_micro_usd: agent.cost_micro_usd,
            cost_floor: agent.cost_floor,
        }
    }
}

/// Agents by parent, in their order; roots and orphans under `None`.
type ChildrenByParent<'t> = HashMap<Option<&'t AgentId>, Vec<&'t Agent>>;

fn children_by_parent(compared: Compared<'_>) -> ChildrenByParent<'_> {
    let top = compared.top().map(|agent| &agent.id);
    let mut children_by_parent = ChildrenByParent::new();
    for agent in compared.agents() {
        let parent = agent.parent_id.as_ref().filter(|_| Some(&agent.id) != top);
        children_by_parent.entry(parent).or_default().push(agent);
    }
    children_by_parent
}

/// Returns the children of an agent; for `None`, roots and orphans.
fn children_of<'c, 't>(
    children_by_parent: &'c ChildrenByParent<'t>,
    agent: Option<&'t AgentId>,
) -> &'c [&'t Agent] {
    children_by_parent.get(&agent).map(Vec::as_slice).unwrap_or_default()
}

/// Two paired agents, or one.
type AgentRefs<'t> = (Option<&'t Agent>, Option<&'t Agent>, Option<Likeness>);

fn pair_agents(a: Compared<'_>, b: Compared<'_>) -> Vec<AgentPair> {
    let (below_a, below_b) = (children_by_parent(a), children_by_parent(b));
    let mut found = Vec::new();
    // Stack of pairs to visit, the next one last: no recursion, regardless of the depth.
    let mut next = match (a.top().is_none(), b.top().is_none()) {
        (true, true) => pair_siblings(children_of(&below_a, None), children_of(&below_b, None)),
        _ => vec![(a.agents().first(), b.agents().first(), Some(Likeness::Root))],
    };
    next.reverse();
    while let Some((in_a, in_b, likeness)) = next.pop() {
        let Some(one) = in_a.or(in_b) else { continue };
        found.push(AgentPair {
            likeness,
            depth: depth_of(one, if in_a.is_some() { a } else { b }),
            a: in_a.map(ComparedAgent::of),
            b: in_b.map(ComparedAgent::of),
        });
        let started_a = in_a.map(|agent| children_of(&below_a, Some(&agent.id)));
        let started_b = in_b.map(|agent| children_of(&below_b, Some(&agent.id)));
        let children_by_parent = pair_siblings(started_a.unwrap_or_default(), started_b.unwrap_or_default());
        next.extend(children_by_parent.into_iter().rev());
    }
    found
}

/// Returns the depth below what is compared.
fn depth_of(agent: &Agent, compared: Compared<'_>) -> u32 {
    agent.depth.saturating_sub(compared.top().map_or(0, |top| top.depth))
}

/// Pairs two lists of siblings.
fn pair_siblings<'t>(a: &[&'t Agent], b: &[&'t Agent]) -> Vec<AgentRefs<'t>> {
    let mut pair_agents: Vec<AgentRefs<'t>> = a.iter().map(|agent| (Some(*agent), None, None)).collect();
    let mut unpaired: Vec<&Agent> = b.to_vec();
    for likeness in [Likeness::Root, Likeness::Task, Likeness::Type] {
        let mut waiting: BTreeMap<Vec<&str>, VecDeque<&Agent>> = BTreeMap::new();
        let mut other = Vec::new();
        for agent in unpaired {
            match likeness.key(agent) {
                Some(key) => waiting.entry(key).or_default().push_back(agent),
                None => other.push(agent),
            }
        }
        for (in_a, in_b, basis) in &mut pair_agents {
            let key = in_a.filter(|_| in_b.is_none()).and_then(|agent| likeness.key(agent));
            if let Some(agent) = key.and_then(|key| waiting.get_mut(&key)?.pop_front()) {
                (*in_b, *basis) = (Some(agent), Some(likeness));
            }
        }
        let left: HashSet<&AgentId> =
            waiting.values().flatten().chain(&other).map(|agent| &agent.id).collect();
        unpaired = b.iter().copied().filter(|agent| left.contains(&agent.id)).collect();
    }
    pair_agents.extend(unpaired.into_iter().map(|agent| (None, Some(agent), None)));
    pair_agents
}

impl Likeness {
    /// Returns the key that is equal for paired agents; `None` if the agent cannot be paired this way.
    fn key(self, agent: &Agent) -> Option<Vec<&str>> {
        let kind = agent.agent_type.as_deref().or(agent.name.as_deref());
        match self {
            Self::Root => agent.id.is_root().then(Vec::new),
            Self::Task => Some(vec![kind.unwrap_or_default(), agent.description.as_deref()?]),
            Self::Type => Some(vec![kind?]),
        }
    }
}

fn tools(a: Compared<'_>, b: Compared<'_>) -> Vec<ToolPair> {
    let mut by_name: BTreeMap<&Text, (Calls, Calls)> = BTreeMap::new();
    for (compared, is_first) in [(a, true), (b, false)] {
        // Copies are not counted.
        let calls = compared.agents().iter().filter(|agent| !agent.is_copy()).flat_map(|agent| &agent.tools);
        for call in calls {
            let (first, second) = by_name.entry(&call.name).or_default();
            let count = if is_first { first } else { second };
            count.calls += 1;
            match call.status {
                ToolStatus::Error => count.errors += 1,
                ToolStatus::Denied => count.denied += 1,
                ToolStatus::Ok | ToolStatus::Open => {}
            }
        }
    }
    let pair = |(name, (a, b)): (&Text, (Calls, Calls))| ToolPair { name: name.clone(), a, b };
    let mut all: Vec<ToolPair> = by_name.into_iter().map(pair).collect();
    // The sort is stable: equal counts stay in the order of names.
    all.sort_by_key(|tool| std::cmp::Reverse(tool.a.calls.max(tool.b.calls)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Agents as `id parent type description`; `-` for what is not known.
    fn tree(lines: &[&str]) -> Tree {
        let known = |word: &str| (word != "-").then(|| word.to_owned());
        let mut agents: Vec<Agent> = Vec::new();
        for line in lines {
            let [id, parent, kind, description] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let above = agents.iter().find(|agent| agent.id.as_str() == parent).map(|agent| agent.depth);
            let depth = above.map_or(u32::from(id != "root"), |depth| depth + 1);
            let mut agent = Agent::unknown(AgentId::from(id), depth, AgentStatus::Completed);
            agent.parent_id = known(parent).map(|parent| AgentId::from(parent.as_str()));
            agent.agent_type = known(kind).map(|kind| kind.as_str().into());
            agent.description = known(description).map(|words| words.as_str().into());
            agents.push(agent);
        }
        let session: Session = serde_json::from_value(serde_json::json!({
            "id": "s", "harness": null, "harness_version": null, "cwd": null, "title": null, "started_at_ms": null,
            "ended_at_ms": null, "runs": 1
        }))
        .unwrap();
        let summary = Summary::default();
        Tree { schema: crate::TREE_SCHEMA.into(), session, agents, summary, problems: Vec::new() }
    }

    fn compared(a: &[&str], b: &[&str]) -> Vec<String> {
        let comparison = Comparison::of(Compared::session(&tree(a)), Compared::session(&tree(b)));
        let id = |one: &Option<ComparedAgent>| one.as_ref().map_or("·", |one| one.id.as_str()).to_owned();
        let line = |pair: &AgentPair| {
            let likeness = pair.likeness.map_or("·".to_owned(), |it| format!("{it:?}"));
            format!("{} {} {} {likeness}", pair.depth, id(&pair.a), id(&pair.b))
        };
        comparison.agents.iter().map(line).collect()
    }

    #[test]
    fn agents_stand_beside_those_that_were_asked_for_the_same() {
        let a = ["root - - -", "a1 root Explore map", "a2 a1 Explore deep", "a3 root Plan plan"];
        let b = ["root - - -", "b1 root Plan plan", "b2 root Explore map", "b3 b2 Explore deep"];
        assert_eq!(compared(&a, &b), ["0 root root Root", "1 a1 b2 Task", "2 a2 b3 Task", "1 a3 b1 Task"]);
    }

    #[test]
    fn equal_tasks_go_by_order_and_other_words_by_type() {
        let a = ["root - - -", "a1 root Explore map", "a2 root Explore map", "a3 root Explore other"];
        let b = ["root - - -", "b1 root Explore words", "b2 root Explore map", "b3 root Plan x"];
        assert_eq!(
            compared(&a, &b),
            ["0 root root Root", "1 a1 b2 Task", "1 a2 b1 Type", "1 a3 · ·", "1 · b3 ·"]
        );
    }

    #[test]
    fn what_is_below_one_alone_is_alone_and_orphans_are_compared() {
        let a = ["root - - -", "a1 root Explore map", "a2 a1 Explore deep", "o1 - Explore lost"];
        let b = ["root - - -", "b1 root Plan deep", "o2 - Explore lost"];
        assert_eq!(
            compared(&a, &b),
            ["0 root root Root", "1 a1 · ·", "2 a2 · ·", "1 · b1 ·", "1 o1 o2 Task"]
        );
    }

    #[test]
    fn chain_of_any_depth_is_fine() {
        let mut lines = vec!["root - - -".to_owned(), "a0 root T d".to_owned()];
        lines.extend((1..5_000).map(|number| format!("a{number} a{} T d", number - 1)));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(compared(&lines, &lines).len(), 5_001);
    }
}
