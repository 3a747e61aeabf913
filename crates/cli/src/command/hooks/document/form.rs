//! Validates the structure of a settings file before hooks are added; errors have a line.

use std::fmt;

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Object, ObjectProp, Value},
    common::Ranged,
    errors::ParseError,
    parse_to_ast,
};

use super::HOOKS;

/// Reason why a text cannot be edited.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::command::hooks) struct SyntaxProblem {
    /// The line (1-based).
    line: usize,
    what: String,
}

impl SyntaxProblem {
    /// Returns the problem of a text that is not JSON.
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

impl fmt::Display for SyntaxProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

/// Checks that a text is empty or an object, with at most one `hooks`, an object of lists with unique names. With a
/// duplicate name it is undefined which one counts.
pub(super) fn check(text: &str, syntax: &ParseOptions) -> Result<(), SyntaxProblem> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), syntax);
    let root = match parsed.map_err(|error| SyntaxProblem::syntax(&error))?.value {
        None => return Ok(()),
        Some(Value::Object(root)) => root,
        Some(other) => return Err(SyntaxProblem::at(&other, text, "no JSON object")),
    };
    let Some(hooks) = unique_property(&root, HOOKS, text)? else { return Ok(()) };
    let Value::Object(hooks) = &hooks.value else {
        return Err(SyntaxProblem::at(hooks, text, "hooks is no object"));
    };
    for property in &hooks.properties {
        let name = property.name.as_str();
        unique_property(hooks, name, text)?;
        if !matches!(property.value, Value::Array(_)) {
            return Err(SyntaxProblem::at(property, text, format!("hooks.{name} is no list")));
        }
    }
    Ok(())
}

/// Returns the property with a name.
///
/// # Errors
/// If the name occurs twice.
fn unique_property<'a, 't>(
    object: &'a Object<'t>,
    name: &str,
    text: &str,
) -> Result<Option<&'a ObjectProp<'t>>, SyntaxProblem> {
    let mut named = object.properties.iter().filter(|property| property.name.as_str() == name);
    let first = named.next();
    match named.next() {
        Some(second) => Err(SyntaxProblem::at(second, text, format!("{name} stands twice"))),
        None => Ok(first),
    }
}
