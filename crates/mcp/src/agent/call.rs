//! Arguments of an agent tool call.

use rmcp::model::{JsonObject, object};
use serde_json::{Value, json};

/// Longest run id: each event contains it.
const MAX_RUN_ID_BYTES: usize = 256;

/// Name of the argument with the run's id.
const RUN_ID: &str = "runId";

/// A call of the agent tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentCall {
    /// The agent's task.
    pub(super) prompt: String,
    /// Further inputs such as paths.
    pub(super) inputs: Vec<String>,
    /// Id of the run, chosen by the caller.
    pub(super) run_id: String,
}

/// An invalid argument, for the model to correct.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    #[error("{name} is {how}{}", if *name == RUN_ID { ": give each call an id of its own, for example a UUID" } else { "" })]
    Missing { name: &'static str, how: &'static str },
    #[error("runId is longer than {MAX_RUN_ID_BYTES} bytes")]
    LongRunId,
    #[error("{name} has to be {expected}")]
    WrongType { name: &'static str, expected: &'static str },
}

/// Returns the JSON schema of the arguments.
pub(super) fn schema() -> JsonObject {
    object(json!({
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "description": "The task, with everything that the agent has to know: it sees nothing of this conversation.",
            },
            "inputs": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Further inputs of the task, such as paths of files; each is passed as a line of its own.",
            },
            "runId": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_RUN_ID_BYTES,
                "pattern": "\\S",
                "description": "An id for this run that no other call uses, for example a UUID: what the agent does is reported under it.",
            },
        },
        "required": ["prompt", "runId"],
    }))
}

impl AgentCall {
    /// Parses the arguments.
    pub(super) fn read(mut arguments: JsonObject) -> Result<Self, CallError> {
        let wrong_type = |name, expected| CallError::WrongType { name, expected };
        let mut required = |name| match arguments.remove(name) {
            None | Some(Value::Null) => Err(CallError::Missing { name, how: "missing" }),
            Some(Value::String(text)) if text.trim().is_empty() => {
                Err(CallError::Missing { name, how: "blank" })
            }
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(wrong_type(name, "a string")),
        };
        let run_id = required(RUN_ID)?;
        if run_id.len() > MAX_RUN_ID_BYTES {
            return Err(CallError::LongRunId);
        }
        let prompt = required("prompt")?;
        let inputs = match arguments.remove("inputs") {
            None | Some(Value::Null) => Vec::new(),
            Some(value) => {
                serde_json::from_value(value).map_err(|_| wrong_type("inputs", "an array of strings"))?
            }
        };
        Ok(Self { prompt, inputs, run_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: Value) -> Result<AgentCall, CallError> {
        AgentCall::read(arguments.as_object().unwrap().clone())
    }

    #[test]
    fn read_arguments_of_every_kind() {
        let call = read(json!({"prompt": "p", "runId": "r", "inputs": ["a", "b"], "more": 1})).unwrap();
        assert_eq!(
            call,
            AgentCall { prompt: "p".into(), inputs: vec!["a".into(), "b".into()], run_id: "r".into() }
        );
        assert_eq!(
            read(json!({"prompt": "p", "runId": "r", "inputs": null})).unwrap().inputs,
            Vec::<String>::new()
        );
    }

    #[test]
    fn refuse_what_is_missing_blank_or_of_another_type_by_its_name() {
        for (arguments, expected) in [
            (json!({"prompt": "p"}), "runId is missing"),
            (json!({"prompt": "p", "runId": null}), "runId is missing"),
            (json!({"prompt": "p", "runId": " \t"}), "runId is blank"),
            (json!({"prompt": "p", "runId": 7}), "runId has to be a string"),
            (json!({"prompt": "p", "runId": "x".repeat(300)}), "runId is longer than"),
            (json!({"runId": "r"}), "prompt is missing"),
            (json!({"runId": "r", "prompt": " "}), "prompt is blank"),
            (json!({"runId": "r", "prompt": 1}), "prompt has to be a string"),
            (json!({"runId": "r", "prompt": "p", "inputs": [1]}), "inputs has to be an array of strings"),
            (json!({"runId": "r", "prompt": "p", "inputs": "a"}), "inputs has to be an array of strings"),
        ] {
            let wrong = read(arguments.clone()).unwrap_err().to_string();
            assert!(wrong.starts_with(expected), "{arguments}: {wrong}");
        }
    }
}
