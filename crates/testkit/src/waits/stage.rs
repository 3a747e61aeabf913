//! Builder of a session: actions of its agents, written to the sources of one harness version.
//!
//! A script adds actions with their times, in any order; [`Stage::lines`] returns the lines of each source by time.
//! Independent of the product's derivation.

use serde_json::{Value, json};
use subscope_model::Millis;

use crate::{
    corpus::Source,
    lines::{Line, hook, launch_result, spawn_input, spawn_result, stream, task_notification, transcript},
    random::Random,
};

/// Sources of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Transcripts of 2.1.330.
    Transcripts,
    /// The same, with hooks.
    TranscriptsHooks,
    /// The stream of 2.1.330 with all agents' lines.
    Stream,
    /// The same, with hooks.
    StreamHooks,
    /// Hooks of 2.1.330 alone.
    Hooks,
    /// Transcripts and hooks of 2.1.50, whose tool hooks name no agent and whose spawn tool is `Task`.
    Old,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Transcripts, Self::TranscriptsHooks, Self::Stream, Self::StreamHooks, Self::Hooks, Self::Old];

    /// Whether hooks report.
    pub fn has_hooks(self) -> bool {
        !matches!(self, Self::Transcripts | Self::Stream)
    }

    /// Whether there is a stream.
    pub fn has_stream(self) -> bool {
        matches!(self, Self::Stream | Self::StreamHooks)
    }

    /// Whether there are transcripts.
    pub fn has_transcripts(self) -> bool {
        matches!(self, Self::Transcripts | Self::TranscriptsHooks | Self::Old)
    }
}

/// A line, and when it is written or comes.
#[derive(Clone, Debug)]
pub struct TimedLine {
    /// When, in milliseconds after [`crate::clock::START`].
    pub at: Millis,
    /// Its source.
    pub source: Source,
    /// The line, without its line end.
    pub text: String,
}

/// Names an agent of a stage; the root is 0.
pub type Player = usize;

/// A tool call of an agent.
#[derive(Clone, Debug)]
pub struct Call {
    /// The harness's id.
    pub id: String,
    /// The tool's name.
    pub name: &'static str,
    input: Value,
}

#[derive(Clone, Debug)]
struct Cast {
    id: String,
    parent: Player,
    call: Option<Call>,
    prompt: String,
    is_background: bool,
}

/// A session in the making.
#[derive(Debug)]
pub struct Stage {
    session: String,
    wire: Wire,
    random: Random,
    cast: Vec<Cast>,
    lines: Vec<TimedLine>,
    count: u64,
}

impl Stage {
    /// Returns a session without lines. The same seed gives the same ids.
    pub fn new(session: &str, wire: Wire, seed: u64) -> Self {
        let root = Cast {
            id: "root".to_owned(),
            parent: 0,
            call: None,
            prompt: "Look into it.".to_owned(),
            is_background: false,
        };
        let (random, cast) = (Random::new(seed), vec![root]);
        Self { session: session.to_owned(), wire, random, cast, lines: Vec::new(), count: 0 }
    }

    /// The session's id.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The id of an agent.
    pub fn id(&self, player: Player) -> &str {
        &self.cast[player].id
    }

    /// The id of the call that is to start an agent; empty for the root.
    pub fn call_id(&self, player: Player) -> String {
        self.cast[player].call.as_ref().map(|call| call.id.clone()).unwrap_or_default()
    }

    /// Returns all lines by time; lines of one time in the order in which they were added.
    pub fn lines(mut self) -> Vec<TimedLine> {
        self.lines.sort_by_key(|line| line.at);
        self.lines
    }

    fn put(&mut self, at: Millis, source: Source, line: Line) {
        self.lines.push(TimedLine { at, source, text: line.line() });
    }

    fn is_old(&self) -> bool {
        self.wire == Wire::Old
    }

    /// An entry of an agent's transcript.
    fn write(&mut self, player: Player, at: Millis, line: Line) {
        if !self.wire.has_transcripts() {
            return;
        }
        let version = if self.is_old() { "2.1.50" } else { "2.1.330" };
        let line = line.session(&self.session).set("version", version).after_ms(at).uuid(&self.random.uuid());
        let id = self.cast[player].id.clone();
        match player {
            0 => self.put(at, Source::Main, line),
            _ => self.put(at, Source::Agent(id.as_str().into()), line.agent(&id)),
        }
    }

    /// A line of the stream that is an agent's.
    fn print(&mut self, player: Player, at: Millis, line: Line) {
        if !self.wire.has_stream() {
            return;
        }
        let line = line.session(&self.session).after_ms(at).uuid(&self.random.uuid());
        let Cast { id, call, .. } = &self.cast[player];
        let line = match call {
            Some(call) => line.under(&call.id).agent(id),
            None => line,
        };
        self.put(at, Source::Stream, line);
    }

    /// A line of the stream about an agent; it has no time.
    fn announce(&mut self, at: Millis, line: Line) {
        if self.wire.has_stream() {
            let line = line.session(&self.session).uuid(&self.random.uuid());
            self.put(at, Source::Stream, line);
        }
    }

    /// A hook of an agent's.
    fn fire(&mut self, player: Player, at: Millis, line: Line, is_tool: bool) {
        if !self.wire.has_hooks() {
            return;
        }
        let mut line = line.session(&self.session);
        if self.is_old() {
            line = line.without("prompt_id");
        }
        if player != 0 && !(self.is_old() && is_tool) {
            line = line.agent(&self.cast[player].id);
        }
        self.put(at, Source::Hooks, line);
    }

    /// The user's prompt.
    pub fn open(&mut self, at: Millis) {
        self.fire(0, at, hook("SessionStart"), false);
        self.fire(0, at, hook("UserPromptSubmit").set("prompt", "Look into it."), false);
        self.announce(at, stream::init());
        self.write(0, at, transcript::user("Look into it."));
    }

    /// A message of the model without a call, and not its last one.
    pub fn say(&mut self, player: Player, at: Millis) {
        self.count += 1;
        let text = format!("Part {}.", self.count);
        self.write(player, at, transcript::thinking(&text));
        self.print(player, at, stream::assistant(&text));
    }

    /// The model calls a tool.
    pub fn call(&mut self, player: Player, at: Millis, name: &'static str) -> Call {
        self.count += 1;
        let input = json!({ "what": format!("part {}", self.count) });
        self.call_with(player, at, name, input)
    }

    fn call_with(&mut self, player: Player, at: Millis, name: &'static str, input: Value) -> Call {
        let call = Call { id: self.random.id("toolu_01"), name, input };
        self.write(player, at, transcript::tool_use(name, &call.id).input(call.input.clone()));
        self.fire(player, at + 2, self.tool_hook("PreToolUse", &call), true);
        if player != 0 {
            let id = self.cast[player].id.clone();
            self.announce(at, stream::task_progress(&id, "Working", name));
        }
        self.print(player, at, stream::tool_use(name, &call.id).input(call.input.clone()));
        call
    }

    fn tool_hook(&self, event: &str, call: &Call) -> Line {
        let line = hook(event).tool(call.name, &call.id).input(call.input.clone());
        // No request names its call.
        if event == "PermissionRequest" { line.without("tool_use_id") } else { line }
    }

    /// A tool's result.
    pub fn result(&mut self, player: Player, at: Millis, call: &Call) {
        self.fire(player, at, self.tool_hook("PostToolUse", call), true);
        self.write(player, at, transcript::tool_result(&call.id, "Found it."));
        self.print(player, at, stream::tool_result(&call.id, "Found it."));
    }

    /// A person is asked whether a call may be made.
    pub fn ask(&mut self, player: Player, at: Millis, call: &Call) {
        self.fire(player, at, self.tool_hook("PermissionRequest", call), true);
    }

    /// The person says no. The tool's own hook never fires; the batch's does on versions that have it.
    pub fn deny(&mut self, player: Player, at: Millis, call: &Call) {
        if !self.is_old() {
            let batch = json!([{"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}]);
            self.fire(player, at, hook("PostToolBatch").set("tool_calls", batch), true);
        }
        let no = "The user doesn't want to proceed with this tool use.";
        self.write(player, at, transcript::tool_result(&call.id, no).failed());
        self.print(player, at, stream::tool_result(&call.id, no).failed());
    }

    /// A request to the API failed and is retried. Returns whether any source reports it.
    pub fn retry(&mut self, player: Player, at: Millis, attempt: u32) -> bool {
        let delay = 500 + self.random.below(500);
        if player == 0 {
            let error = json!({"status": 529, "formatted": "529 Overloaded"});
            let line = transcript::entry("system").set("subtype", "api_error").set("error", error);
            let line = line.set("retryInMs", delay).set("retryAttempt", attempt).set("maxRetries", 10);
            // Before 2.1.330 no transcript has it.
            if !self.is_old() {
                self.write(0, at, line);
            }
            let line = stream::system("api_retry").set("attempt", attempt).set("max_retries", 10);
            let line = line.set("retry_delay_ms", delay).set("error_status", 529).set("error", "overloaded");
            self.announce(at, line);
            return self.wire.has_stream() || (self.wire.has_transcripts() && !self.is_old());
        }
        let Cast { id, call, .. } = self.cast[player].clone();
        let retry = json!({
            "agent_id": id, "attempt": attempt, "max_retries": 10, "retry_delay_ms": delay, "error_status": 529,
            "error_category": "overloaded",
        });
        let call = call.map(|call| call.id).unwrap_or_default();
        let line = stream::system("").set("type", "tool_progress").without("subtype").under(&call);
        let line = line.set("tool_use_id", format!("agent_{call}")).set("tool_name", "Agent");
        self.announce(at, line.set("elapsed_time_seconds", 0).set("subagent_retry", retry));
        self.wire.has_stream()
    }

    /// The call that is to start an agent, without the start.
    pub fn request(&mut self, player: Player, at: Millis, is_background: bool) -> Player {
        let id = format!("a{:016x}", self.random.next());
        let prompt = format!("Task {id}.");
        let mut input = spawn_input("general-purpose", "Look into it", &prompt);
        if is_background || self.is_old() {
            input["run_in_background"] = is_background.into();
        }
        let name = if self.is_old() { "Task" } else { "Agent" };
        let call = self.call_with(player, at, name, input);
        self.cast.push(Cast { id, parent: player, call: Some(call), prompt, is_background });
        self.cast.len() - 1
    }

    /// An agent starts after its call; one in the background returns a result to its caller at once.
    pub fn start(&mut self, child: Player, at: Millis) {
        let Cast { id, parent, call, prompt, is_background } = self.cast[child].clone();
        let Some(call) = call else { return };
        self.fire(child, at, hook("SubagentStart").without("prompt_id"), false);
        if self.wire.has_transcripts() && !self.is_old() {
            self.meta(child, at, false);
        }
        let started = stream::task_started(&id, &call.id).set("is_backgrounded", is_background);
        self.announce(at, started.set("prompt", prompt.as_str()));
        self.write(child, at, transcript::user(&prompt));
        if !is_background {
            self.print(child, at, stream::user(&prompt));
        }
        if is_background {
            let kept = launch_result(&id);
            let line = self.tool_hook("PostToolUse", &call).harness_result(kept.clone());
            self.fire(parent, at + 20, line, true);
            let words = "Async agent launched successfully.";
            let entry = transcript::tool_result(&call.id, words).harness_result(kept.clone());
            self.write(parent, at + 20, entry);
            self.print(parent, at + 20, stream::tool_result(&call.id, words).harness_result(kept));
        }
    }

    fn meta(&mut self, child: Player, at: Millis, is_finished: bool) {
        let Cast { id, parent, call, is_background, .. } = self.cast[child].clone();
        let Some(call) = call else { return };
        let shape = if is_background { "background" } else { "foreground" };
        let mut line = transcript::meta("general-purpose", &call.id).set("requestShape", shape);
        if parent != 0 {
            line = line.set("parentAgentId", self.cast[parent].id.as_str());
        }
        if is_finished {
            line = line.set("finished", true);
        }
        self.put(at, Source::Meta(id.as_str().into()), line);
    }

    /// An agent's last message; a subagent's report reaches its caller right after, one in the background by a notice.
    pub fn end(&mut self, player: Player, at: Millis) {
        self.write(player, at, transcript::assistant("Done.").stop("end_turn"));
        self.print(player, at, stream::assistant("Done."));
        let Cast { id, parent, call, is_background, .. } = self.cast[player].clone();
        let Some(call) = call else {
            self.fire(0, at + 1, hook("Stop"), false);
            return self.announce(at + 2, stream::result("Done."));
        };
        // Observed: a hook arrives some milliseconds before the line of the same event is written.
        self.fire(player, at - 20, hook("SubagentStop"), false);
        if self.wire.has_transcripts() && !self.is_old() {
            self.meta(player, at + 1, true);
        }
        self.announce(at + 1, stream::task_updated(&id, "completed"));
        self.announce(at + 2, stream::task_notification(&id, &call.id, "completed"));
        if is_background {
            let notice = task_notification(&id, &call.id, "completed");
            self.fire(parent, at + 10, hook("UserPromptSubmit").set("prompt", notice.as_str()), false);
            return self.write(parent, at + 10, transcript::user(&notice));
        }
        let report = spawn_result(&id, "Done.");
        let line = self.tool_hook("PostToolUse", &call).harness_result(report.clone());
        self.fire(parent, at + 20, line, true);
        let entry = transcript::tool_result(&call.id, "Done.").harness_result(report.clone());
        self.write(parent, at + 20, entry);
        self.print(parent, at + 20, stream::tool_result(&call.id, "Done.").harness_result(report));
    }
}
