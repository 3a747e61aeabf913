//! Whether a text has the form in which hooks can be added: told with its line where it has not.

use std::fmt;

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Object, ObjectProp, Value},
    common::Ranged,
    errors::ParseError,
    parse_to_ast,
};

use super::HOOKS;

/// Why a text cannot be edited.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::command::hooks) struct Wrong {
    /// The line, from 1.
    line: usize,
    what: String,
}

impl Wrong {
    /// Returns the error of a text that is no JSON.
    pub(super) fn syntax(error: &ParseError) -> Self {
        let what = error.kind().to_string();
        let mut letters = what.chars();
        let what =
            letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect());
        Self { line: error.line_display(), what: format!("no JSON: {what}") }
    }

    fn at(place: &impl Ranged, text: &str, what: impl Into<String>) -> Self {
        let before = text.as_bytes().iter().take(place.start());
        Self { line: before.filter(|byte| **byte == b'\n').count() + 1, what: what.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

/// Checks a text: an object, or nothing; in it `hooks`, once, an object of lists, each name once. A name that stands
/// twice leaves open which one counts.
pub(super) fn check(text: &str, syntax: &ParseOptions) -> Result<(), Wrong> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), syntax);
    let root = match parsed.map_err(|error| Wrong::syntax(&error))?.value {
        None => return Ok(()),
        Some(Value::Object(root)) => root,
        Some(other) => return Err(Wrong::at(&other, text, "no JSON object")),
    };
    let Some(hooks) = once(&root, HOOKS, text)? else { return Ok(()) };
    let Value::Object(hooks) = &hooks.value else {
        return Err(Wrong::at(hooks, text, "hooks is no object"));
    };
    for property in &hooks.properties {
        let name = property.name.as_str();
        once(hooks, name, text)?;
        if !matches!(property.value, Value::Array(_)) {
            return Err(Wrong::at(property, text, format!("hooks.{name} is no list")));
        }
    }
    Ok(())
}

/// Returns the property of a name.
fn once<'a, 't>(object: &'a Object<'t>, name: &str, text: &str) -> Result<Option<&'a ObjectProp<'t>>, Wrong> {
    let mut named = object.properties.iter().filter(|property| property.name.as_str() == name);
    let first = named.next();
    match named.next() {
        Some(second) => Err(Wrong::at(second, text, format!("{name} stands twice"))),
        None => Ok(first),
    }
}
