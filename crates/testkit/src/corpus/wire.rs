//! JSON of generated lines: transcript entries, stream lines, hook payloads, as Claude Code 2.1.330 writes them.
//!
//! Everything appends to a buffer that is used again for every line. Texts that come in are JSON-escaped already.
//! Field names, their order and their nesting are those of the recordings of 2.1.330.

use subscope_model::{Millis, Usage, iso8601};

use super::VERSION;

/// Fields common to all lines of a session.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) session: String,
    pub(super) cwd: String,
    pub(super) prompt_id: String,
}

/// The subagent that a line is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag<'a> {
    pub(super) id: &'a str,
    pub(super) kind: &'a str,
    pub(super) description: &'a str,
    /// The call that started it.
    pub(super) call: &'a str,
    pub(super) run_id: &'a str,
}

/// One API response.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) request: String,
    pub(super) model: &'static str,
    pub(super) stop: &'static str,
    pub(super) usage: Usage,
}

/// Appends formatted text; writing to a String cannot fail.
macro_rules! push {
    ($out:expr, $($format:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($format)*);
    }};
}
pub(super) use push;

fn push_optional(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => push!(out, "\"{text}\""),
        None => out.push_str("null"),
    }
}

fn open_entry(out: &mut String, tag: Option<Tag<'_>>, parent: Option<&str>) {
    out.push_str("{\"parentUuid\":");
    push_optional(out, parent);
    push!(out, ",\"isSidechain\":{}", tag.is_some());
}

fn push_agent_id(out: &mut String, tag: Option<Tag<'_>>) {
    if let Some(tag) = tag {
        push!(out, ",\"agentId\":\"{}\"", tag.id);
    }
}

fn close_entry(out: &mut String, head: &Head, uuid: &str, at: Millis) {
    push!(out, ",\"uuid\":\"{uuid}\",\"timestamp\":\"");
    out.push_str(&iso8601(at));
    let Head { session, cwd, .. } = head;
    push!(
        out,
        "\",\"userType\":\"external\",\"entrypoint\":\"sdk-cli\",\"cwd\":\"{cwd}\",\"sessionId\":\"{session}\""
    );
    push!(out, ",\"version\":\"{VERSION}\",\"gitBranch\":\"main\"}}");
}

/// A user entry of a transcript. `content` is JSON; `extra` is further fields, each with a comma before it.
pub(super) fn user_entry(
    out: &mut String,
    head: &Head,
    tag: Option<Tag<'_>>,
    parent: Option<&str>,
    (uuid, at): (&str, Millis),
    content: &str,
    extra: &str,
) {
    open_entry(out, tag, parent);
    push!(out, ",\"promptId\":\"{}\"", head.prompt_id);
    push_agent_id(out, tag);
    push!(out, ",\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":{content}}}{extra}");
    close_entry(out, head, uuid, at);
}

/// An assistant entry of a transcript with one content block.
pub(super) fn assistant_entry(
    out: &mut String,
    head: &Head,
    tag: Option<Tag<'_>>,
    parent: Option<&str>,
    (uuid, at): (&str, Millis),
    message: &Message,
    block: &str,
) {
    open_entry(out, tag, parent);
    push_agent_id(out, tag);
    out.push_str(",\"message\":");
    push_message(out, message, block);
    push!(out, ",\"requestId\":\"{}\",\"requestedModel\":\"{}\"", message.request, message.model);
    if let Some(tag) = tag {
        push!(out, ",\"attributionAgent\":\"{}\"", tag.kind);
    }
    out.push_str(",\"type\":\"assistant\",\"effort\":\"medium\",\"madeBy\":\"model\"");
    close_entry(out, head, uuid, at);
}

/// A book-keeping entry of a transcript, as every conversation begins with.
pub(super) fn attachment_entry(
    out: &mut String,
    head: &Head,
    tag: Option<Tag<'_>>,
    parent: Option<&str>,
    (uuid, at): (&str, Millis),
) {
    open_entry(out, tag, parent);
    push_agent_id(out, tag);
    out.push_str(",\"attachment\":{\"type\":\"date\",\"date\":\"2026-11-01\"},\"type\":\"attachment\"");
    close_entry(out, head, uuid, at);
}

/// `queue-operation`, the first line of a main transcript.
pub(super) fn queue_entry(out: &mut String, head: &Head, at: Millis, prompt: &str) {
    out.push_str("{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"timestamp\":\"");
    out.push_str(&iso8601(at));
    push!(out, "\",\"sessionId\":\"{}\",\"content\":\"{prompt}\"}}", head.session);
}

/// `cost-state`, the session's own check-sum.
pub(super) fn cost_entry(out: &mut String, head: &Head, models: &[(&str, Usage)]) {
    push!(out, "{{\"type\":\"cost-state\",\"sessionId\":\"{}\",\"modelUsage\":", head.session);
    push_model_usage(out, models);
    out.push_str(",\"hasUnknownModelCost\":false}");
}

fn push_model_usage(out: &mut String, models: &[(&str, Usage)]) {
    out.push('{');
    for (number, (model, usage)) in models.iter().enumerate() {
        let [input, output, read, write] = usage.kinds();
        let comma = if number == 0 { "" } else { "," };
        push!(out, "{comma}\"{model}\":{{\"inputTokens\":{input},\"outputTokens\":{output}");
        push!(out, ",\"cacheReadInputTokens\":{read},\"cacheCreationInputTokens\":{write}}}");
    }
    out.push('}');
}

fn push_message(out: &mut String, message: &Message, block: &str) {
    let Message { id, model, stop, usage, .. } = message;
    let [input, output, read, write] = usage.kinds();
    push!(
        out,
        "{{\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"{model}\",\"content\":[{block}]"
    );
    push!(out, ",\"stop_reason\":\"{stop}\",\"stop_sequence\":null,\"usage\":{{\"input_tokens\":{input}");
    push!(
        out,
        ",\"cache_creation_input_tokens\":{write},\"cache_read_input_tokens\":{read},\"output_tokens\":{output}"
    );
    push!(out, ",\"service_tier\":\"standard\",\"cache_creation\":{{\"ephemeral_1h_input_tokens\":0");
    push!(out, ",\"ephemeral_5m_input_tokens\":{write}}}}}}}");
}

/// `agent-<id>.meta.json`.
pub(super) fn meta(
    out: &mut String,
    tag: Tag<'_>,
    parent: Option<&str>,
    depth: usize,
    model: &str,
    finished: bool,
) {
    let Tag { kind, description, call, .. } = tag;
    push!(
        out,
        "{{\"agentType\":\"{kind}\",\"isBuiltIn\":true,\"description\":\"{description}\",\"toolUseId\":\"{call}\""
    );
    if let Some(parent) = parent {
        push!(out, ",\"parentAgentId\":\"{parent}\"");
    }
    push!(out, ",\"spawnDepth\":{depth},\"requestShape\":\"foreground\",\"requestNonInteractive\":true");
    push!(out, ",\"model\":\"{model}\",\"pickedEffortModel\":\"{model}\"");
    out.push_str(if finished { ",\"finished\":true}" } else { "}" });
}

fn close_talk(out: &mut String, head: &Head, tag: Option<Tag<'_>>, (uuid, at): (&str, Millis)) {
    out.push_str(",\"parent_tool_use_id\":");
    push_optional(out, tag.map(|tag| tag.call));
    if let Some(tag) = tag {
        push!(out, ",\"agent_id\":\"{}\"", tag.id);
    }
    push!(out, ",\"session_id\":\"{}\",\"uuid\":\"{uuid}\",\"timestamp\":\"", head.session);
    out.push_str(&iso8601(at));
    out.push('"');
    if let Some(tag) = tag {
        push!(out, ",\"subagent_type\":\"{}\",\"task_description\":\"{}\"", tag.kind, tag.description);
    }
}

/// An assistant line of the stream. Its usage is the placeholder of the message's start, as in the real one.
pub(super) fn assistant_line(
    out: &mut String,
    head: &Head,
    tag: Option<Tag<'_>>,
    place: (&str, Millis),
    message: &Message,
    block: &str,
) {
    let Message { id, model, usage, request, .. } = message;
    let [input, _, read, write] = usage.kinds();
    push!(
        out,
        "{{\"type\":\"assistant\",\"message\":{{\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\""
    );
    push!(out, ",\"model\":\"{model}\",\"content\":[{block}],\"stop_reason\":null,\"stop_sequence\":null");
    push!(out, ",\"usage\":{{\"input_tokens\":{input},\"cache_creation_input_tokens\":{write}");
    push!(out, ",\"cache_read_input_tokens\":{read},\"output_tokens\":1,\"service_tier\":\"standard\"}}}}");
    close_talk(out, head, tag, place);
    push!(out, ",\"request_id\":\"{request}\"}}");
}

/// A user line of the stream. `extra` is further fields, each with a comma before it.
pub(super) fn user_line(
    out: &mut String,
    head: &Head,
    tag: Option<Tag<'_>>,
    place: (&str, Millis),
    content: &str,
    extra: &str,
) {
    push!(out, "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":[{content}]}}");
    close_talk(out, head, tag, place);
    push!(out, "{extra}}}");
}

/// `system/init` of the stream.
pub(super) fn init_line(out: &mut String, head: &Head, model: &str, uuid: &str) {
    let Head { session, cwd, .. } = head;
    push!(out, "{{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"{cwd}\",\"session_id\":\"{session}\"");
    push!(out, ",\"tools\":[\"Task\",\"Bash\",\"Edit\",\"Read\"],\"mcp_servers\":[],\"model\":\"{model}\"");
    push!(
        out,
        ",\"permissionMode\":\"bypassPermissions\",\"claude_code_version\":\"{VERSION}\",\"uuid\":\"{uuid}\"}}"
    );
}

/// A `system/task_*` line of the stream. `rest` is the fields of that subtype, each with a comma before it.
pub(super) fn task_line(out: &mut String, head: &Head, tag: Tag<'_>, subtype: &str, rest: &str, uuid: &str) {
    let Tag { id, call, run_id, .. } = tag;
    push!(
        out,
        "{{\"type\":\"system\",\"subtype\":\"{subtype}\",\"task_id\":\"{id}\",\"run_id\":\"{run_id}\""
    );
    // Observed: `task_updated` alone names no call.
    if subtype != "task_updated" {
        push!(out, ",\"tool_use_id\":\"{call}\"");
    }
    push!(out, "{rest},\"uuid\":\"{uuid}\",\"session_id\":\"{}\"}}", head.session);
}

/// `result`, the last line of the stream.
pub(super) fn result_line(
    out: &mut String,
    head: &Head,
    uuid: &str,
    report: &str,
    duration_ms: Millis,
    root: Usage,
    models: &[(&str, Usage)],
) {
    let [input, output, read, write] = root.kinds();
    push!(
        out,
        "{{\"stop_reason\":\"end_turn\",\"session_id\":\"{}\",\"usage\":{{\"input_tokens\":{input}",
        head.session
    );
    push!(
        out,
        ",\"cache_creation_input_tokens\":{write},\"cache_read_input_tokens\":{read},\"output_tokens\":{output}}}"
    );
    out.push_str(",\"modelUsage\":");
    push_model_usage(out, models);
    push!(
        out,
        ",\"permission_denials\":[],\"terminal_reason\":\"completed\",\"is_error\":false,\"subtype\":\"success\""
    );
    push!(
        out,
        ",\"result\":\"{report}\",\"type\":\"result\",\"duration_ms\":{duration_ms},\"uuid\":\"{uuid}\"}}"
    );
}

/// A hook payload. `rest` is the fields of that event, each with a comma before it.
pub(super) fn hook(out: &mut String, head: &Head, tag: Option<Tag<'_>>, event: &str, rest: &str) {
    let Head { session, cwd, prompt_id } = head;
    let project = cwd.replace('/', "-");
    push!(out, "{{\"session_id\":\"{session}\"");
    push!(
        out,
        ",\"transcript_path\":\"/home/user/.claude/projects/{project}/{session}.jsonl\",\"cwd\":\"{cwd}\""
    );
    if event != "SessionStart" {
        push!(out, ",\"prompt_id\":\"{prompt_id}\"");
    }
    // Observed: the start events of processes and agents have neither mode nor effort.
    let is_bare = matches!(event, "SessionStart" | "SessionEnd" | "SubagentStart");
    if !is_bare {
        out.push_str(",\"permission_mode\":\"bypassPermissions\"");
    }
    if let Some(tag) = tag {
        push!(out, ",\"agent_id\":\"{}\",\"agent_type\":\"{}\"", tag.id, tag.kind);
    }
    if !is_bare && event != "UserPromptSubmit" {
        out.push_str(",\"effort\":{\"level\":\"medium\"}");
    }
    push!(out, ",\"hook_event_name\":\"{event}\"{rest}}}");
}
