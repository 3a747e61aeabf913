//! Claude Code's settings as text that is edited in place: our hooks are added and taken out, everything else stays as
//! it is, with comments, order, indentation and line ends.
//!
//! ```json
//! { "hooks": { "PreToolUse": [ { "matcher": "Bash", "hooks": [ { "type": "command", "command": "…" } ] } ] } }
//! ```
//!
//! Each of our hooks stands in a group of its own without a matcher, behind the groups of others.

pub(super) mod entry;
mod form;

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode},
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::{HookHandler, HookSettings, SettingsError};

const HOOKS: &str = "hooks";
const MATCHER: &str = "matcher";
const DISABLED: &str = "disableAllHooks";
/// What some editors put in front (U+FEFF); Claude Code passes it over.
const MARK: char = '\u{feff}';

/// What a file of settings may have beside plain JSON: people write comments into it. What else JSON5 allows would be
/// an error to Claude Code.
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

/// One of our hooks, where it stands.
#[derive(Debug)]
struct Ours {
    handler: HookHandler,
    /// The whole entry, to compare it.
    value: Value,
    entry: CstNode,
    entries: CstArray,
    group: CstObject,
}

/// The hooks of one event.
#[derive(Debug)]
struct Event {
    name: String,
    groups: CstArray,
}

/// A file of settings.
#[derive(Debug)]
pub(super) struct Document {
    root: CstRootNode,
    is_marked: bool,
    /// Whether nothing but comments and blanks stood there.
    was_blank: bool,
    /// Whether it is plain JSON, or blank.
    is_strict: bool,
}

impl Document {
    /// Reads a text. One without any value counts as an empty object.
    ///
    /// # Errors
    /// Where it is no JSON object, or its `hooks` have another form than Claude Code takes.
    pub(super) fn parse(text: &str) -> Result<Self, SettingsError> {
        let (is_marked, text) = match text.strip_prefix(MARK) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        form::check(text, &SYNTAX)?;
        let root = CstRootNode::parse(text, &SYNTAX).map_err(|error| form::not_json(&error))?;
        let is_strict = text.trim().is_empty() || serde_json::from_str::<IgnoredAny>(text).is_ok();
        Ok(Self { was_blank: root.value().is_none(), root, is_marked, is_strict })
    }

    /// Removes empty lists of events but for those to keep, and `hooks` itself where it is empty and not to be kept.
    fn tidy(&self, keep: &dyn Fn(&str) -> bool, keep_hooks: Keep) {
        let Some(hooks) = self.hooks() else { return };
        for event in self.events() {
            if event.groups.elements().is_empty() && !keep(&event.name) {
                hooks.get(&event.name).into_iter().for_each(CstObjectProp::remove);
            }
        }
        if hooks.properties().is_empty() && keep_hooks == Keep::No {
            let property = self.root.object_value().and_then(|root| root.get(HOOKS));
            property.into_iter().for_each(CstObjectProp::remove);
        }
    }

    fn hooks(&self) -> Option<CstObject> {
        self.root.object_value()?.object_value(HOOKS)
    }

    fn events(&self) -> Vec<Event> {
        let properties = self.hooks().map(|hooks| hooks.properties()).unwrap_or_default().into_iter();
        let event = |property: CstObjectProp| {
            Some(Event { name: property.decoded_name()?, groups: property.array_value()? })
        };
        properties.filter_map(event).collect()
    }
}

impl HookSettings for Document {
    fn text(&self) -> String {
        let mut text = self.root.to_string();
        if self.is_marked {
            text.insert(0, MARK);
        }
        if self.was_blank && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    fn ours(&self) -> Vec<(String, HookHandler)> {
        let events = self.events().into_iter();
        events
            .flat_map(|event| {
                ours(&event.groups).into_iter().map(move |ours| (event.name.clone(), ours.handler))
            })
            .collect()
    }

    fn disables_hooks(&self) -> bool {
        let switch = self.root.object_value().and_then(|root| root.get(DISABLED)?.value()?.as_boolean_lit());
        switch.is_some_and(|switch| switch.value())
    }

    fn obstacles(&self) -> Vec<&'static str> {
        // Observed: 2.1.330 ran no hook from a file with a comment, and none from one with a trailing comma.
        let comments = "has comments or trailing commas: they are kept, but Claude Code reads no settings from such a file, these hooks included";
        let disabled = "has disableAllHooks: Claude Code runs none until that is taken out";
        let found = [(!self.is_strict, comments), (self.disables_hooks(), disabled)];
        found.into_iter().filter(|(is_there, _)| *is_there).map(|(_, what)| what).collect()
    }

    fn install(&self, wanted: &[(&str, HookHandler)]) {
        let (mut there, mut taken) = (Vec::new(), Vec::new());
        for event in self.events() {
            let handler = wanted
                .iter()
                .find(|(name, _)| *name == event.name)
                .map(|(_, handler)| entry::to_json(handler));
            for ours in ours(&event.groups) {
                let is_right = handler.as_ref() == Some(&ours.value) && takes_everything(&ours.group);
                if is_right && !there.contains(&event.name) {
                    there.push(event.name.clone());
                } else {
                    taken.push(event.name.clone());
                    ours.take_out(&event.groups);
                }
            }
        }
        for (event, handler) in wanted.iter().filter(|(event, _)| there.iter().all(|name| name != event)) {
            let hooks = self.root.object_value_or_set().object_value_or_set(HOOKS);
            let group = json!({ HOOKS: [entry::to_json(handler)] });
            hooks.array_value_or_set(event).append(input(&group));
        }
        self.tidy(&|event| !taken.iter().any(|name| name == event), Keep::Yes);
    }

    fn remove(&self, before: Option<&str>) {
        let before = before.and_then(|text| Self::parse(text).ok());
        let mut taken = Vec::new();
        for event in self.events() {
            for ours in ours(&event.groups) {
                taken.push(event.name.clone());
                ours.take_out(&event.groups);
            }
        }
        if taken.is_empty() {
            return;
        }
        let had = before.as_ref().and_then(Self::hooks);
        let keep_hooks = if had.is_some() { Keep::Yes } else { Keep::No };
        let had = |event: &str| had.as_ref().is_some_and(|hooks| hooks.get(event).is_some());
        self.tidy(&|event| had(event) || !taken.iter().any(|name| name == event), keep_hooks);
    }
}

/// Whether an empty list stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Yes,
    No,
}

/// Finds our hooks among the groups of one event.
fn ours(groups: &CstArray) -> Vec<Ours> {
    let mut all = Vec::new();
    for group in groups.elements().iter().filter_map(CstNode::as_object) {
        let Some(entries) = group.array_value(HOOKS) else { continue };
        for entry in entries.elements() {
            let Some(value) = entry.to_serde_value() else { continue };
            let Some(handler) = entry::of_ours(&value) else { continue };
            all.push(Ours { handler, value, entry, entries: entries.clone(), group: group.clone() });
        }
    }
    all
}

impl Ours {
    /// Removes the entry, and its group from the groups of its event where nothing of others is left in it.
    fn take_out(self, groups: &CstArray) {
        self.entry.remove();
        if self.entries.elements().is_empty() {
            self.group.remove();
            close_up(groups);
        }
    }
}

/// Takes the line end away that our group brought behind a list that begins in the line of its bracket.
fn close_up(groups: &CstArray) {
    let children = groups.children();
    if children.get(1).is_none_or(|first| first.is_newline() || first.is_whitespace() || first.is_comment()) {
        return;
    }
    let blanks =
        children.into_iter().rev().skip(1).take_while(|child| child.is_newline() || child.is_whitespace());
    blanks.for_each(CstNode::remove);
}

/// Whether a group's hooks run for every tool, agent or reason.
fn takes_everything(group: &CstObject) -> bool {
    let Some(matcher) = group.get(MATCHER) else { return true };
    let matcher = matcher.value().and_then(|value| value.as_string_lit()?.decoded_value().ok());
    matcher.is_some_and(|matcher| matcher.is_empty() || matcher == "*")
}

/// Returns a value as the editor takes it.
fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests;
