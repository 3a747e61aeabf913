//! Steps of a trajectory: prompts, responses with their calls, and messages and calls of which no response is known.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};
use serde::Serialize;
use serde_json::value::RawValue;
use subscope_model::{
    ATIF_EXTRA_SCHEMA, Agent, AgentStatus, AtifCall, AtifStep, EventKind, Millis, Payload, ResponseDetail,
    RunDetail, SessionText, Text, ToolCall, ToolStatus, iso8601,
};

use super::{AtifSource, Extra, by_spawn_call, figures::Metrics, is_copied};
use crate::compact::compact;

/// What separates texts of one response in `message`.
pub(super) const SEPARATOR: &str = "\n\n";

/// Texts and thoughts of a session, by response and by agent.
pub(super) struct AtifSources<'s> {
    responses: HashMap<&'s str, Vec<&'s ResponseDetail>>,
    /// Texts and thoughts of each response.
    parts: HashMap<&'s str, Vec<&'s SessionText>>,
    /// Messages and thoughts of no known response, by agent.
    others: HashMap<&'s str, Vec<&'s SessionText>>,
    prompts: Vec<&'s SessionText>,
    runs: &'s [RunDetail],
    spawns: HashMap<&'s str, Vec<&'s Text>>,
}

impl<'s> AtifSources<'s> {
    pub(super) fn new(source: &AtifSource<'s>) -> Self {
        let mut responses: HashMap<&str, Vec<&ResponseDetail>> = HashMap::new();
        let mut known = HashSet::new();
        // A total is no response.
        let all = source.detail.into_iter().flat_map(|detail| &detail.responses);
        for response in all.filter(|response| response.id.is_some()) {
            responses.entry(&response.agent).or_default().push(response);
            known.extend(response.id.as_deref());
        }
        let mut sources = Self {
            responses,
            parts: HashMap::new(),
            others: HashMap::new(),
            prompts: Vec::new(),
            runs: source.detail.map_or(&[], |detail| &detail.runs),
            spawns: by_spawn_call(source.tree),
        };
        for text in source.texts {
            match text.message_id.as_deref().filter(|id| known.contains(id)) {
                _ if text.kind == EventKind::UserPrompt => sources.prompts.push(text),
                Some(id) => sources.parts.entry(id).or_default().push(text),
                None => sources.others.entry(&text.agent).or_default().push(text),
            }
        }
        sources
    }

    /// Reads the messages (or the thoughts) of a response; sources may repeat a line of it.
    fn read_parts(&self, source: &AtifSource<'_>, response: &str, kind: EventKind) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for part in self.parts.get(response).into_iter().flatten().filter(|part| part.kind == kind) {
            let text = source.read(part);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }

    /// Returns the last text of an agent.
    pub(super) fn last_text(&self, source: &AtifSource<'_>, agent: &Agent) -> Option<Text> {
        let mut of_responses =
            self.responses(agent).iter().rev().filter_map(|response| response.id.as_deref());
        let last = of_responses.find_map(|id| self.read_parts(source, id, EventKind::AgentMessage).pop());
        last.map(Text::from)
    }

    /// Returns the responses of an agent, in order.
    pub(super) fn responses(&self, agent: &Agent) -> &[&'s ResponseDetail] {
        self.responses.get(agent.id.as_str()).map_or(&[], Vec::as_slice)
    }
}

/// What a step is made of.
pub(super) enum StepPart<'s> {
    Prompt(&'s SessionText),
    Task(&'s str),
    Response(&'s ResponseDetail, Vec<usize>),
    Message(&'s SessionText),
    /// Calls of no known response, by place in the agent's row.
    Calls(Vec<usize>),
    Placeholder,
    /// A run whose prompt no source has, as of a stream: its number, from 1.
    Run(u32),
}

impl StepPart<'_> {
    /// Returns about how many bytes are read for the step.
    pub(super) fn bytes_to_read(&self, sources: &AtifSources<'_>, agent: &Agent) -> usize {
        let of_calls = |places: &[usize]| -> usize {
            let calls = places.iter().map(|place| &agent.tools[*place]);
            calls.flat_map(|call| [&call.input, &call.result]).flatten().map(|payload| payload.bytes()).sum()
        };
        match self {
            Self::Prompt(text) | Self::Message(text) => text.payload.bytes(),
            Self::Task(prompt) => prompt.len(),
            Self::Response(response, calls) => {
                let parts = response.id.as_deref().and_then(|id| sources.parts.get(id));
                parts.into_iter().flatten().map(|text| text.payload.bytes()).sum::<usize>() + of_calls(calls)
            }
            Self::Calls(calls) => of_calls(calls),
            Self::Placeholder | Self::Run(_) => 0,
        }
    }
}

/// Returns the parts of an agent's trajectory in order of time; a part without a time follows its predecessor.
pub(super) fn step_parts<'s>(sources: &AtifSources<'s>, agent: &'s Agent) -> Vec<StepPart<'s>> {
    let responses = sources.responses(agent);
    let (by_response, unlinked) = link_calls(agent, responses);
    let mut placed: Vec<(Millis, StepPart<'s>)> = Vec::new();
    let mut add = |items: &mut dyn Iterator<Item = (Option<Millis>, StepPart<'s>)>| {
        let mut last = Millis::MIN;
        for (time, part) in items {
            last = time.unwrap_or(last).max(last);
            placed.push((last, part));
        }
    };
    if agent.id.is_root() {
        add(&mut sources.prompts.iter().map(|text| (text.at_ms, StepPart::Prompt(text))));
    }
    let has_prompts = agent.id.is_root() && !sources.prompts.is_empty();
    match agent.prompt.as_deref() {
        Some(prompt) if !has_prompts => add(&mut [(None, StepPart::Task(prompt))].into_iter()),
        None if agent.id.is_root() && !has_prompts => {
            add(&mut (1..).zip(sources.runs).map(|(number, run)| (run.started_at_ms, StepPart::Run(number))));
        }
        Some(_) | None => {}
    }
    add(&mut responses.iter().zip(by_response).map(|(response, calls)| {
        (response.times.map(|[from, _]| from), StepPart::Response(response, calls))
    }));
    let others = sources.others.get(agent.id.as_str()).into_iter().flatten();
    add(&mut others.map(|text| (text.at_ms, StepPart::Message(text))));
    add(&mut unlinked.into_iter().map(|call| (agent.tools[call].started_at_ms, StepPart::Calls(vec![call]))));
    placed.sort_by_key(|(time, _)| *time);
    let mut parts: Vec<StepPart<'s>> = placed.into_iter().map(|(_, part)| part).collect();
    if parts.is_empty() {
        parts.push(StepPart::Placeholder);
    }
    parts
}

/// Returns the calls of each response, and those of none, by place in the agent's row. A call belongs to the response
/// whose lines contain it; if no source reports that, to the last one that began before it.
fn link_calls(agent: &Agent, responses: &[&ResponseDetail]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut owners: HashMap<&str, usize> = HashMap::new();
    for (number, response) in responses.iter().enumerate() {
        owners.extend(response.calls.iter().map(|call| (call.as_str(), number)));
    }
    let (mut linked, mut unlinked) = (vec![Vec::new(); responses.len()], Vec::new());
    let begins: Vec<Option<Millis>> =
        responses.iter().map(|response| response.times.map(|[from, _]| from)).collect();
    for (place, call) in agent.tools.iter().enumerate() {
        let known = call.id.as_deref().and_then(|id| owners.get(id).copied());
        let by_time = || {
            let time = call.started_at_ms?;
            begins.partition_point(|begin| begin.is_none_or(|begin| begin <= time)).checked_sub(1)
        };
        match known.or_else(by_time) {
            Some(number) => linked[number].push(place),
            None => unlinked.push(place),
        }
    }
    (linked, unlinked)
}

/// A step.
#[derive(Serialize)]
pub(super) struct WrittenStep<'a> {
    step_id: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<&'a str>,
    message: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WrittenCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<WrittenObservation<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics>,
    extra: Extra<AtifStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_call_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_copied_context: Option<bool>,
}

#[derive(Serialize)]
struct WrittenCall<'a> {
    tool_call_id: Cow<'a, str>,
    function_name: &'a str,
    arguments: WrittenArguments,
    extra: Extra<AtifCall>,
}

/// Arguments of a call: ATIF requires an object, so any other value is wrapped in one.
#[derive(Serialize)]
#[serde(untagged)]
enum WrittenArguments {
    Object(Box<RawValue>),
    Other { value: Box<RawValue> },
    Unknown {},
}

#[derive(Serialize)]
struct WrittenObservation<'a> {
    results: Vec<ObservationResult<'a>>,
}

#[derive(Serialize)]
struct ObservationResult<'a> {
    source_call_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<WrittenContent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subagent_trajectory_ref: Vec<TrajectoryRef<'a>>,
}

#[derive(Serialize)]
struct TrajectoryRef<'a> {
    trajectory_id: &'a str,
    session_id: &'a str,
}

/// WrittenContent: a text, or several.
#[derive(Serialize)]
#[serde(untagged)]
enum WrittenContent {
    Text(Box<RawValue>),
    Other(String),
    Parts(Vec<ContentPart>),
}

#[derive(Serialize)]
struct ContentPart {
    r#type: &'static str,
    text: Box<RawValue>,
}

/// Makes the steps of a trajectory.
pub(super) struct StepMaker<'a, 's> {
    pub(super) source: &'a AtifSource<'s>,
    pub(super) sources: &'a AtifSources<'s>,
    pub(super) agent: &'a Agent,
}

impl<'a> StepMaker<'a, '_> {
    /// Returns a step; numbers begin with 1.
    pub(super) fn step(&self, number: usize, part: StepPart<'a>) -> WrittenStep<'a> {
        let mut step = WrittenStep {
            step_id: number,
            timestamp: None,
            source: "agent",
            model_name: None,
            message: Cow::Borrowed(""),
            reasoning_content: None,
            tool_calls: Vec::new(),
            observation: None,
            metrics: None,
            extra: Extra { subscope: AtifStep { schema: ATIF_EXTRA_SCHEMA.into(), ..AtifStep::default() } },
            llm_call_count: None,
            is_copied_context: is_copied(self.agent).then_some(true),
        };
        let extra = &mut step.extra.subscope;
        match part {
            StepPart::Prompt(prompt) => {
                step.source = "user";
                step.timestamp = prompt.at_ms.map(iso8601);
                step.message = Cow::Owned(self.source.read(prompt));
                extra.prompt_id.clone_from(&prompt.prompt_id);
                (extra.run_status, extra.run_ended_at_ms) = self.ending_of_run(prompt.run);
            }
            StepPart::Run(number) => {
                step.source = "user";
                let run = self.sources.runs.get((number as usize).saturating_sub(1));
                step.timestamp = run.and_then(|run| run.started_at_ms).map(iso8601);
                (extra.run_status, extra.run_ended_at_ms) = self.ending_of_run(number);
            }
            StepPart::Task(prompt) => {
                step.source = "user";
                step.timestamp = self.agent.started_at_ms.map(iso8601);
                step.message = Cow::Borrowed(prompt);
            }
            StepPart::Response(response, calls) => {
                step.timestamp = response.times.map(|[_, to]| iso8601(to));
                step.model_name = response.model.as_deref();
                step.llm_call_count = Some(1);
                step.metrics = Metrics::of(response);
                extra.message_id.clone_from(&response.id);
                extra.started_at_ms = response.times.filter(|[from, to]| from != to).map(|[from, _]| from);
                extra.finish_reason = response.finish.map(|reason| reason.as_str().into());
                extra.is_floor = self.is_floor(response);
                if let Some(id) = response.id.as_deref() {
                    let read = |kind| self.sources.read_parts(self.source, id, kind);
                    let (texts, thoughts) = (read(EventKind::AgentMessage), read(EventKind::Reasoning));
                    if texts.len() > 1 {
                        extra.texts = texts.iter().map(|text| text.chars().count()).collect();
                    }
                    step.message = Cow::Owned(joined(texts));
                    step.reasoning_content = (!thoughts.is_empty()).then(|| joined(thoughts));
                }
                self.add_calls(&mut step, &calls);
            }
            StepPart::Message(message) => {
                step.timestamp = message.at_ms.map(iso8601);
                let text = self.source.read(message);
                if message.kind == EventKind::Reasoning {
                    step.reasoning_content = Some(text);
                } else {
                    step.message = Cow::Owned(text);
                }
            }
            StepPart::Calls(calls) => {
                let first = calls.first().and_then(|place| self.agent.tools[*place].started_at_ms);
                step.timestamp = first.map(iso8601);
                self.add_calls(&mut step, &calls);
            }
            StepPart::Placeholder => {
                step.source = "system";
                extra.is_placeholder = true;
            }
        }
        step
    }

    /// Returns how and when a run ended. The last run ended like the root, if no turn reports its end.
    fn ending_of_run(&self, run: u32) -> (Option<AgentStatus>, Option<Millis>) {
        let runs = self.sources.runs;
        let Some(number) = (run as usize).checked_sub(1).filter(|number| *number < runs.len()) else {
            return (None, None);
        };
        let is_last = number + 1 == runs.len() && !self.agent.status.is_live();
        let of_root = || (is_last.then_some(self.agent.status), None);
        runs[number].ending.map_or_else(of_root, |(status, at)| (Some(status), at))
    }

    /// Whether the counts of a response are lower bounds. A writer that left out tokens of some response of an agent is
    /// not known to have those of the others.
    fn is_floor(&self, response: &ResponseDetail) -> bool {
        let is_own = |response: &ResponseDetail| response.usage.is_some_and(|usage| usage.floor);
        let is_shared = || {
            let own = self.sources.responses(self.agent);
            self.agent.usage.is_some_and(|usage| usage.floor) && !own.iter().any(|other| is_own(other))
        };
        is_own(response) || (response.usage.is_some() && is_shared())
    }

    fn add_calls(&self, step: &mut WrittenStep<'a>, places: &[usize]) {
        let mut results = Vec::new();
        for place in places {
            let call = &self.agent.tools[*place];
            let id = self.call_id(call, *place);
            let (arguments, has_no_arguments) = self.arguments(call);
            results.extend(self.result(call, id.clone()));
            step.tool_calls.push(WrittenCall {
                tool_call_id: id,
                function_name: &call.name,
                arguments,
                extra: Extra {
                    subscope: AtifCall {
                        schema: ATIF_EXTRA_SCHEMA.into(),
                        status: call.status,
                        basis: call.basis,
                        started_at_ms: call.started_at_ms,
                        ended_at_ms: call.ended_at_ms,
                        detail: call.detail.clone(),
                        writes: call.writes.clone(),
                        has_no_id: call.id.is_none(),
                        has_no_arguments,
                    },
                },
            });
        }
        step.observation = (!results.is_empty()).then_some(WrittenObservation { results });
    }

    /// Returns the id of a call; one of this document for a call without one.
    fn call_id(&self, call: &'a ToolCall, place: usize) -> Cow<'a, str> {
        match &call.id {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(format!("{}/{}/{place}", self.agent.id, call.name)),
        }
    }

    /// Reads a payload; without the whitespace that sources may have between tokens, since a step is a line.
    fn raw(&self, payload: Option<&Payload>) -> Option<Box<RawValue>> {
        let json = RawValue::from_string((self.source.resolve)(payload?)?).ok()?;
        match compact(json.get()) {
            Cow::Borrowed(_) => Some(json),
            Cow::Owned(compacted) => RawValue::from_string(compacted).ok(),
        }
    }

    /// Returns the arguments of a call, and whether they are unknown.
    fn arguments(&self, call: &ToolCall) -> (WrittenArguments, bool) {
        match self.raw(call.input.as_deref()) {
            Some(json) if json.get().starts_with('{') => (WrittenArguments::Object(json), false),
            Some(value) => (WrittenArguments::Other { value }, false),
            None => (WrittenArguments::Unknown {}, true),
        }
    }

    /// Returns the result of a call that has ended, and the agents that it started.
    fn result(&self, call: &'a ToolCall, id: Cow<'a, str>) -> Option<ObservationResult<'a>> {
        let started = call.id.as_deref().and_then(|id| self.sources.spawns.get(id)).into_iter().flatten();
        let session_id = self.source.tree.session.id.as_str();
        let refs: Vec<TrajectoryRef<'a>> =
            started.map(|agent| TrajectoryRef { trajectory_id: agent, session_id }).collect();
        let is_over = call.status != ToolStatus::Open;
        (is_over || !refs.is_empty()).then(|| ObservationResult {
            source_call_id: id,
            content: self.raw(call.result.as_deref()).and_then(content),
            subagent_trajectory_ref: refs,
        })
    }
}

fn joined(mut texts: Vec<String>) -> String {
    match texts.len() {
        1 => texts.pop().unwrap_or_default(),
        _ => texts.join(SEPARATOR),
    }
}

/// A block of a result.
#[derive(serde::Deserialize)]
struct ResultBlock<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

/// Returns a result as content: a text as it is, blocks of texts as parts, anything else as its JSON. Of a block that is
/// no text its kind remains: ATIF names media by files.
fn content(json: Box<RawValue>) -> Option<WrittenContent> {
    match json.get().as_bytes().first() {
        Some(b'"') => return Some(WrittenContent::Text(json)),
        Some(b'n') => return None,
        Some(b'[') => {}
        _ => return Some(WrittenContent::Other(json.get().to_owned())),
    }
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(json.get()) else {
        return Some(WrittenContent::Other(json.get().to_owned()));
    };
    let text = |block: &&RawValue| -> Option<Box<RawValue>> {
        if block.get().starts_with('"') {
            return Some((*block).to_owned());
        }
        let block: ResultBlock<'_> = serde_json::from_str(block.get()).ok()?;
        if let Some(text) = block.text.filter(|text| text.get().starts_with('"')) {
            return Some(text.to_owned());
        }
        serde_json::value::to_raw_value(&format!("[{}]", block.kind?)).ok()
    };
    let texts: Option<Vec<Box<RawValue>>> = blocks.iter().map(text).collect();
    match texts {
        Some(mut texts) if texts.len() == 1 => texts.pop().map(WrittenContent::Text),
        Some(texts) if !texts.is_empty() => Some(WrittenContent::Parts(
            texts.into_iter().map(|text| ContentPart { r#type: "text", text }).collect(),
        )),
        Some(_) | None => Some(WrittenContent::Other(json.get().to_owned())),
    }
}
