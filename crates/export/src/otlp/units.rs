//! Tree of a session's units: what one `invoke_agent` span covers, a run of the root or an interval of a subagent.

use hashbrown::{HashMap, HashSet};
use subscope_model::{
    Agent, AgentStatus, Millis, ResponseDetail, SessionDetail, ToolCall, ToolStatus, Tree, Usage,
};

/// A run of the root, or an interval of a subagent.
#[derive(Clone, Debug)]
pub(super) struct Unit<'t> {
    /// Its agent, by place in the tree.
    pub(super) agent: usize,
    /// Identity within its session.
    pub(super) key: String,
    /// Start and end.
    pub(super) span: [Millis; 2],
    /// The unit above; `None` for the root's.
    pub(super) parent: Option<usize>,
    /// The call of the unit above that began it.
    pub(super) trigger: Option<&'t str>,
    /// Its run, from 0.
    pub(super) run: usize,
    /// How it ended.
    pub(super) status: AgentStatus,
    /// Whether it is its agent's last.
    pub(super) is_last: bool,
    /// Whether it and all units below have ended.
    pub(super) has_ended: bool,
    /// Figures of its own responses.
    pub(super) own: Figures,
    /// Figures with those of all units below.
    pub(super) subtree: Figures,
}

/// Sum of tokens and cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) usage: Option<Usage>,
    pub(super) pico_usd: u128,
    pub(super) has_unknown_cost: bool,
}

impl Figures {
    fn add(&mut self, usage: Option<Usage>, pico_usd: Option<u128>, has_unknown_cost: bool) {
        let Some(usage) = usage else { return };
        self.usage = Some(self.usage.unwrap_or_default() + usage);
        self.pico_usd += pico_usd.unwrap_or(0);
        self.has_unknown_cost |= has_unknown_cost;
    }
}

/// The units of a session, by agent in tree order.
pub(super) struct Units<'t> {
    pub(super) all: Vec<Unit<'t>>,
    /// First unit of each agent, and the number of all units.
    first: Vec<usize>,
}

impl<'t> Units<'t> {
    pub(super) fn new(tree: &'t Tree, detail: &'t SessionDetail) -> Self {
        let mut units = Self { all: Vec::new(), first: Vec::new() };
        for (number, agent) in tree.agents.iter().enumerate() {
            units.first.push(units.all.len());
            if number == 0 {
                units.add_runs(tree, detail, agent);
            } else {
                units.add_intervals(tree, detail, number, agent);
            }
            if let Some(last) = units.all.last_mut() {
                last.is_last = true;
                last.has_ended = !agent.is_at_work();
            }
        }
        units.first.push(units.all.len());
        let has_begun =
            !detail.runs.is_empty() || !detail.responses.is_empty() || tree.summary.tool_calls > 0;
        if let [root] = units.all.as_mut_slice() {
            // Before the first prompt there is no run.
            root.has_ended &= has_begun;
        }
        // The prompt of a harness's run may be reported last, and the id of its trace depends on it.
        let awaits_prompt = detail.runs.is_empty()
            && tree.session.harness.is_some()
            && tree.agents.first().is_some_and(Agent::is_at_work);
        units.all.iter_mut().for_each(|unit| unit.has_ended &= !awaits_prompt);
        units.link(tree);
        units.add_figures(tree, detail);
        units
    }

    fn add_runs(&mut self, tree: &Tree, detail: &SessionDetail, root: &Agent) {
        let started = root.started_at_ms.or(tree.session.started_at_ms);
        let count = detail.runs.len().max(1);
        for number in 0..count {
            let run = detail.runs.get(number);
            let start = run.and_then(|run| run.started_at_ms).or(started).unwrap_or_default();
            let ending = run.and_then(|run| run.ending);
            let is_last = number + 1 == count;
            let last = root.ended_at_ms.or(root.last_event_at_ms).filter(|_| is_last);
            let end = ending.and_then(|(_, at)| at).max(last).unwrap_or(start);
            let status = match ending {
                _ if is_last && !root.status.is_live() => root.status,
                Some((status, _)) => status,
                // It waits for its next prompt.
                None if is_last => AgentStatus::Completed,
                None => AgentStatus::Lost,
            };
            let key = run.map_or_else(|| "/0".to_owned(), |run| run.key.clone());
            self.all.push(Unit { run: number, status, ..unit(0, key, [start, end.max(start)]) });
        }
        // A run covers what its agent does in it.
        let calls = root.tools.iter().map(|call| (call.started_at_ms, call.ended_at_ms));
        let own = detail.responses.iter().filter(|response| response.agent == root.id);
        let responses =
            own.map(|response| (response.times.map(|[from, _]| from), response.times.map(|[_, to]| to)));
        let spans: Vec<_> = calls.chain(responses).collect();
        for (from, to) in spans {
            let unit = self.at_time(0, self.all.len(), from);
            let end = &mut self.all[unit].span[1];
            *end = to.max(from).map_or(*end, |to| to.max(*end));
        }
    }

    fn add_intervals(&mut self, tree: &'t Tree, detail: &'t SessionDetail, number: usize, agent: &'t Agent) {
        let triggers = detail.triggers.get(&agent.id);
        // An agent without times has those of its call.
        let spawn = || {
            let calls = tree.agents.iter().flat_map(|agent| &agent.tools);
            let call = calls.into_iter().find(|call| call.id.is_some() && call.id == agent.spawned_by);
            let start = call.and_then(|call| call.started_at_ms).or(agent.started_at_ms);
            let start = start.or(tree.session.started_at_ms).unwrap_or_default();
            let end = agent.ended_at_ms.or(call.and_then(|call| call.ended_at_ms));
            vec![[start, end.unwrap_or(start).max(start)]]
        };
        let intervals = if agent.intervals.is_empty() { spawn() } else { agent.intervals.clone() };
        let count = intervals.len();
        for (place, span) in intervals.into_iter().enumerate() {
            let known = triggers.and_then(|triggers| triggers.get(place)?.as_deref());
            let trigger = known.or_else(|| agent.spawned_by.as_deref().filter(|_| place == 0));
            let status = if place + 1 == count { agent.status } else { AgentStatus::Completed };
            let key = trigger.map_or_else(|| agent.id.to_string(), str::to_owned);
            self.all.push(Unit { trigger, status, ..unit(number, key, span) });
        }
    }

    /// Returns the unit of an agent at a time: its last that began by then, else its first.
    pub(super) fn of(&self, agent: usize, time: Option<Millis>) -> usize {
        self.at_time(self.first[agent], self.first[agent + 1], time)
    }

    /// Returns the unit of an agent's response; a total is in its last.
    pub(super) fn of_response(&self, agent: usize, response: &ResponseDetail) -> usize {
        match response.id {
            Some(_) => self.of(agent, response.times.map(|[from, _]| from)),
            None => self.first[agent + 1] - 1,
        }
    }

    fn at_time(&self, first: usize, end: usize, time: Option<Millis>) -> usize {
        let Some(time) = time else { return first };
        let begun = self.all[first..end].partition_point(|unit| unit.span[0] <= time);
        first + begun.saturating_sub(1)
    }

    /// Finds the unit above each one: that of its trigger, else its parent's, else the root's.
    fn link(&mut self, tree: &'t Tree) {
        // The unit of a call is that of its span: without a time, its agent's first.
        let mut callers: HashMap<&str, (usize, Option<Millis>)> = HashMap::new();
        for (number, agent) in tree.agents.iter().enumerate() {
            let calls = agent.tools.iter().filter_map(|call| Some((call.id.as_deref()?, call.started_at_ms)));
            callers.extend(calls.map(|(id, at)| (id, (number, at))));
        }
        let numbers: HashMap<&str, usize> =
            tree.agents.iter().enumerate().map(|(number, agent)| (agent.id.as_str(), number)).collect();
        let mut uses: HashMap<String, usize> = HashMap::new();
        self.all.iter().for_each(|unit| *uses.entry(unit.key.clone()).or_default() += 1);
        for number in self.first[1]..self.all.len() {
            let unit = &self.all[number];
            let (agent, start) = (&tree.agents[unit.agent], Some(unit.span[0]));
            let caller = unit.trigger.and_then(|call| callers.get(call)).copied();
            let above = match (caller, &agent.parent_id) {
                (Some((caller, at)), _) => self.of(caller, at),
                (None, Some(parent)) => self.of(numbers.get(parent.as_str()).copied().unwrap_or(0), start),
                (None, None) => self.of(0, start),
            };
            let is_shared = uses.get(&unit.key).is_some_and(|uses| *uses > 1);
            let unit = &mut self.all[number];
            unit.parent = Some(above);
            unit.trigger = unit.trigger.filter(|_| caller.is_some());
            if is_shared {
                unit.key = format!("{}/{}", unit.key, agent.id);
            }
        }
        for number in self.first[1]..self.all.len() {
            match self.ancestors(number) {
                Some(ancestors) => {
                    self.all[number].run = ancestors.last().map_or(0, |top| self.all[*top].run)
                }
                // Times that contradict each other: no unit is above itself.
                None => {
                    let top = self.of(0, Some(self.all[number].span[0]));
                    let run = self.all[top].run;
                    let unit = &mut self.all[number];
                    (unit.parent, unit.trigger, unit.run) = (Some(top), None, run);
                }
            }
        }
        self.hold_unlinked(tree);
        for number in 0..self.all.len() {
            if !self.all[number].has_ended {
                for above in self.ancestors(number).unwrap_or_default() {
                    self.all[above].has_ended = false;
                }
            }
        }
    }

    /// Holds back agents whose spawn call is unknown and may be still open: the call's end may name the agent, and the
    /// id of the agent's span depends on it.
    fn hold_unlinked(&mut self, tree: &Tree) {
        let linked: HashSet<&str> =
            tree.agents.iter().filter_map(|agent| agent.spawned_by.as_deref()).collect();
        let is_unlinked = |call: &ToolCall| {
            call.status == ToolStatus::Open && call.id.as_deref().is_some_and(|id| !linked.contains(id))
        };
        let may_start = |agent: &Agent| agent.is_at_work() && agent.tools.iter().any(is_unlinked);
        let starting: Vec<bool> = tree.agents.iter().map(may_start).collect();
        for number in self.first[1]..self.all.len() {
            let above = self.all[number].parent.map_or(0, |above| self.all[above].agent);
            let unit = &mut self.all[number];
            unit.has_ended &= unit.trigger.is_some() || !starting[above];
        }
    }

    /// Returns the units above one, the nearest first; `None` if it is among them.
    fn ancestors(&self, number: usize) -> Option<Vec<usize>> {
        let mut ancestors = Vec::new();
        let mut next = self.all[number].parent;
        while let Some(above) = next {
            if above == number || ancestors.len() > self.all.len() {
                return None;
            }
            ancestors.push(above);
            next = self.all[above].parent;
        }
        Some(ancestors)
    }

    fn add_figures(&mut self, tree: &Tree, detail: &SessionDetail) {
        let numbers: HashMap<&str, usize> =
            tree.agents.iter().enumerate().map(|(number, agent)| (agent.id.as_str(), number)).collect();
        for response in &detail.responses {
            let Some(agent) = numbers.get(response.agent.as_str()) else { continue };
            let unit = self.of_response(*agent, response);
            let cost = response.cost_pico_usd;
            self.all[unit].own.add(response.usage, cost, cost.is_none());
        }
        for number in 0..self.all.len() {
            let own = self.all[number].own;
            let with_above = [number].into_iter().chain(self.ancestors(number).unwrap_or_default());
            for unit in with_above {
                self.all[unit].subtree.add(own.usage, Some(own.pico_usd), own.has_unknown_cost);
                // As in rows, an orphan counts in no agent's subtree.
                if tree.agents[self.all[unit].agent].parent_id.is_none() {
                    break;
                }
            }
        }
    }
}

/// Returns a unit that has ended, below nothing yet.
fn unit<'t>(agent: usize, key: String, span: [Millis; 2]) -> Unit<'t> {
    Unit {
        agent,
        key,
        span,
        parent: None,
        trigger: None,
        run: 0,
        status: AgentStatus::Completed,
        is_last: false,
        has_ended: true,
        own: Figures::default(),
        subtree: Figures::default(),
    }
}
