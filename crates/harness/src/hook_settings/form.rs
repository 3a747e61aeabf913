//! Checks whether hooks can be added to a text, and names the line of what prevents it.

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Object, ObjectProp, Value},
    common::Ranged,
    errors::ParseError,
    parse_to_ast,
};

use super::HOOKS;
use crate::SettingsError;

/// Returns the error of a text that is no JSON.
pub(super) fn not_json(error: &ParseError) -> SettingsError {
    let what = error.kind().to_string();
    let mut letters = what.chars();
    let what = letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect());
    SettingsError { line: error.line_display(), what: format!("no JSON: {what}") }
}

fn at(place: &impl Ranged, text: &str, what: impl Into<String>) -> SettingsError {
    let before = text.as_bytes().iter().take(place.start());
    SettingsError { line: before.filter(|byte| **byte == b'\n').count() + 1, what: what.into() }
}

/// Checks a text: an object, or nothing; in it `hooks`, once, an object of lists, each name once. With a repeated name
/// it is undefined which one counts.
pub(super) fn check(text: &str, syntax: &ParseOptions) -> Result<(), SettingsError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), syntax);
    let root = match parsed.map_err(|error| not_json(&error))?.value {
        None => return Ok(()),
        Some(Value::Object(root)) => root,
        Some(other) => return Err(at(&other, text, "no JSON object")),
    };
    let Some(hooks) = once(&root, HOOKS, text)? else { return Ok(()) };
    let Value::Object(hooks) = &hooks.value else {
        return Err(at(hooks, text, "hooks is not an object"));
    };
    for property in &hooks.properties {
        let name = property.name.as_str();
        once(hooks, name, text)?;
        if !matches!(property.value, Value::Array(_)) {
            return Err(at(property, text, format!("hooks.{name} is not a list")));
        }
    }
    Ok(())
}

/// Returns the property of a name.
fn once<'a, 't>(
    object: &'a Object<'t>,
    name: &str,
    text: &str,
) -> Result<Option<&'a ObjectProp<'t>>, SettingsError> {
    let mut named = object.properties.iter().filter(|property| property.name.as_str() == name);
    let first = named.next();
    match named.next() {
        Some(second) => Err(at(second, text, format!("{name} occurs twice"))),
        None => Ok(first),
    }
}
