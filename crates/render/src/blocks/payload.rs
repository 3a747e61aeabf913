//! Formats payloads: indented JSON, code, and result text, in fences that their content cannot close.

use serde_json::{Map, Value};
use subscope_model::Event;

use crate::{safe, style::Charset, text};

/// Most lines of a result without `full`.
const RESULT_LINES: usize = 20;

/// Replaces truncated lines.
const TRUNCATED: &str = "... (truncated)";

/// Names of arguments that contain code, in order of preference.
const CODE_FIELDS: [&str; 4] = ["code", "source", "script", "command"];

/// Arguments that summarize a call, in order of preference: paths, reduced to their base name, then others.
const PATH_FIELDS: [&str; 3] = ["file_path", "notebook_path", "path"];
const TEXT_FIELDS: [&str; 7] = ["pattern", "command", "query", "url", "description", "skill", "prompt"];

/// Most characters of an argument in a concise line.
const DETAIL_LENGTH: usize = 40;

/// Says what a request to the person is about, by its event.
pub fn request_words(event: &Event) -> &'static str {
    match event.text("asks") {
        Some("question") => "asks a question",
        Some("plan") => "presents a plan",
        Some(_) | None => "waits for permission",
    }
}

/// Truncates a text to `lines` lines and `... (truncated)`.
pub fn truncate_lines(text: &str, lines: usize) -> String {
    match text.match_indices('\n').nth(lines.saturating_sub(1)) {
        Some((at, _)) if lines > 0 && at + 1 < text.len() => format!("{}\n{TRUNCATED}", &text[..at]),
        _ => text.to_owned(),
    }
}

/// Wraps a sanitized text in a fence of backticks, longer than the longest run inside and at least three; no trailing
/// newline.
pub fn fence(text: &str, language: &str) -> String {
    let (mut longest, mut run) = (0, 0);
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let marks = "`".repeat((longest + 1).max(3));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{marks}{language}\n{text}{end}{marks}")
}

/// Formats a call's arguments in a fence: indented JSON, or raw text.
pub(super) fn arguments(input: Option<&Value>, charset: Charset) -> String {
    match input {
        None | Some(Value::Null) => fence("{}", "json"),
        Some(value) => match pretty_json(value) {
            Ok(json) => fence(&safe::lines(&json, charset), "json"),
            Err(raw) => fence(&safe::lines(raw, charset), ""),
        },
    }
}

/// Formats a code tool's arguments: other arguments as JSON, then the code in a fence of its language.
pub(super) fn code(tool: &str, input: Option<&Value>, charset: Charset) -> String {
    let parsed;
    let object = match input {
        Some(Value::Object(object)) => Some(object),
        Some(Value::String(text)) => {
            parsed = serde_json::from_str::<Map<String, Value>>(text).ok();
            if parsed.is_none() {
                return fence(&safe::lines(text, charset), language(tool, None));
            }
            parsed.as_ref()
        }
        _ => None,
    };
    let field = object.and_then(|object| {
        CODE_FIELDS.into_iter().find_map(|name| Some((name, object.get(name)?.as_str()?)))
    });
    let (Some(object), Some((name, code))) = (object, field) else { return arguments(input, charset) };
    let named = object.get("language").and_then(Value::as_str);
    let code = fence(&safe::lines(code, charset), language(tool, named));
    let rest: Map<String, Value> = object
        .iter()
        .filter(|(key, _)| *key != name && *key != "language")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if rest.is_empty() { code } else { format!("{}\n{code}", arguments(Some(&Value::Object(rest)), charset)) }
}

/// Returns the language of a fence; only a short alphanumeric word is accepted.
fn language<'a>(tool: &str, named: Option<&'a str>) -> &'a str {
    match named {
        Some(word) if word.len() <= 20 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()) => word,
        _ if tool == "execute_go_code" => "go",
        _ => "",
    }
}

/// Formats a result in a fence, truncated to 20 lines unless `full`.
pub(super) fn result(value: Option<&Value>, full: bool, charset: Charset) -> String {
    let (text, language) = match value {
        None | Some(Value::Null) => (String::new(), ""),
        Some(value) => match (text_of(value), pretty_json(value)) {
            (Some(text), _) => (text, ""),
            (None, Ok(json)) => (json, "json"),
            (None, Err(raw)) => (raw.to_owned(), ""),
        },
    };
    let text = safe::lines(text.trim_start_matches(['\r', '\n']).trim_end(), charset);
    let text = if full { text } else { truncate_lines(&text, RESULT_LINES) };
    fence(&text, language)
}

/// Returns the first non-blank line of a result or error.
pub fn first_line(value: Option<&Value>) -> String {
    let text = full_text(value);
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// Returns the text of a result, or its JSON.
pub fn full_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => text_of(value).unwrap_or_else(|| value.to_string()),
    }
}

/// Summarizes a call's arguments by the most informative one.
pub fn detail(input: Option<&Value>) -> Option<String> {
    let input = input?.as_object()?;
    let first = |names: &[&str]| names.iter().find_map(|name| input.get(*name)?.as_str());
    let text = first(&PATH_FIELDS).map(text::base_name).or_else(|| first(&TEXT_FIELDS))?;
    Some(text.chars().take(DETAIL_LENGTH).collect())
}

/// Formats JSON with indentation, also if encoded as a string. Returns a string that is no JSON object or array as
/// `Err`.
pub fn pretty_json(value: &Value) -> Result<String, &str> {
    let parsed;
    let value = if let Value::String(text) = value {
        parsed = serde_json::from_str::<Value>(text).map_err(|_| text.as_str())?;
        if !parsed.is_object() && !parsed.is_array() {
            return Err(text);
        }
        &parsed
    } else {
        value
    };
    Ok(serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Joins the texts of a list of content blocks (tool results); other block types as `[type]`.
fn text_of(value: &Value) -> Option<String> {
    let blocks = value.as_array().filter(|blocks| !blocks.is_empty())?;
    let mut texts = Vec::with_capacity(blocks.len());
    for block in blocks {
        let kind = block.get("type")?.as_str()?;
        match block.get("text").and_then(Value::as_str) {
            Some(text) => texts.push(text.to_owned()),
            None => texts.push(format!("[{kind}]")),
        }
    }
    Some(texts.join("\n"))
}
