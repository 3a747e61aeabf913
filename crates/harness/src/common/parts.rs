//! Contents in the form of the Gemini API: parts with texts, calls and results of calls.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::{Flag, Str};
use subscope_model::RawJson;

/// A part of a content.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
pub(crate) struct Part<'a> {
    pub(crate) text: Option<&'a RawValue>,
    /// Whether the text is a thought.
    pub(crate) thought: Flag,
    pub(crate) function_call: Option<FunctionCall<'a>>,
    pub(crate) function_response: Option<FunctionResponse<'a>>,
}

/// A call, as it is sent to the model again.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct FunctionCall<'a> {
    pub(crate) id: Str<'a>,
    pub(crate) name: Str<'a>,
    pub(crate) args: Option<&'a RawValue>,
}

/// The result of a call, as the model sees it.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct FunctionResponse<'a> {
    pub(crate) id: Str<'a>,
    pub(crate) name: Str<'a>,
    pub(crate) response: Response<'a>,
}

/// Result of a call.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct Response<'a> {
    pub(crate) output: Option<&'a RawValue>,
    pub(crate) error: Option<&'a RawValue>,
}

/// Reads those elements of an array that can be parsed; none of any other value.
pub(crate) fn elements<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Vec<T> {
    let all: Vec<&'a RawValue> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    all.into_iter().filter_map(|element| serde_json::from_str(element.get()).ok()).collect()
}

/// Returns the text of a string; `None` for any other value.
pub(crate) fn string(raw: Option<&RawValue>) -> Option<String> {
    let json = raw?.get();
    json.starts_with('"').then(|| RawJson { json, offset: u64::MAX }.text().into_owned())
}
