//! The agents of a trace, and what belongs to each.
//!
//! Every step walks the spans once, from the top: the agent above a span, and the call on the way to it, follow from those
//! of the span above. So the time is linear in the number of spans.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use subscope_model::{SpanKind, Text, TraceSpan};

/// Most spans between a node of a graph and the agent that it belongs to.
const MAX_NODES_ABOVE: usize = 64;

/// Most milliseconds between the ends of a call and of the agent beside it that it has started.
const BESIDE_MS: i64 = 1;

/// Index of a span in the order of [`Structure::spans`].
pub(super) type SpanIndex = usize;

/// Who works in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Worker {
    /// Nobody that is known: the span that it is a part of was not reported.
    #[default]
    Unknown,
    /// Nobody: nothing is above it.
    Nobody,
    /// The agent of this span.
    Agent(SpanIndex),
    /// The agent that is not reported itself, in this call.
    InCall(SpanIndex),
    /// The agent in a span that was not reported yet.
    Pending(u64),
}

/// What a span is, in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Agent,
    Call,
    Response,
    HandOff,
    Link,
}

/// How it is known who started an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    /// Spans say so.
    #[default]
    Reported,
    /// Spans report a hand-off from the parent to this agent.
    HandedOver,
    /// Spans report a hand-off without a target, and this agent is the next to begin.
    HandedOverNext,
    /// It is inferred from times and arguments, or from what is below a span that was not reported.
    Inferred,
}

impl Link {
    pub(super) fn is_handed_over(self) -> bool {
        matches!(self, Self::HandedOver | Self::HandedOverNext)
    }

    pub(super) fn is_inferred(self) -> bool {
        matches!(self, Self::Inferred | Self::HandedOverNext)
    }
}

/// An agent and its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AgentPlace {
    pub(super) worker: Worker,
    /// Who started it; `None` for the root, and where that is unknown.
    pub(super) parent: Option<Worker>,
    /// How that is known.
    pub(super) link: Link,
    /// The call that started it.
    pub(super) call: Option<SpanIndex>,
    pub(super) name: Option<Text>,
    pub(super) prompt: Option<Text>,
    /// Whether a response of it is known.
    pub(super) has_response: bool,
}

/// The agents of a trace.
pub(super) struct Structure<'t> {
    /// In order of their begin.
    pub(super) spans: Vec<&'t TraceSpan>,
    pub(super) roles: Vec<Role>,
    /// Who works in the span above, for each span.
    pub(super) workers: Vec<Worker>,
    pub(super) agents: Vec<AgentPlace>,
    /// The agent that is the root.
    pub(super) root: Option<Worker>,
    /// When the topmost span ended, if it was reported.
    pub(super) ended: Option<i64>,
    parents: Vec<Option<SpanIndex>>,
    missing: Vec<Option<u64>>,
    /// From the top down.
    order: Vec<SpanIndex>,
    calls: Vec<Option<SpanIndex>>,
    prompts: HashMap<SpanIndex, Text>,
}

/// Depths of spans by their ids.
pub(super) struct Depths<'t> {
    spans: &'t BTreeMap<u64, Arc<TraceSpan>>,
    known: HashMap<u64, (bool, usize)>,
}

impl<'t> Depths<'t> {
    pub(super) fn new(spans: &'t BTreeMap<u64, Arc<TraceSpan>>) -> Self {
        Self { spans, known: HashMap::new() }
    }

    /// Returns whether the top above a span is missing, and its depth below what is known.
    pub(super) fn of(&mut self, id: u64) -> (bool, usize) {
        let (mut path, mut next) = (Vec::new(), id);
        let mut depth = loop {
            if let Some(known) = self.known.get(&next) {
                break *known;
            }
            match self.spans.get(&next) {
                None => break (true, 0),
                Some(span) => {
                    path.push(next);
                    // Spans that contradict each other may be above themselves: the walk ends where it began.
                    self.known.insert(next, (true, 0));
                    match span.parent {
                        Some(parent) => next = parent,
                        None => break (false, 0),
                    }
                }
            }
        };
        while let Some(span) = path.pop() {
            depth.1 += 1;
            self.known.insert(span, depth);
        }
        depth
    }
}

impl<'t> Structure<'t> {
    pub(super) fn of(all: &'t BTreeMap<u64, Arc<TraceSpan>>) -> Self {
        let mut spans: Vec<&TraceSpan> = all.values().map(|span| &**span).collect();
        spans.sort_by_key(|span| (span.start, span.id));
        let index: HashMap<u64, SpanIndex> =
            spans.iter().enumerate().map(|(number, span)| (span.id, number)).collect();
        let mut depths = Depths::new(all);
        let mut order: Vec<SpanIndex> = (0..spans.len()).collect();
        let depth_of: Vec<usize> = spans.iter().map(|span| depths.of(span.id).1).collect();
        order.sort_by_key(|number| depth_of[*number]);
        let parent = |(number, span): (usize, &&TraceSpan)| {
            // A link that does not lead upwards closes a cycle.
            span.parent
                .and_then(|id| index.get(&id).copied())
                .filter(|above| depth_of[*above] < depth_of[number])
        };
        let parents: Vec<Option<SpanIndex>> = spans.iter().enumerate().map(parent).collect();
        let missing =
            spans.iter().map(|span| span.parent.filter(|parent| !index.contains_key(parent))).collect();
        let roles = spans.iter().map(|span| role(span)).collect();
        let count = spans.len();
        let mut this = Self {
            spans,
            roles,
            workers: vec![Worker::Unknown; count],
            agents: Vec::new(),
            root: None,
            ended: None,
            parents,
            missing,
            order,
            calls: vec![None; count],
            prompts: HashMap::new(),
        };
        this.find_graph_agents();
        this.drop_repeats();
        this.drop_frames();
        this.find_workers();
        this.place_agents();
        this.find_root();
        this.link_siblings();
        this
    }

    /// Marks the nodes of graphs that are named as the agent at work in them.
    fn find_graph_agents(&mut self) {
        for number in 0..self.spans.len() {
            let span = self.spans[number];
            let Some(worker) = span.worker.as_ref().filter(|_| span.is_graph) else { continue };
            let mut next = Some(number);
            for _ in 0..MAX_NODES_ABOVE {
                let Some(above) = next else { break };
                let node = self.spans[above];
                let is_node = node.is_graph && matches!(self.roles[above], Role::Link | Role::Agent);
                if is_node && node.node.as_ref() == Some(worker) {
                    self.roles[above] = Role::Agent;
                    break;
                }
                next = self.parents[above];
            }
        }
    }

    /// Returns for each span the nearest one above it that is more than a link.
    fn nearest(&self) -> Vec<Option<SpanIndex>> {
        let mut nearest = vec![None; self.spans.len()];
        for number in &self.order {
            let Some(above) = self.parents[*number] else { continue };
            nearest[*number] = if self.roles[above] == Role::Link { nearest[above] } else { Some(above) };
        }
        nearest
    }

    /// Two programs may report the same call or response, one inside the other: the inner one counts.
    fn drop_repeats(&mut self) {
        let nearest = self.nearest();
        for (number, above) in nearest.into_iter().enumerate() {
            let Some(above) = above else { continue };
            let is_same = match (self.roles[number], self.roles[above]) {
                (Role::Response, Role::Response) => true,
                (Role::Call, Role::Call) => self.spans[number].name == self.spans[above].name,
                _ => false,
            };
            if is_same {
                self.roles[above] = Role::Link;
            }
        }
    }

    /// Makes links of agents that are no more than a frame around others.
    fn drop_frames(&mut self) {
        let nearest = self.nearest();
        let mut work = vec![0_usize; self.spans.len()];
        let mut below: Vec<Vec<SpanIndex>> = vec![Vec::new(); self.spans.len()];
        for (number, above) in nearest.iter().enumerate() {
            let Some(above) = above.filter(|above| self.roles[*above] == Role::Agent) else { continue };
            match self.roles[number] {
                Role::Agent => below[above].push(number),
                Role::Call | Role::Response => work[above] += 1,
                Role::HandOff | Role::Link => {}
            }
        }
        for number in self.order.clone() {
            if self.roles[number] != Role::Agent || work[number] > 0 {
                continue;
            }
            let span = self.spans[number];
            let is_unnamed = span.kind == SpanKind::Workflow || span.name.is_none();
            match below[number].as_slice() {
                [inner] if is_unnamed || span.name == self.spans[*inner].name => {
                    self.roles[number] = Role::Link;
                    let prompt = self.prompts.get(&number).cloned().or_else(|| span.prompt.clone());
                    self.prompts.extend(prompt.map(|prompt| (*inner, prompt)));
                }
                [_, _, ..] if is_unnamed => self.roles[number] = Role::Link,
                _ => {}
            }
        }
    }

    /// Finds who works above each span, and the call on the way.
    fn find_workers(&mut self) {
        let nearest = self.nearest();
        let mut in_call = vec![false; self.spans.len()];
        for (number, above) in nearest.iter().enumerate() {
            if let (Role::Response, Some(above)) = (self.roles[number], above) {
                in_call[*above] |= self.roles[*above] == Role::Call;
            }
        }
        let pending = self.pending_names();
        for number in self.order.clone() {
            let (worker, call) = match self.parents[number] {
                Some(above) => match self.roles[above] {
                    Role::Agent => (Worker::Agent(above), None),
                    Role::Call if in_call[above] => (Worker::InCall(above), None),
                    Role::Call => (self.workers[above], Some(above)),
                    Role::Response | Role::HandOff | Role::Link => (self.workers[above], self.calls[above]),
                },
                None => match self.missing[number] {
                    Some(missing) if pending.contains_key(&missing) => (Worker::Pending(missing), None),
                    Some(_) => (Worker::Unknown, None),
                    None => {
                        self.ended = self.ended.max(self.spans[number].end);
                        (Worker::Nobody, None)
                    }
                },
            };
            (self.workers[number], self.calls[number]) = (worker, call);
        }
        for (number, _) in in_call.iter().enumerate().filter(|(_, is_agent)| **is_agent) {
            let (span, parent) = (self.spans[number], self.workers[number]);
            self.agents.push(AgentPlace {
                worker: Worker::InCall(number),
                parent: Some(parent),
                call: Some(number),
                name: span.asked_agent.clone().or_else(|| span.name.clone()),
                link: Link::Inferred,
                ..AgentPlace::default()
            });
        }
        self.agents.extend(pending.into_iter().map(|(missing, name)| AgentPlace {
            worker: Worker::Pending(missing),
            name: Some(name),
            link: Link::Inferred,
            ..AgentPlace::default()
        }));
    }

    /// Returns the spans that were not reported yet and of which those directly below name the agent at work.
    fn pending_names(&self) -> BTreeMap<u64, Text> {
        let mut names = BTreeMap::new();
        // A program that writes the same word on the spans of all agents names none of them.
        let nearest = self.nearest();
        let mut constant: HashSet<&Text> = HashSet::new();
        for (number, above) in nearest.iter().enumerate() {
            let agent =
                above.filter(|above| self.roles[*above] == Role::Agent).map(|above| self.spans[above]);
            let (Some(agent), Some(worker)) = (agent, &self.spans[number].worker) else { continue };
            let is_work = matches!(self.roles[number], Role::Call | Role::Response);
            if is_work && agent.name.as_ref().is_some_and(|name| name != worker) {
                constant.insert(worker);
            }
        }
        for (number, span) in self.spans.iter().enumerate() {
            let is_work = matches!(self.roles[number], Role::Call | Role::Response);
            if let (Some(missing), Some(worker), true) = (self.missing[number], &span.worker, is_work)
                && !constant.contains(worker)
                // The span above is a node of the graph, not the agent's.
                && !span.is_graph
            {
                names.entry(missing).or_insert_with(|| worker.clone());
            }
        }
        names
    }

    fn place_agents(&mut self) {
        for number in 0..self.spans.len() {
            if self.roles[number] != Role::Agent {
                continue;
            }
            let span = self.spans[number];
            let of_graph = span.worker.clone().filter(|_| span.is_graph);
            let name = of_graph.or_else(|| span.name.clone()).or_else(|| span.node.clone());
            self.agents.push(AgentPlace {
                worker: Worker::Agent(number),
                parent: Some(self.workers[number]),
                link: Link::Reported,
                call: self.calls[number],
                name,
                prompt: span.prompt.clone().or_else(|| self.prompts.get(&number).cloned()),
                has_response: false,
            });
        }
        self.agents.sort_by_key(|agent| agent.worker);
        let place: HashMap<Worker, usize> =
            self.agents.iter().enumerate().map(|(number, agent)| (agent.worker, number)).collect();
        for number in 0..self.spans.len() {
            if self.roles[number] != Role::Response {
                continue;
            }
            if let Some(agent) = place.get(&self.workers[number]).map(|place| &mut self.agents[*place]) {
                agent.has_response = true;
                if agent.prompt.is_none() {
                    agent.prompt.clone_from(&self.spans[number].prompt);
                }
            }
        }
    }

    /// When an agent began: for one in a span that was not reported, the first span below.
    fn begin(&self, worker: Worker) -> (Option<i64>, SpanIndex) {
        match worker {
            Worker::Agent(number) | Worker::InCall(number) => (self.spans[number].start, number),
            Worker::Pending(_) | Worker::Unknown | Worker::Nobody => {
                let first = self.workers.iter().position(|known| *known == worker);
                first.map_or((None, usize::MAX), |number| (self.spans[number].start, number))
            }
        }
    }

    /// The root is the only agent with nobody above it, else the one that began first.
    fn find_root(&mut self) {
        let is_top = |agent: &&AgentPlace| {
            !matches!(agent.parent, Some(Worker::Agent(_) | Worker::InCall(_) | Worker::Pending(_)))
        };
        // A call above an agent is of another agent, whose span has not come.
        let is_called = |worker: Worker| {
            let Worker::Agent(number) = worker else { return false };
            self.calls[number].is_some() && self.workers[number] == Worker::Unknown
        };
        let tops = self.agents.iter().filter(is_top).map(|agent| agent.worker);
        let tops: Vec<Worker> = tops.filter(|worker| !is_called(*worker)).collect();
        let reported =
            tops.iter().filter(|top| matches!(top, Worker::Agent(number) if self.is_whole(*number)));
        let reported: Vec<Worker> = reported.copied().collect();
        let among = if reported.is_empty() { &tops } else { &reported };
        let first = among.iter().copied().min_by_key(|top| self.begin(*top));
        // Work above all agents that is not reported yet is the root's.
        let is_before = |number: &SpanIndex| {
            matches!(self.roles[*number], Role::Call | Role::Response)
                && matches!(self.workers[*number], Worker::Unknown | Worker::Nobody)
                && first.is_some_and(|first| self.begin(first) > (self.spans[*number].start, *number))
        };
        let is_later = reported.is_empty() && (0..self.spans.len()).any(|number| is_before(&number));
        self.root = first.filter(|_| !is_later);
    }

    /// Whether all spans above a span were reported.
    fn is_whole(&self, number: SpanIndex) -> bool {
        let mut next = number;
        while let Some(above) = self.parents[next] {
            next = above;
        }
        self.missing[next].is_none()
    }

    /// Finds who started the agents that have nobody above them, besides the root.
    fn link_siblings(&mut self) {
        let root = self.root;
        let mut calls: HashMap<(Option<SpanIndex>, Option<u64>), Vec<SpanIndex>> = HashMap::new();
        for number in (0..self.spans.len()).filter(|number| self.roles[*number] == Role::Call) {
            calls.entry((self.parents[number], self.missing[number])).or_default().push(number);
        }
        for place in 0..self.agents.len() {
            let agent = &self.agents[place];
            if Some(agent.worker) == root {
                self.agents[place].parent = None;
                continue;
            }
            let Worker::Agent(number) = agent.worker else {
                if matches!(agent.worker, Worker::Pending(_)) {
                    self.agents[place].parent = Some(root.unwrap_or(Worker::Nobody));
                }
                continue;
            };
            if agent.call.is_none() {
                let beside = calls.get(&(self.parents[number], self.missing[number]));
                if let Some(call) = beside.and_then(|beside| self.call_beside(number, beside)) {
                    self.agents[place].call = Some(call);
                    self.agents[place].parent = Some(self.workers[call]);
                    self.agents[place].link = Link::Inferred;
                    continue;
                }
            }
            if matches!(self.agents[place].parent, Some(Worker::Nobody | Worker::Unknown)) {
                let handed =
                    |is_named, link| self.handed_over_by(place, is_named).map(|by| (Some(by), None, link));
                let called = || self.called_by(place).map(|(by, call)| (Some(by), call, Link::Inferred));
                let linked = handed(true, Link::HandedOver)
                    .or_else(called)
                    .or_else(|| handed(false, Link::HandedOverNext));
                let (parent, call, link) = linked.unwrap_or_else(|| match self.is_whole(number) {
                    true => (None, None, Link::Reported),
                    false => (Some(root.unwrap_or(Worker::Nobody)), None, Link::Inferred),
                });
                let agent = &mut self.agents[place];
                (agent.parent, agent.call, agent.link) = (parent, call, link);
            }
        }
    }

    /// Returns the only call beside an agent that contains it and ends with it.
    fn call_beside(&self, agent: SpanIndex, calls: &[SpanIndex]) -> Option<SpanIndex> {
        let (start, end) = (self.spans[agent].start?, self.spans[agent].end?);
        let fits = |number: &&SpanIndex| {
            let call = self.spans[**number];
            call.start.is_some_and(|from| from <= start)
                && call.end.is_some_and(|to| to >= end && to - end <= BESIDE_MS)
                && self.asks_for(**number, agent)
        };
        let mut fitting = calls.iter().filter(fits);
        fitting.next().filter(|_| fitting.next().is_none()).copied()
    }

    /// Whether the arguments of a call may be for an agent.
    fn asks_for(&self, call: SpanIndex, agent: SpanIndex) -> bool {
        let asked = self.spans[call].asked_agent.as_ref();
        asked.is_none_or(|asked| self.spans[agent].name.as_ref().is_none_or(|name| name == asked))
    }

    /// Returns the agent that handed over to one beside it: `is_named` if a span names the one or the other, else by the
    /// last hand-off before it, if no other agent began in between.
    fn handed_over_by(&self, place: usize, is_named: bool) -> Option<Worker> {
        let AgentPlace { worker: Worker::Agent(number), name, .. } = &self.agents[place] else { return None };
        let (name, start) = (name.as_deref()?, self.spans[*number].start?);
        let named = |from: &str| {
            let before = self.agents.iter().filter(|agent| {
                agent.name.as_deref() == Some(from)
                    && agent.worker != Worker::Agent(*number)
                    && self.begin(agent.worker).0.is_some_and(|begun| begun <= start)
            });
            before.map(|agent| agent.worker).max_by_key(|worker| self.begin(*worker))
        };
        if let Some(by) = self.spans[*number].from_agent.as_deref().and_then(named).filter(|_| is_named) {
            return Some(by);
        }
        let hands_over = |other: &SpanIndex| {
            let span = self.spans[*other];
            let is_hand_off = match self.roles[*other] {
                Role::HandOff => true,
                Role::Call => is_hand_off(span),
                Role::Agent | Role::Response | Role::Link => false,
            };
            is_hand_off
                && span.end.is_some_and(|end| end <= start)
                && match handed_to(span) {
                    Some(to) => is_named && to == name,
                    None => !is_named && !self.begins_between(span.end, *number),
                }
        };
        let last =
            (0..self.spans.len()).filter(hands_over).max_by_key(|other| (self.spans[*other].end, *other))?;
        let by = self.spans[last].from_agent.as_deref().and_then(named);
        by.or(Some(self.workers[last]).filter(|by| *by != Worker::Agent(*number)))
    }

    /// Whether an agent with nobody above it begins after a time and before another agent.
    fn begins_between(&self, from: Option<i64>, agent: SpanIndex) -> bool {
        self.agents.iter().any(|other| match other.worker {
            Worker::Agent(number) => {
                number < agent && self.calls[number].is_none() && self.spans[number].start >= from
            }
            Worker::InCall(_) | Worker::Pending(_) | Worker::Unknown | Worker::Nobody => false,
        })
    }

    /// Returns the agent whose only fitting call contains an agent beside it, with its prompt in the arguments.
    fn called_by(&self, place: usize) -> Option<(Worker, Option<SpanIndex>)> {
        let AgentPlace { worker: Worker::Agent(number), prompt, .. } = &self.agents[place] else {
            return None;
        };
        let (span, prompt) = (self.spans[*number], prompt.as_deref()?);
        let (start, end) = (span.start?, span.end?);
        let fits = |number: &SpanIndex| {
            let call = self.spans[*number];
            self.roles[*number] == Role::Call
                && self.workers[*number] != self.agents[place].worker
                && call.start.is_some_and(|from| from <= start)
                && call.end.is_some_and(|to| to >= end)
                && call.input.as_deref().is_some_and(|input| input.contains(prompt))
        };
        let mut fitting = (0..self.spans.len()).filter(fits);
        let call = fitting.next().filter(|_| fitting.next().is_none())?;
        Some((self.workers[call], Some(call)))
    }
}

fn role(span: &TraceSpan) -> Role {
    match span.kind {
        // A graph names its agents in another way.
        SpanKind::Agent | SpanKind::Workflow if span.is_graph => Role::Link,
        SpanKind::Agent | SpanKind::Workflow => Role::Agent,
        SpanKind::Call => Role::Call,
        SpanKind::Response => Role::Response,
        SpanKind::HandOff => Role::HandOff,
        SpanKind::Link => Role::Link,
    }
}

/// Whether a call hands over to another agent.
fn is_hand_off(call: &TraceSpan) -> bool {
    let tool = call.name.as_deref().unwrap_or_default();
    tool == "handoff" || tool.starts_with(TRANSFER)
}

/// Beginning of the names of tools that hand over.
const TRANSFER: &str = "transfer_to_";

/// Returns the agent that a hand-off names.
fn handed_to(span: &TraceSpan) -> Option<&str> {
    let by_tool = || span.name.as_deref()?.strip_prefix(TRANSFER).filter(|to| *to != "agent");
    let to = span.to_agent.as_deref().or(span.asked_agent.as_deref()).or_else(by_tool);
    to.filter(|to| *to != "unknown")
}
