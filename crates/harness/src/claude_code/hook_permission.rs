//! Permission requests and questions of Claude Code that a hook decides.
//!
//! Observed, from 2.0.45 (the first with this event) to 2.1.330: the terminal asks while a `PermissionRequest` hook runs.
//! The hook's decision answers the question on the screen ("Allowed by PermissionRequest hook"); in a run without a
//! terminal (`-p`), which refuses the call otherwise, the call waits for it. If the terminal is answered first, a refusal
//! kills the hook, and after a permission the hook runs on and its decision is ignored. A hook that prints nothing
//! decides nothing.
//!
//! A question is answered by `updatedInput`: the call's own arguments with `answers`, by question: a label, several joined by
//! `, `, or any text. The terminal then shows *Answered Claude's questions*. A plan takes `updatedInput`, too, without a
//! change: without it, the question stays open. The mode is then that in which the agent was before it planned. In 2.0.45,
//! 2.1.64 and 2.1.330.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use subscope_decode::{
    AskedPermission, Permissions,
    lenient::{Flag, Str},
};
use subscope_model::{AgentId, AgentQuestion, PermissionBehavior, PermissionDecision, QuestionOption};

/// The event.
const EVENT: &str = "PermissionRequest";
/// The tool that asks questions.
const QUESTION_TOOL: &str = "AskUserQuestion";
/// The tool that shows a plan.
const PLAN_TOOL: &str = "ExitPlanMode";
/// Most questions of a call: the harness's own limit.
const MAX_QUESTIONS: usize = 4;
/// What the agent reads of a refusal without a reason.
const REASON: &str = "The user refused this, with subscope.";

/// The permission requests of its hooks.
pub(super) const PERMISSIONS: Permissions = Permissions { request: asked, decision };

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    hook_event_name: Str<'a>,
    session_id: Str<'a>,
    agent_id: Str<'a>,
    cwd: Str<'a>,
    tool_name: Str<'a>,
    tool_input: Option<&'a RawValue>,
}

/// Arguments of a call that asks questions, or shows a plan.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Asks<'a> {
    questions: Vec<Question<'a>>,
    /// The text of the plan's file. Without one there is nothing to approve.
    plan: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Question<'a> {
    question: Str<'a>,
    header: Str<'a>,
    options: Vec<Choice<'a>>,
    #[serde(rename = "multiSelect")]
    multi_select: Flag,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Choice<'a> {
    label: Str<'a>,
    description: Str<'a>,
    /// What the terminal shows beside the option: text, or Markdown.
    preview: Str<'a>,
}

fn asked(payload: &[u8]) -> Option<AskedPermission> {
    let asked: Payload<'_> = serde_json::from_slice(payload).ok()?;
    asked.hook_event_name.get().filter(|event| *event == EVENT)?;
    let (tool, arguments) = (asked.tool_name.filled()?, asked.tool_input?.get());
    let questions = match tool {
        QUESTION_TOOL => questions(arguments)?,
        PLAN_TOOL => {
            serde_json::from_str::<Asks<'_>>(arguments).ok()?.plan.filled()?;
            Vec::new()
        }
        _ => Vec::new(),
    };
    Some(AskedPermission {
        session: asked.session_id.filled()?.into(),
        agent: asked.agent_id.filled().unwrap_or(AgentId::ROOT).into(),
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
        questions,
        cwd: asked.cwd.filled().map(str::to_owned),
    })
}

/// Returns the questions of a call; `None` if one of them cannot be shown whole, or answered by its text.
fn questions(arguments: &str) -> Option<Vec<AgentQuestion>> {
    let asks: Asks<'_> = serde_json::from_str(arguments).ok()?;
    let mut questions: Vec<AgentQuestion> = Vec::new();
    for asked in &asks.questions {
        let question = asked.question.filled()?;
        let option = |choice: &Choice<'_>| {
            let parts = [choice.description.filled(), choice.preview.filled()];
            let description = parts.into_iter().flatten().collect::<Vec<_>>().join("\n");
            let description = (!description.is_empty()).then(|| description.into());
            Some(QuestionOption { label: choice.label.filled()?.into(), description })
        };
        if questions.iter().any(|other| *other.question == *question) {
            return None;
        }
        questions.push(AgentQuestion {
            question: question.into(),
            header: asked.header.filled().map(Into::into),
            options: asked.options.iter().map(option).collect::<Option<_>>()?,
            multi_select: asked.multi_select.is_true(),
        });
    }
    (1..=MAX_QUESTIONS).contains(&questions.len()).then_some(questions)
}

/// Never changes the call or a rule: the decision is about this one request.
fn decision(payload: &[u8], decision: &PermissionDecision) -> Option<String> {
    let asked = asked(payload)?;
    let decided = match decision.behavior {
        PermissionBehavior::Deny => {
            json!({ "behavior": "deny", "message": decision.reason.as_deref().unwrap_or(REASON) })
        }
        PermissionBehavior::Allow => match asked.tool.as_str() {
            QUESTION_TOOL | PLAN_TOOL => {
                let mut input: Map<String, Value> = serde_json::from_str(&asked.arguments).ok()?;
                if !asked.questions.is_empty() {
                    input.insert("answers".to_owned(), answers(&asked.questions, decision)?);
                }
                json!({ "behavior": "allow", "updatedInput": input })
            }
            _ => json!({ "behavior": "allow" }),
        },
    };
    Some(json!({ "hookSpecificOutput": { "hookEventName": EVENT, "decision": decided } }).to_string())
}

/// Returns the answers by question; `None` if one is missing.
fn answers(questions: &[AgentQuestion], decision: &PermissionDecision) -> Option<Value> {
    let by_question: BTreeMap<&str, &str> = questions
        .iter()
        .map(|asked| &*asked.question)
        .zip(decision.answers.iter().map(|answer| &**answer))
        .collect();
    (by_question.len() == questions.len()).then(|| json!(by_question))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_with_a_session_a_tool_and_arguments_is_one() {
        let asked_by = |line: &str| asked(line.as_bytes());
        let line = r#"{"session_id":"s","hook_event_name":"PermissionRequest","agent_id":"a1","cwd":"/w",
            "tool_name":"Bash","tool_input":{"command":"git tag  v1","z":1}}"#;
        let request = asked_by(line).unwrap();
        assert_eq!((request.session.as_str(), request.agent.as_str()), ("s", "a1"));
        assert_eq!(request.arguments, r#"{"command":"git tag  v1","z":1}"#);
        assert_eq!((request.tool.as_str(), request.cwd.as_deref()), ("Bash", Some("/w")));
        let root = asked_by(&line.replace("a1", "")).unwrap();
        assert!(root.agent.is_root());
        for (from, to) in [
            ("PermissionRequest", "PreToolUse"),
            ("\"s\"", "\"\""),
            ("Bash", "AskUserQuestion"),
            // It shows no plan.
            ("Bash", "ExitPlanMode"),
            ("tool_input", "input"),
            ("\"Bash\"", "7"),
        ] {
            assert_eq!(asked_by(&line.replace(from, to)), None, "{from} → {to}");
        }
    }

    fn payload(tool: &str, input: &Value) -> Vec<u8> {
        let line =
            json!({ "session_id": "s", "hook_event_name": EVENT, "tool_name": tool, "tool_input": input });
        line.to_string().into_bytes()
    }

    fn decide(tool: &str, input: &Value, decided: &PermissionDecision) -> Option<Value> {
        let json: Value = serde_json::from_str(&decision(&payload(tool, input), decided)?).unwrap();
        assert_eq!(json["hookSpecificOutput"]["hookEventName"], EVENT);
        Some(json["hookSpecificOutput"]["decision"].clone())
    }

    #[test]
    fn decision_says_yes_or_no_and_nothing_else() {
        let input = json!({ "command": "git tag v1" });
        let decide = |decided| decide("Bash", &input, &decided).unwrap();
        assert_eq!(decide(PermissionDecision::ALLOW), json!({ "behavior": "allow" }));
        let reason = "not \"now\"";
        let denied = decide(PermissionDecision::deny(Some(reason.into())));
        assert_eq!(denied, json!({ "behavior": "deny", "message": reason }));
        assert_eq!(decide(PermissionDecision::deny(None))["message"], REASON);
    }

    #[test]
    fn questions_are_answered_by_their_text() {
        let input = json!({ "questions": [
            { "question": "Which color?", "header": "Color", "multiSelect": false,
              "options": [{ "label": "Red", "description": "warm", "preview": "#f00" }, { "label": "Blue" }] },
            { "question": "Which parts?", "multiSelect": true, "options": [{ "label": "Door" }, { "label": "Wall" }] },
        ], "metadata": 1 });
        let request = asked(&payload(QUESTION_TOOL, &input)).unwrap();
        let [color, parts] = request.questions.as_slice() else { panic!("{request:?}") };
        assert_eq!((&*color.question, color.header.as_deref()), ("Which color?", Some("Color")));
        assert_eq!(
            color.options[0].description.as_deref(),
            Some("warm\n#f00"),
            "all that is offered is shown"
        );
        assert_eq!((color.multi_select, parts.multi_select, parts.options.len()), (false, true, 2));

        let decided = PermissionDecision::answer(vec!["green".into(), "Door, Wall".into()]);
        let mut answered = input.clone();
        answered["answers"] = json!({ "Which color?": "green", "Which parts?": "Door, Wall" });
        let expected = json!({ "behavior": "allow", "updatedInput": answered });
        assert_eq!(decide(QUESTION_TOOL, &input, &decided), Some(expected));
        let one = PermissionDecision::answer(vec!["green".into()]);
        assert_eq!(decide(QUESTION_TOOL, &input, &one), None, "an answer is missing");
        let declined = PermissionDecision::deny(Some("ask me later".into()));
        assert_eq!(decide(QUESTION_TOOL, &input, &declined).unwrap()["message"], "ask me later");
    }

    #[test]
    fn question_that_cannot_be_answered_by_its_text_is_left_to_the_terminal() {
        let question = |text: &str| json!({ "question": text, "options": [{ "label": "a" }] });
        let many: Vec<Value> = (0..5).map(|number| question(&format!("{number}?"))).collect();
        for questions in [
            json!([]),
            json!(many),
            json!([question("Same?"), question("Same?")]),
            json!([question("")]),
            json!([{ "question": "Which?", "options": [{ "description": "without a label" }] }]),
        ] {
            let input = json!({ "questions": questions });
            assert_eq!(asked(&payload(QUESTION_TOOL, &input)), None, "{input}");
        }
    }

    #[test]
    fn plan_is_approved_as_it_is() {
        let input =
            json!({ "plan": "1. Count the mugs.", "planFilePath": "/home/user/.claude/plans/mugs.md" });
        assert!(asked(&payload(PLAN_TOOL, &input)).unwrap().questions.is_empty());
        let approved = json!({ "behavior": "allow", "updatedInput": input });
        assert_eq!(decide(PLAN_TOOL, &input, &PermissionDecision::ALLOW), Some(approved));
    }
}
