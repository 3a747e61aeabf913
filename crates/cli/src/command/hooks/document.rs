//! Edits a settings file as text: adds and removes our hooks, preserving everything else with comments, order,
//! indentation and line endings.
//!
//! ```json
//! { "hooks": { "PreToolUse": [ { "matcher": "Bash", "hooks": [ { "type": "command", "command": "…" } ] } ] } }
//! ```
//!
//! Each of our hooks is in its own group without a matcher, after the groups of others.

mod form;

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode},
};
use serde_json::{Value, json};

pub(super) use self::form::SyntaxProblem;
use super::entry::Handler;

const HOOKS: &str = "hooks";
const MATCHER: &str = "matcher";
const DISABLED: &str = "disableAllHooks";
/// Byte order mark that some editors write (U+FEFF); Claude Code ignores it.
const BOM: char = '\u{feff}';

/// Accepted syntax: JSON with comments and trailing commas, which people write. Everything else of JSON5 is an error to
/// Claude Code.
const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// One of our hooks with its position in the document.
#[derive(Debug)]
struct OwnHook {
    handler: Handler,
    /// The complete entry, for comparison.
    value: Value,
    entry: CstNode,
    entries: CstArray,
    group: CstObject,
}

/// The hook groups of one event.
#[derive(Debug)]
struct EventGroups {
    name: String,
    groups: CstArray,
}

/// A parsed settings file.
#[derive(Debug)]
pub(super) struct SettingsDocument {
    root: CstRootNode,
    has_bom: bool,
    /// Whether the file had no JSON value, only comments and white space.
    was_blank: bool,
}

impl SettingsDocument {
    /// Parses a text. One without a value counts as an empty object.
    ///
    /// # Errors
    /// If it is not a JSON object, or its `hooks` do not have the structure that Claude Code accepts.
    pub(super) fn parse(text: &str) -> Result<Self, SyntaxProblem> {
        let (has_bom, text) = match text.strip_prefix(BOM) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        form::check(text, &SYNTAX)?;
        let root = CstRootNode::parse(text, &SYNTAX).map_err(|error| SyntaxProblem::syntax(&error))?;
        Ok(Self { was_blank: root.value().is_none(), root, has_bom })
    }

    /// Returns the text.
    pub(super) fn text(&self) -> String {
        let mut text = self.root.to_string();
        if self.has_bom {
            text.insert(0, BOM);
        }
        if self.was_blank && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// Returns our hooks with their events, in the order of the file.
    pub(super) fn own_hooks(&self) -> Vec<(String, Handler)> {
        let events = self.events().into_iter();
        events
            .flat_map(|event| {
                own_hooks(&event.groups).into_iter().map(move |hook| (event.name.clone(), hook.handler))
            })
            .collect()
    }

    /// Whether `disableAllHooks` is set.
    pub(super) fn disables_hooks(&self) -> bool {
        let switch = self.root.object_value().and_then(|root| root.get(DISABLED)?.value()?.as_boolean_lit());
        switch.is_some_and(|switch| switch.value())
    }

    /// Makes our hooks exactly those in `wanted`, by event. Correct ones are not touched, others of ours are removed.
    pub(super) fn install(&self, wanted: &[(&str, Handler)]) {
        let (mut installed, mut changed) = (Vec::new(), Vec::new());
        for event in self.events() {
            let handler =
                wanted.iter().find(|(name, _)| *name == event.name).map(|(_, handler)| handler.to_json());
            for hook in own_hooks(&event.groups) {
                let is_right = handler.as_ref() == Some(&hook.value) && matches_everything(&hook.group);
                if is_right && !installed.contains(&event.name) {
                    installed.push(event.name.clone());
                } else {
                    changed.push(event.name.clone());
                    hook.remove(&event.groups);
                }
            }
        }
        for (event, handler) in wanted.iter().filter(|(event, _)| installed.iter().all(|name| name != event))
        {
            let hooks = self.root.object_value_or_set().object_value_or_set(HOOKS);
            let group = json!({ HOOKS: [handler.to_json()] });
            hooks.array_value_or_set(event).append(to_cst(&group));
        }
        self.remove_empty(&|event| !changed.iter().any(|name| name == event), KeepEmpty::Yes);
    }

    /// Removes our hooks, and lists that become empty, except those that exist in `before` (the file before the
    /// installation).
    pub(super) fn remove(&self, before: Option<&Self>) {
        let mut changed = Vec::new();
        for event in self.events() {
            for hook in own_hooks(&event.groups) {
                changed.push(event.name.clone());
                hook.remove(&event.groups);
            }
        }
        if changed.is_empty() {
            return;
        }
        let had = before.and_then(Self::hooks);
        let keep_hooks = if had.is_some() { KeepEmpty::Yes } else { KeepEmpty::No };
        let had = |event: &str| had.as_ref().is_some_and(|hooks| hooks.get(event).is_some());
        self.remove_empty(&|event| had(event) || !changed.iter().any(|name| name == event), keep_hooks);
    }

    /// Removes empty event lists except those to keep, and an empty `hooks` object unless it is to be kept.
    fn remove_empty(&self, keep: &dyn Fn(&str) -> bool, keep_hooks: KeepEmpty) {
        let Some(hooks) = self.hooks() else { return };
        for event in self.events() {
            if event.groups.elements().is_empty() && !keep(&event.name) {
                hooks.get(&event.name).into_iter().for_each(CstObjectProp::remove);
            }
        }
        if hooks.properties().is_empty() && keep_hooks == KeepEmpty::No {
            let property = self.root.object_value().and_then(|root| root.get(HOOKS));
            property.into_iter().for_each(CstObjectProp::remove);
        }
    }

    fn hooks(&self) -> Option<CstObject> {
        self.root.object_value()?.object_value(HOOKS)
    }

    fn events(&self) -> Vec<EventGroups> {
        let properties = self.hooks().map(|hooks| hooks.properties()).unwrap_or_default().into_iter();
        let event = |property: CstObjectProp| {
            Some(EventGroups { name: property.decoded_name()?, groups: property.array_value()? })
        };
        properties.filter_map(event).collect()
    }
}

/// Whether an empty `hooks` object is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeepEmpty {
    Yes,
    No,
}

/// Returns our hooks among the groups of one event.
fn own_hooks(groups: &CstArray) -> Vec<OwnHook> {
    let mut all = Vec::new();
    for group in groups.elements().iter().filter_map(CstNode::as_object) {
        let Some(entries) = group.array_value(HOOKS) else { continue };
        for entry in entries.elements() {
            let Some(value) = entry.to_serde_value() else { continue };
            let Some(handler) = Handler::parse_own(&value) else { continue };
            all.push(OwnHook { handler, value, entry, entries: entries.clone(), group: group.clone() });
        }
    }
    all
}

impl OwnHook {
    /// Removes the entry, and its group if no other entry is left in it.
    fn remove(self, groups: &CstArray) {
        self.entry.remove();
        if self.entries.elements().is_empty() {
            self.group.remove();
            remove_trailing_newline(groups);
        }
    }
}

/// Removes the newline that our group added to a list whose first element is on the line of its bracket.
fn remove_trailing_newline(groups: &CstArray) {
    let children = groups.children();
    if children.get(1).is_none_or(|first| first.is_newline() || first.is_whitespace() || first.is_comment()) {
        return;
    }
    let blanks =
        children.into_iter().rev().skip(1).take_while(|child| child.is_newline() || child.is_whitespace());
    blanks.for_each(CstNode::remove);
}

/// Whether a group has no effective matcher: its hooks always run.
fn matches_everything(group: &CstObject) -> bool {
    let Some(matcher) = group.get(MATCHER) else { return true };
    let matcher = matcher.value().and_then(|value| value.as_string_lit()?.decoded_value().ok());
    matcher.is_some_and(|matcher| matcher.is_empty() || matcher == "*")
}

/// Converts a value for the editor.
fn to_cst(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(to_cst).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, value)| (name.clone(), to_cst(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests;
