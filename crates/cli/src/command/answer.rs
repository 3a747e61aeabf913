//! `subscope answer`: the permission requests and questions that wait, and a person's answer to one.

use subscope_client::{Client, ClientError};
use subscope_model::{
    AgentQuestion, PermissionAnswered, PermissionDecision, PermissionRequest, PermissionRequests, Text,
};
use subscope_render::{permission::request_lines, safe, style::Charset, text};

use super::stop::running_hub;
use crate::prelude::*;

pub(crate) fn run(args: &AnswerArgs, context: &Context) -> Result<(), CliError> {
    let mut hub = running_hub("requests wait only while a hub runs: start `subscope serve`", context)?;
    let asked = hub.permissions()?;
    if !asked.enabled {
        return Err(CliError::failed("the hub takes no answers").hint(
            "`subscope config set answers.enabled true`, then `subscope serve --stop` and start it again",
        ));
    }
    let Some(word) = &args.request else {
        return if args.json { output::print_json(&asked) } else { output::print(&listed(&asked, context)) };
    };
    let request = one(&asked.requests, word)?;
    let answered = send(&mut hub, &request.id, &decision(args, request)?)?;
    if args.json {
        return output::print_json(&answered);
    }
    let (done, tool) = (answered.participle(), &answered.tool);
    output::print_line(&format!("{done}: {tool} of {}", agent(request)), context)
}

/// Returns the decision that the options state.
fn decision(args: &AnswerArgs, request: &PermissionRequest) -> Result<PermissionDecision, CliError> {
    if args.deny {
        return Ok(PermissionDecision::deny(args.reason.as_deref().map(Into::into)));
    }
    let (asked, given) = (request.questions.len(), args.answer.len());
    if asked != given {
        let problem = match asked {
            0 => "it asks no question".to_owned(),
            _ => format!(
                "it asks {}, and {} given",
                text::plural(asked, "question"),
                text::plural(given, "answer")
            ),
        };
        let hint = "`--answer TEXT` once for each question, in their order; `--allow` for a call";
        return Err(CliError::usage(&problem).hint(hint));
    }
    let answers = request.questions.iter().zip(&args.answer);
    Ok(PermissionDecision::answer(answers.map(|(asked, given)| offered(asked, given)).collect()))
}

/// Returns an answer as the agent offers it, if it does.
fn offered(asked: &AgentQuestion, given: &str) -> Text {
    let mut labels = asked.options.iter().map(|option| &option.label);
    labels
        .find(|label| label.to_lowercase() == given.to_lowercase())
        .map_or_else(|| given.into(), Clone::clone)
}

/// Answers a request at the hub.
pub(crate) fn send(
    hub: &mut Client,
    id: &str,
    decision: &PermissionDecision,
) -> Result<PermissionAnswered, CliError> {
    hub.answer_permission(id, decision).map_err(|error| {
        if let ClientError::Refused { message, .. } = &error
            && !message.is_empty()
        {
            return CliError::failed(message);
        }
        CliError::from(error)
    })
}

/// Returns the one request that a word begins.
fn one<'r>(requests: &'r [PermissionRequest], word: &str) -> Result<&'r PermissionRequest, CliError> {
    let mut found = requests.iter().filter(|request| !word.is_empty() && request.id.starts_with(word));
    match (found.next(), found.next()) {
        (Some(request), None) => Ok(request),
        (Some(_), Some(_)) => Err(CliError::failed("several requests begin so").hint("give more of the id")),
        (None, _) => Err(CliError::failed("no such request waits").hint(
            "it was answered in its terminal, or its time is over: `subscope answer` lists those that wait",
        )),
    }
}

/// Returns the agent of a request, as SESSION or SESSION/AGENT.
fn agent(request: &PermissionRequest) -> String {
    match request.agent_id.is_root() {
        true => request.session_id.to_string(),
        false => format!("{}/{}", request.session_id, request.agent_id),
    }
}

/// Returns all requests, each with the whole call.
fn listed(asked: &PermissionRequests, context: &Context) -> String {
    if asked.requests.is_empty() {
        return "no request waits\n".to_owned();
    }
    let charset = context.style(None).charset();
    let blocks = asked.requests.iter().map(|request| block(request, charset, context.now_ms()));
    blocks.collect::<Vec<_>>().join("\n")
}

fn block(request: &PermissionRequest, charset: Charset, now_ms: i64) -> String {
    let waited = text::duration(Some(now_ms.saturating_sub(request.asked_at_ms).max(0)));
    let folder = request.cwd.as_ref().map_or_else(String::new, |cwd| format!(" in {cwd}"));
    let head = format!("{}  {} of {}{folder}, for {waited}", request.id, request.tool, agent(request));
    let mut block = safe::line(&head, charset);
    block.push('\n');
    for line in request_lines(request, charset) {
        block.push_str("    ");
        block.push_str(&line);
        block.push('\n');
    }
    block
}
