//! What a command prints: folded as every session is, said as events of its run, and its answer.
//!
//! The main thread of what it prints is the run itself. Agents below it (a harness's own subagents, or runs that the command
//! reports on its stdout) are runs below this one, under the ids that they have there.

use std::collections::HashMap;

use serde_json::Value;
use subscope_client::publish::{Event as Posted, EventKind as Kind, TokenUsage};
use subscope_decode::{Dialect, recognise};
use subscope_fold::{Events, Fold, FoldOptions, Keep, Limits, Now, SourceSpec};
use subscope_model::{
    Agent, AgentId, AgentStatus, Event, EventKind, Millis, PriceTable, SessionId, SourceId, Text, Tree, Usage,
};

use super::{
    final_answer::{Beside, LastWord},
    tail::Tail,
};

/// How much of the beginning is held back until it tells the dialect; what tells none until then is text.
const HEAD_BYTES: usize = 64 << 10;
/// How much of an answer is given back: far more than a model can read.
const ANSWER_BYTES: usize = 1 << 20;
/// How much of a payload is published: listeners take events of up to 4 MiB, and spell some characters in six bytes.
const PAYLOAD_BYTES: usize = 512 << 10;
/// The tool by which an agent hands over a structured answer; harnesses put their own words in front of an MCP tool's name.
const FINAL_ANSWER: &str = "final_answer";

/// The run that is told about.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) depth: u32,
}

impl Run {
    /// Returns an event of this run.
    pub(super) fn event(&self, kind: Kind, at_ms: Millis) -> Posted {
        let event = Posted::new(self.name.clone(), self.id.clone(), kind).with_timestamp_ms(at_ms);
        let event = event.with_depth(self.depth);
        match &self.parent {
            Some(parent) => event.with_parent_run_id(parent.clone()),
            None => event,
        }
    }
}

/// What came of a run, as far as its output tells.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Its last words.
    pub(super) text: String,
    /// The arguments of its last `final_answer`.
    pub(super) final_answer: Option<Value>,
    /// Why the harness says that it failed.
    pub(super) failure: Option<String>,
    /// Its own tokens.
    pub(super) usage: Option<TokenUsage>,
    /// The moment of its last event.
    pub(super) last_ms: Millis,
}

/// Something to be published, and what is said of it to whoever waits for the answer.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) event: Posted,
    pub(super) news: Option<String>,
}

/// Reads the output of one run.
pub(super) struct Inside {
    run: Run,
    reading: Reading,
    agents: HashMap<AgentId, Run>,
    final_answer: Option<Value>,
    /// The texts of the last message, with its id.
    words: (Option<String>, Vec<String>),
    last_ms: Millis,
    now_ms: fn() -> Millis,
    /// Concluding rests until then, so that it takes a fifth of the time at most, however much there is to conclude from.
    rests_until: Millis,
}

/// How many times as long as it took concluding rests.
const REST: Millis = 4;

/// How the output is read.
enum Reading {
    /// Not known yet: all of it so far, and how much of that was looked at.
    Head { head: Vec<u8>, seen: usize, dialect: Option<Dialect> },
    /// As text.
    Text(Tail),
    /// As a harness's stream.
    Stream(Box<Stream>),
}

struct Stream {
    fold: Fold,
    events: Events,
    source: SourceId,
    last_word: LastWord,
    beside: Beside,
    prices: PriceTable,
    root: Option<Agent>,
    /// Whether something was read since it was concluded from.
    has_news: bool,
}

impl Inside {
    /// Reads what a run prints, in a dialect or whatever it turns out to be.
    pub(super) fn new(run: Run, dialect: Option<Dialect>, now_ms: fn() -> Millis) -> Self {
        Self {
            run,
            reading: Reading::Head { head: Vec::new(), seen: 0, dialect },
            agents: HashMap::new(),
            final_answer: None,
            words: (None, Vec::new()),
            last_ms: now_ms(),
            now_ms,
            rests_until: Millis::MIN,
        }
    }

    /// Takes the next bytes, cut anywhere, and returns what they say, in order.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Said> {
        let now = (self.now_ms)();
        match &mut self.reading {
            Reading::Text(text) => text.push(bytes),
            Reading::Stream(stream) => stream.push(bytes, now),
            Reading::Head { head, seen, dialect } => {
                head.extend_from_slice(bytes);
                let whole = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                let lines = head.get(*seen..whole).unwrap_or_default();
                let found = dialect.or_else(|| recognise(lines));
                *seen = whole.max(*seen);
                if found.is_some() || head.len() > HEAD_BYTES {
                    let head = std::mem::take(head);
                    self.begin(found, &head, now);
                }
            }
        }
        self.idle()
    }

    /// Returns what time alone has made ripe, or what was not concluded yet.
    pub(super) fn idle(&mut self) -> Vec<Said> {
        let now = (self.now_ms)();
        match &self.reading {
            Reading::Stream(stream) if now >= self.rests_until && (stream.has_news || stream.is_due(now)) => {
                let said = self.advance(now, false);
                let done = (self.now_ms)();
                self.rests_until = done + REST * (done - now).max(0);
                said
            }
            Reading::Stream(_) | Reading::Text(_) | Reading::Head { .. } => Vec::new(),
        }
    }

    /// Returns what is left to say, and what came of it; for when nothing will follow.
    pub(super) fn end(mut self) -> (Vec<Said>, Seen) {
        let now = (self.now_ms)();
        if let Reading::Head { head, dialect, .. } = &mut self.reading {
            let (head, found) = (std::mem::take(head), *dialect);
            self.begin(found.or_else(|| recognise(&head)), &head, now);
        }
        if let Reading::Stream(stream) = &mut self.reading {
            stream.fold.receive_at(Some(now));
            stream.fold.flush(stream.source);
        }
        let said = self.advance(now, true);
        let Self { reading, final_answer, words, last_ms, .. } = self;
        let seen = Seen { final_answer, last_ms, ..Seen::default() };
        let seen = match reading {
            Reading::Head { .. } => seen,
            Reading::Text(text) => Seen { text: text.text(), ..seen },
            Reading::Stream(stream) => stream.seen(words.1, seen),
        };
        (said, seen)
    }

    fn begin(&mut self, dialect: Option<Dialect>, head: &[u8], now: Millis) {
        self.reading = match dialect {
            Some(dialect) => {
                let mut stream = Box::new(Stream::new(dialect));
                stream.push(head, now);
                Reading::Stream(stream)
            }
            None => {
                let mut text = Tail::new(ANSWER_BYTES);
                text.push(head);
                Reading::Text(text)
            }
        };
    }

    fn advance(&mut self, now: Millis, has_ended: bool) -> Vec<Said> {
        let Reading::Stream(stream) = &mut self.reading else { return Vec::new() };
        let told = stream.advance(now, has_ended);
        let mut said = Vec::new();
        for (tree, events) in told {
            for event in events {
                said.extend(self.tell(&event, &tree, now));
            }
        }
        said
    }

    /// Returns what of an event is published; most of a feed has no place on this wire.
    fn tell(&mut self, event: &Event, tree: &Tree, now: Millis) -> Option<Said> {
        let actor = &event.actor_id.0;
        match event.kind {
            EventKind::AgentRenamed => {
                // It was published under its first id, and stays that.
                let from = AgentId::from(event.text("from")?);
                let run = self.run_of(&from, tree);
                self.agents.insert(AgentId::from(event.text("to")?), run);
                return None;
            }
            EventKind::AgentMessage if actor.is_root() => {
                self.hear(event);
                return None;
            }
            _ => {}
        }
        let kind = match event.kind {
            EventKind::SubagentStart => Kind::SubagentStart,
            EventKind::SubagentStop => Kind::SubagentEnd,
            EventKind::ToolPre => Kind::ToolCall,
            EventKind::ToolPost | EventKind::ToolFailure | EventKind::PermissionDenied => Kind::ToolResult,
            EventKind::Reasoning => Kind::ThoughtTrace,
            _ => return None,
        };
        let run = self.run_of(actor, tree);
        let at_ms = event.at_ms.map_or(now, |at| at.min(now)).max(self.last_ms);
        self.last_ms = at_ms;
        let mut posted = run.event(kind, at_ms);
        let row = tree.agents.iter().find(|row| row.id == *actor);
        match kind {
            Kind::SubagentStart => posted.payload = event.text("prompt").map(|text| cut(text.to_owned())),
            Kind::SubagentEnd => {
                posted.payload = ending(event);
                if event.text("status") == Some(AgentStatus::Stopped.as_str()) {
                    posted = posted.with_stopped();
                }
                posted.token_usage = row.and_then(|row| row.usage).map(tokens);
            }
            Kind::ToolCall => {
                let name = event.text("tool_name").unwrap_or_default();
                if actor.is_root() && is_final_answer(name) {
                    self.final_answer = event.data.get("input").filter(|input| !input.is_null()).cloned();
                }
                posted.payload = payload(event.data.get("input"));
                posted.execution_timeout_seconds = event.data.get("timeout_seconds").and_then(Value::as_u64);
            }
            Kind::ToolResult => {
                posted.payload = payload(event.data.get("result").or_else(|| event.data.get("error")));
                posted.is_error = event.kind != EventKind::ToolPost;
            }
            Kind::ThoughtTrace => match event.text("text") {
                Some(text) => posted.payload = Some(cut(text.to_owned())),
                None => posted.reasoning_type = Some("encrypted".to_owned()),
            },
        }
        if matches!(kind, Kind::ToolCall | Kind::ToolResult) {
            posted.tool_name = event.text("tool_name").map(str::to_owned);
            posted.tool_call_id = event.text("tool_use_id").map(str::to_owned);
        }
        let news = news(event, kind, (!actor.is_root()).then_some(run.name.as_str()));
        Some(Said { event: posted, news })
    }

    /// Remembers the main thread's words: those of its last message are its answer where nothing else is.
    fn hear(&mut self, event: &Event) {
        let message = event.text("message_id").map(str::to_owned);
        if message.is_none() || message != self.words.0 {
            self.words = (message, Vec::new());
        }
        self.words.1.extend(event.text("text").map(str::to_owned));
    }

    /// Returns the run of an agent: this one's of the main thread, else one below it.
    fn run_of(&mut self, agent: &AgentId, tree: &Tree) -> Run {
        if agent.is_root() || agent.as_str() == self.run.id {
            return self.run.clone();
        }
        if let Some(known) = self.agents.get(agent) {
            return known.clone();
        }
        // Up to the first that is known, then down again: a chain may be of any length.
        let mut chain = vec![agent.clone()];
        let mut above = loop {
            let Some(lowest) = chain.last() else { break self.run.clone() };
            let parent =
                tree.agents.iter().find(|row| row.id == *lowest).and_then(|row| row.parent_id.clone());
            match parent {
                Some(parent) if !parent.is_root() && !chain.contains(&parent) => {
                    match self.agents.get(&parent) {
                        Some(known) => break known.clone(),
                        None => chain.push(parent),
                    }
                }
                _ => break self.run.clone(),
            }
        };
        for id in chain.into_iter().rev() {
            let row = tree.agents.iter().find(|row| row.id == id);
            let run = Run {
                name: row.map_or_else(|| id.to_string(), Agent::title),
                id: id.to_string(),
                parent: Some(above.id),
                depth: above.depth + 1,
            };
            above = self.agents.entry(id).or_insert(run).clone();
        }
        above
    }
}

impl Stream {
    fn new(dialect: Dialect) -> Self {
        let mut fold = Fold::new(FoldOptions { keep: Keep::Rows, cutoff: None, events: true });
        let spec = SourceSpec { label: "stdout".to_owned(), dialect: Some(dialect), ..SourceSpec::default() };
        let source = fold.open(spec);
        Self {
            fold,
            events: Events::new(),
            source,
            last_word: LastWord::new(dialect),
            beside: Beside::new(ANSWER_BYTES),
            prices: PriceTable::default(),
            root: None,
            has_news: false,
        }
    }

    fn push(&mut self, bytes: &[u8], now: Millis) {
        self.has_news = true;
        self.fold.receive_at(Some(now));
        self.fold.push(self.source, bytes);
        self.last_word.push(bytes);
        self.beside.push(bytes);
    }

    fn is_due(&self, now: Millis) -> bool {
        self.fold.sessions().any(|session| self.events.next_due(session).is_some_and(|due| due <= now))
    }

    /// Returns what is new in each session, with its rows.
    fn advance(&mut self, at: Millis, has_ended: bool) -> Vec<(Tree, Vec<Event>)> {
        self.has_news = false;
        let sessions: Vec<SessionId> = self.fold.sessions().cloned().collect();
        let mut told = Vec::new();
        for session in sessions {
            let limits = Limits::default();
            let now = Now { at, has_ended, is_growing: !has_ended, prices: &self.prices, limits };
            let (trees, events) = self.events.advance(&mut self.fold, std::slice::from_ref(&session), &now);
            for tree in trees {
                if self.fold.has_root(&session) {
                    self.root = tree.agents.iter().find(|row| row.id.is_root()).cloned();
                }
                told.push((tree, events.clone()));
            }
        }
        told
    }

    fn seen(self, words: Vec<String>, seen: Seen) -> Seen {
        let root = self.root.as_ref();
        let result = root.and_then(|root| root.result.as_ref()).map(Text::to_string);
        let spoken = Some(words.join("\n")).filter(|words| !words.trim().is_empty());
        let mut text = Tail::new(ANSWER_BYTES);
        let answer = self.last_word.end().or(result).or(spoken).unwrap_or_else(|| self.beside.text());
        text.push(answer.as_bytes());
        let failed = root.filter(|root| matches!(root.status, AgentStatus::Failed | AgentStatus::Stopped));
        let failure = failed.map(|root| {
            root.error
                .as_ref()
                .map_or_else(|| format!("it ended as {}", root.status.as_str()), Text::to_string)
        });
        Seen { text: text.text(), failure, usage: root.and_then(|root| root.usage).map(tokens), ..seen }
    }
}

/// How an agent below ended: nothing where all went well.
fn ending(event: &Event) -> Option<String> {
    let status = event.text("status").unwrap_or_default();
    if status == AgentStatus::Completed.as_str() {
        return None;
    }
    let why = event.text("error").or_else(|| event.text("evidence"));
    Some(cut(why.map_or_else(|| status.to_owned(), |why| format!("{status}: {why}"))))
}

fn is_final_answer(tool: &str) -> bool {
    tool == FINAL_ANSWER || tool.strip_suffix(FINAL_ANSWER).is_some_and(|server| server.ends_with("__"))
}

fn tokens(usage: Usage) -> TokenUsage {
    TokenUsage {
        input_tokens: Some(usage.input_tokens),
        output_tokens: Some(usage.output_tokens),
        total_tokens: Some(usage.total_tokens),
        cache_read_tokens: Some(usage.cache_read_tokens),
        cache_write_tokens: Some(usage.cache_write_tokens),
    }
}

/// A text as it is, other JSON in compact form, nothing of `null`.
fn payload(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::String(text) => Some(cut(text.clone())),
        other => Some(cut(other.to_string())),
    }
}

/// Cuts what listeners would refuse, and says how much is missing.
pub(super) fn cut(mut text: String) -> String {
    if text.len() <= PAYLOAD_BYTES {
        return text;
    }
    let end = (0..=PAYLOAD_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let left_out = text.len() - end;
    text.truncate(end);
    text + &format!("… ({left_out} bytes left out)")
}

/// One line about what happens, for whoever waits.
fn news(event: &Event, kind: Kind, who: Option<&str>) -> Option<String> {
    let what = match kind {
        Kind::SubagentStart => "starts".to_owned(),
        Kind::SubagentEnd => "ends".to_owned(),
        Kind::ThoughtTrace => "thinks".to_owned(),
        Kind::ToolCall => {
            let name = event.text("tool_name").unwrap_or("a tool");
            event.text("detail").map_or_else(|| name.to_owned(), |detail| format!("{name} {detail}"))
        }
        Kind::ToolResult => return None,
    };
    Some(who.map_or_else(|| what.clone(), |who| format!("{who}: {what}")))
}

#[cfg(test)]
mod tests;
