//! Simulates a session: agents are actors, ordered by time.
//!
//! Flow: `run` takes the actor with the earliest time → `step` runs its phase (open, think, take a result), writes the
//! lines of all dialects and schedules the actor's next time. A message that starts agents makes its actor wait; the
//! last of them to end wakes it.
//!
//! Pitfalls: every step writes lines of one time only, so that every source is in order of time; numbers are counted
//! where lines are written, never from the options.

mod tell;

use std::{cmp::Reverse, collections::BinaryHeap, io};

use subscope_model::{Millis, Usage};

use super::{
    Made, MadeAgent, MadeCall, Options, Outlet, Source,
    actor::{self, AGENT_MODEL, Actor, HandBack, Phase, ROOT_MODEL},
    wire::{self, Head, Message, push},
};
use crate::{random::Random, words::Words};

const KINDS: [&str; 4] = ["Explore", "general-purpose", "Plan", "code-reviewer"];
const TOOLS: [&str; 6] = ["Read", "Bash", "Grep", "Edit", "Glob", "WebFetch"];
/// Size from which a main transcript uses the large text pool, which takes longer to make than a small session.
const LARGE_BYTES: u64 = 4_000_000;

/// One session while it is played.
pub(super) struct Play<'o> {
    options: &'o Options,
    out: &'o mut dyn Outlet,
    random: Random,
    words: &'static Words,
    head: Head,
    actors: Vec<Actor>,
    /// Started actors, in order.
    started: Vec<usize>,
    /// The next time of each actor that has one; the number keeps the order of equal times.
    queue: BinaryHeap<Reverse<(Millis, u64, usize)>>,
    queued: u64,
    now: Millis,
    /// The line and the content block in the making.
    line: String,
    block: String,
    made: Made,
}

impl<'o> Play<'o> {
    pub(super) fn new(options: &'o Options, out: &'o mut dyn Outlet) -> Self {
        let mut random = Random::new(options.seed);
        let words = if options.main_bytes < LARGE_BYTES { Words::small() } else { Words::large() };
        let head = Head { session: random.uuid(), cwd: options.cwd.clone(), prompt_id: random.uuid() };
        let parents = actor::parents(options, &mut random);
        let mut children = vec![Vec::new(); options.agents + 1];
        let mut depths = vec![0usize; options.agents + 1];
        for (number, parent) in parents.iter().enumerate().skip(1) {
            children[*parent].push(number);
            depths[number] = depths[*parent] + 1;
        }
        let actors = children
            .iter()
            .enumerate()
            .map(|(number, children)| Actor::new(options, number, parents[number], depths[number], children))
            .collect();
        let made = Made {
            session: head.session.clone(),
            cwd: options.cwd.clone(),
            agents: Vec::new(),
            transcript_lines: 0,
            transcript_bytes: 0,
            stream_lines: 0,
            hook_lines: 0,
            ended: options.start,
        };
        Self {
            options,
            out,
            random,
            words,
            head,
            actors,
            started: vec![0],
            queue: BinaryHeap::new(),
            queued: 0,
            now: options.start,
            line: String::new(),
            block: String::new(),
            made,
        }
    }

    pub(super) fn run(mut self) -> io::Result<Made> {
        self.out.begin(&self.head.session, &self.head.cwd)?;
        self.wake(0, 0);
        while let Some(Reverse((at, _, number))) = self.queue.pop() {
            self.now = at;
            self.step(number)?;
        }
        let Self { mut made, started, actors, now, .. } = self;
        made.ended = now;
        let mut agents: Vec<Option<MadeAgent>> = actors.into_iter().map(|actor| Some(actor.made)).collect();
        made.agents = started.into_iter().filter_map(|number| agents[number].take()).collect();
        Ok(made)
    }

    fn step(&mut self, number: usize) -> io::Result<()> {
        match std::mem::replace(&mut self.actors[number].phase, Phase::Think) {
            Phase::Open => self.open(number),
            Phase::Think => self.think(number),
            Phase::Result { uuid, input } => self.take_result(number, &uuid, &input),
            // Not in the queue: another agent wakes them, or none does.
            phase @ (Phase::Wait { .. } | Phase::Done) => {
                self.actors[number].phase = phase;
                Ok(())
            }
        }
    }

    fn wake(&mut self, number: usize, after_ms: u64) {
        self.queued += 1;
        self.queue.push(Reverse((self.now + after_ms as Millis, self.queued, number)));
    }

    /// The actor's prompt, and for the root all that marks the start of a session.
    fn open(&mut self, number: usize) -> io::Result<()> {
        let length = if number == 0 { 120 } else { 400 };
        let text = self.words.take(&mut self.random, length);
        self.actors[number].made.started = self.now;
        if number == 0 {
            self.actors[0].prompt = format!("Please {text}");
            self.hook(None, "SessionStart", ",\"source\":\"startup\"")?;
            let prompt = format!(",\"prompt\":\"{}\"", self.actors[0].prompt);
            self.hook(None, "UserPromptSubmit", &prompt)?;
            if self.tells_all() {
                let uuid = self.random.uuid();
                wire::init_line(&mut self.line, &self.head, ROOT_MODEL, &uuid);
                self.put(&Source::Stream)?;
            }
            wire::queue_entry(&mut self.line, &self.head, self.now, &self.actors[0].prompt);
            self.put_own(0)?;
        }
        let content = format!("\"{}\"", self.actors[number].prompt);
        let block = format!("{{\"type\":\"text\",\"text\":{content}}}");
        // Observed: the stream has the prompts of subagents but not the user's.
        self.say_user(number, (&content, ""), (number > 0).then_some((&block, "")))?;
        let uuid = self.random.uuid();
        let actor = &self.actors[number];
        let place = (uuid.as_str(), self.now);
        wire::attachment_entry(&mut self.line, &self.head, actor.tag(), actor.last_uuid.as_deref(), place);
        self.put_own(number)?;
        self.actors[number].last_uuid = Some(uuid);
        let pause = self.random.between(300, 3000);
        self.wake(number, pause);
        Ok(())
    }

    /// The actor's next message: it starts agents, calls a tool or ends.
    fn think(&mut self, number: usize) -> io::Result<()> {
        let actor = &self.actors[number];
        let grows = number == 0 && self.options.main_bytes > 0;
        let (done, total) = match grows {
            true => (actor.written, self.options.main_bytes),
            false => (actor.turns_done as u64, actor.turns as u64),
        };
        // Batches are evenly spaced.
        let (batch, batches) = (actor.batches_done as u64, actor.batches.len() as u64);
        if batch < batches && done * (batches + 1) >= total * (batch + 1) {
            self.spawn(number)
        } else if done < total {
            self.call(number)
        } else {
            self.close(number)
        }
    }

    fn message(&mut self, number: usize, stop: &'static str) -> Message {
        let random = &mut self.random;
        let (input, write) = (random.between(2, 30), random.between(100, 4000));
        let (read, output) = (random.between(5000, 90_000), random.between(60, 900));
        let usage = Usage::new(input, output, read, write);
        let actor = &mut self.actors[number];
        actor.made.usage += usage;
        actor.made.responses += 1;
        actor.last_usage = usage;
        Message { id: random.id("msg_01"), request: random.id("req_01"), model: actor.model, stop, usage }
    }

    /// Writes the current content block; returns the line's id.
    fn say_block(&mut self, number: usize, message: &Message, is_text: bool) -> io::Result<String> {
        let uuid = self.random.uuid();
        let actor = &self.actors[number];
        let (tag, place) = (actor.tag(), (uuid.as_str(), self.now));
        let parent = actor.last_uuid.as_deref();
        wire::assistant_entry(&mut self.line, &self.head, tag, parent, place, message, &self.block);
        self.put_own(number)?;
        if self.shows(number, is_text) {
            let tag = self.actors[number].tag();
            wire::assistant_line(&mut self.line, &self.head, tag, place, message, &self.block);
            self.put(&Source::Stream)?;
        }
        self.actors[number].last_uuid = Some(uuid.clone());
        Ok(uuid)
    }

    fn call(&mut self, number: usize) -> io::Result<()> {
        let message = self.message(number, "tool_use");
        if self.actors[number].turns_done.is_multiple_of(4) {
            let text = self.words.take(&mut self.random, 160);
            self.block.clear();
            push!(self.block, "{{\"type\":\"text\",\"text\":\"{text}\"}}");
            self.say_block(number, &message, true)?;
        }
        let name = self.random.pick(&TOOLS);
        let id = self.random.id("toolu_01");
        let input = actor::input(name, &self.options.cwd, number, self.actors[number].turns_done);
        self.block.clear();
        push!(self.block, "{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"{name}\",\"input\":{input}}}");
        let failed = self.random.below(1000) < self.options.errors_permille;
        let uuid = self.say_block(number, &message, false)?;
        self.hook_tool(Some(number), "PreToolUse", (name, &input, &id), "")?;
        self.actors[number].made.calls.push(MadeCall { id, name, failed });
        self.progress(number, name)?;
        self.actors[number].phase = Phase::Result { uuid, input };
        let pause = self.random.between(5, 2500);
        self.wake(number, pause);
        Ok(())
    }

    fn take_result(&mut self, number: usize, caller: &str, input: &str) -> io::Result<()> {
        let size = self.options.result_bytes as u64;
        let length = self.random.between(size / 2, size + size / 2) as usize;
        let text = self.words.take(&mut self.random, length);
        let actor = &mut self.actors[number];
        actor.turns_done += 1;
        let Some(MadeCall { id, name, failed }) = actor.made.calls.last().cloned() else { return Ok(()) };
        let error = if failed { "Error: " } else { "" };
        let content = format!(
            "{{\"tool_use_id\":\"{id}\",\"type\":\"tool_result\",\"content\":\"{error}{text}\",\"is_error\":{failed}}}"
        );
        let mut extra = format!(",\"sourceToolAssistantUUID\":\"{caller}\"");
        let mut stream_extra = String::new();
        // Observed: in subagents only failures have the harness's own result.
        if failed {
            push!(extra, ",\"toolUseResult\":\"Error: {text}\"");
            push!(stream_extra, ",\"tool_use_result\":\"Error: {text}\"");
        } else if number == 0 {
            let fields = "\"stderr\":\"\",\"interrupted\":false,\"isImage\":false";
            push!(extra, ",\"toolUseResult\":{{\"stdout\":\"{text}\",{fields}}}");
            push!(stream_extra, ",\"tool_use_result\":{{\"stdout\":\"{text}\",{fields}}}");
        }
        self.say_user(number, (&format!("[{content}]"), &extra), Some((&content, &stream_extra)))?;
        if self.tells_all() {
            let (event, rest) = match failed {
                true => {
                    ("PostToolUseFailure", format!(",\"error\":\"{error}{text}\",\"is_interrupt\":false"))
                }
                false => {
                    ("PostToolUse", format!(",\"tool_response\":{{\"stdout\":\"{text}\",\"stderr\":\"\"}}"))
                }
            };
            self.hook_tool(Some(number), event, (name, input, &id), &rest)?;
            let call = format!(
                "{{\"tool_name\":\"{name}\",\"tool_input\":{input},\"tool_use_id\":\"{id}\",\"tool_response\":\"{error}{text}\"}}"
            );
            self.hook(Some(number), "PostToolBatch", &format!(",\"tool_calls\":[{call}]"))?;
        }
        let pause = self.random.between(300, 3000);
        self.wake(number, pause);
        Ok(())
    }

    /// One message that starts the next batch of agents.
    fn spawn(&mut self, number: usize) -> io::Result<()> {
        let message = self.message(number, "tool_use");
        let actor = &mut self.actors[number];
        let children = actor.batches[actor.batches_done].clone();
        actor.batches_done += 1;
        let mut uuid = String::new();
        for (place, child) in children.iter().copied().enumerate() {
            let call = self.random.id("toolu_01");
            self.dress(child, &call);
            let input = self.actors[child].spawn_input();
            self.block.clear();
            push!(
                self.block,
                "{{\"type\":\"tool_use\",\"id\":\"{call}\",\"name\":\"Agent\",\"input\":{input}}}"
            );
            uuid = self.say_block(number, &message, false)?;
            self.hook_tool(Some(number), "PreToolUse", ("Agent", &input, &call), "")?;
            self.actors[number].made.calls.push(MadeCall { id: call, name: "Agent", failed: false });
            self.progress(number, "Agent")?;
            self.started.push(child);
            self.announce(child)?;
            self.wake(child, 40 + 25 * place as u64);
        }
        self.actors[number].phase = Phase::Wait { left: children.len(), uuid, children };
        Ok(())
    }

    /// Sets id, task and the other fields of an agent that is about to start.
    fn dress(&mut self, child: usize, call: &str) {
        let random = &mut self.random;
        let id = format!("a{:016x}", random.next());
        let run_id = format!("0m{:07x}-{:08x}", random.next() >> 36, random.next() >> 32);
        let kind = random.pick(&KINDS);
        let text = self.words.take(random, 400);
        let actor = &mut self.actors[child];
        actor.prompt = format!("Task {child}: {text}");
        actor.source = Source::Agent(id.as_str().into());
        actor.run_id = run_id;
        actor.made.agent_type = Some(kind);
        actor.made.description = format!("Look into part {child}");
        actor.made.spawned_by = Some(call.to_owned());
        actor.made.id = id;
        let parent = actor.parent;
        self.actors[child].made.parent = Some(self.actors[parent].made.id.clone());
    }

    fn announce(&mut self, child: usize) -> io::Result<()> {
        self.put_meta(child, false)?;
        self.hook(Some(child), "SubagentStart", "")?;
        let MadeAgent { agent_type, description, depth, parent, .. } = &self.actors[child].made;
        let kind = agent_type.unwrap_or_default();
        let mut rest = format!(",\"description\":\"{description}\",\"subagent_type\":\"{kind}\"");
        push!(rest, ",\"is_backgrounded\":false,\"spawn_depth\":{depth}");
        if let Some(parent) = parent.as_deref().filter(|_| *depth > 1) {
            push!(rest, ",\"parent_task_id\":\"{parent}\"");
        }
        push!(rest, ",\"task_type\":\"local_agent\",\"prompt\":\"{}\"", self.actors[child].prompt);
        self.task(child, "task_started", &rest)
    }

    /// The actor's last message, and the effect of its end on others.
    fn close(&mut self, number: usize) -> io::Result<()> {
        let message = self.message(number, "end_turn");
        let report = self.words.take(&mut self.random, 600).to_owned();
        self.block.clear();
        push!(self.block, "{{\"type\":\"text\",\"text\":\"{report}\"}}");
        self.say_block(number, &message, true)?;
        let actor = &mut self.actors[number];
        actor.phase = Phase::Done;
        actor.report = report;
        actor.made.ended = self.now;
        match number {
            0 => self.close_session(),
            _ => self.close_agent(number),
        }
    }

    fn close_agent(&mut self, number: usize) -> io::Result<()> {
        let source = self.actors[number].source.clone();
        self.out.end(&source)?;
        let rest = format!(
            ",\"stop_hook_active\":false,\"last_assistant_message\":\"{}\"",
            self.actors[number].report
        );
        self.hook(Some(number), "SubagentStop", &rest)?;
        let updated = format!(",\"patch\":{{\"status\":\"completed\",\"end_time\":{}}}", self.now);
        self.task(number, "task_updated", &updated)?;
        let mut notice = format!(
            ",\"status\":\"completed\",\"output_file\":\"\",\"summary\":\"{}\"",
            self.actors[number].report
        );
        push!(notice, ",\"usage\":{}", self.actors[number].task_usage(self.now));
        self.task(number, "task_notification", &notice)?;
        self.put_meta(number, true)?;
        self.hand_back(number)
    }

    /// The result of the call that started an agent; the last of a batch wakes the caller.
    fn hand_back(&mut self, child: usize) -> io::Result<()> {
        let number = self.actors[child].parent;
        let parts = HandBack::of(&self.actors[child], self.now);
        let HandBack { call, input, content, response } = parts;
        let Phase::Wait { left, uuid: caller, .. } = &mut self.actors[number].phase else { return Ok(()) };
        *left -= 1;
        let is_last = *left == 0;
        let mut extra = format!(",\"sourceToolAssistantUUID\":\"{caller}\"");
        let mut stream_extra = String::new();
        if number == 0 {
            push!(extra, ",\"toolUseResult\":{response}");
            push!(stream_extra, ",\"tool_use_result\":{response}");
        }
        let block = format!("{{\"tool_use_id\":\"{call}\",\"type\":\"tool_result\",\"content\":{content}}}");
        self.say_user(number, (&format!("[{block}]"), &extra), Some((&block, &stream_extra)))?;
        self.hook_tool(
            Some(number),
            "PostToolUse",
            ("Agent", &input, &call),
            &format!(",\"tool_response\":{response}"),
        )?;
        if !is_last {
            return Ok(());
        }
        if let Phase::Wait { children, .. } = std::mem::replace(&mut self.actors[number].phase, Phase::Think)
        {
            let calls: Vec<String> = children
                .iter()
                .map(|child| {
                    let HandBack { call, input, content, .. } = HandBack::of(&self.actors[*child], self.now);
                    format!("{{\"tool_name\":\"Agent\",\"tool_input\":{input},\"tool_use_id\":\"{call}\",\"tool_response\":{content}}}")
                })
                .collect();
            self.hook(Some(number), "PostToolBatch", &format!(",\"tool_calls\":[{}]", calls.join(",")))?;
        }
        let pause = self.random.between(300, 3000);
        self.wake(number, pause);
        Ok(())
    }

    fn close_session(&mut self) -> io::Result<()> {
        let root = self.actors[0].made.usage;
        let agents = self.actors.iter().skip(1).fold(Usage::default(), |sum, actor| sum + actor.made.usage);
        let mut models = vec![(ROOT_MODEL, root)];
        if self.actors.len() > 1 {
            models.push((AGENT_MODEL, agents));
        }
        wire::cost_entry(&mut self.line, &self.head, &models);
        self.put_own(0)?;
        let report = self.actors[0].report.clone();
        let rest = format!(
            ",\"stop_hook_active\":false,\"last_assistant_message\":\"{report}\",\"background_tasks\":[],\"session_crons\":[]"
        );
        self.hook(None, "Stop", &rest)?;
        if self.tells_all() {
            let (uuid, lasted) = (self.random.uuid(), self.now - self.options.start);
            wire::result_line(&mut self.line, &self.head, &uuid, &report, lasted, root, &models);
            self.put(&Source::Stream)?;
        }
        self.hook(None, "SessionEnd", ",\"reason\":\"other\"")?;
        [Source::Main, Source::Stream, Source::Hooks].iter().try_for_each(|source| self.out.end(source))
    }
}
