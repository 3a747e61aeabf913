//! JSON settings of a harness as text that is edited in place: our hooks are added and taken out, everything else stays
//! as it is, with comments, order, indentation and line ends.
//!
//! ```json
//! { "hooks": { "PreToolUse": [ { "matcher": "Bash", "hooks": [ { "type": "command", "command": "…" } ] } ] } }
//! ```
//!
//! Each of our hooks is in a group of its own without a matcher, after the groups of others. The differences between
//! harnesses are in [`SettingsForm`].

mod entry;
mod form;

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode},
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::{HookHandler, HookSettings, SettingsError};

const HOOKS: &str = "hooks";
const MATCHER: &str = "matcher";
/// Environment variables of the harness.
const VARIABLES: &str = "env";
const VERSION: &str = "version";
/// The byte order mark that some editors write (U+FEFF).
const MARK: char = '\u{feff}';

/// Extensions of JSON accepted in settings files: comments and trailing commas, which users write. Every harness
/// rejects the other forms of JSON5.
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

/// How a harness writes hooks in its settings.
#[derive(Debug)]
pub(crate) struct SettingsForm {
    /// Whether the list of an event has groups with a matcher and a list of hooks; otherwise it has the hooks.
    pub(crate) is_grouped: bool,
    /// Key of a hook's command.
    pub(crate) command: &'static str,
    /// Key of the command on Windows if PowerShell runs it there; `None` where a shell of Unix does.
    pub(crate) powershell: Option<&'static str>,
    /// Key of a hook's time limit.
    pub(crate) timeout: &'static str,
    /// Its unit: how many make a second.
    pub(crate) units_per_second: u64,
    /// Events whose hook waits for a person's answer.
    pub(crate) waiting_events: &'static [&'static str],
    /// Value of `version` that a file of hooks has to have.
    pub(crate) version: Option<u64>,
    /// Key of the command that prints the status line; `None` if the harness has none.
    pub(crate) status_line: Option<&'static str>,
    /// Path and value of the switch with which the harness runs no hooks.
    pub(crate) disabled: (&'static [&'static str], bool),
    /// Message about that switch: a phrase that follows the file's name.
    pub(crate) if_disabled: &'static str,
    /// The same about comments and trailing commas; `None` where the harness takes them.
    pub(crate) if_commented: Option<&'static str>,
}

/// One of our hooks with its position.
#[derive(Debug)]
struct Ours {
    handler: HookHandler,
    /// The whole entry, to compare it.
    value: Value,
    entry: CstNode,
    /// The group that it is in, with the list of that.
    group: Option<(CstObject, CstArray)>,
}

/// The hooks of one event.
#[derive(Debug)]
struct Event {
    name: String,
    groups: CstArray,
}

/// A file of settings.
#[derive(Debug)]
pub(crate) struct Document {
    form: &'static SettingsForm,
    root: CstRootNode,
    is_marked: bool,
    /// Whether the text had nothing but comments and blanks.
    was_blank: bool,
    /// Whether it is plain JSON, or blank.
    is_strict: bool,
}

impl Document {
    /// Reads a text. One without any value counts as an empty object.
    ///
    /// # Errors
    /// Where it is no JSON object, or its `hooks` are no object of lists.
    pub(crate) fn parse(form: &'static SettingsForm, text: &str) -> Result<Self, SettingsError> {
        let (is_marked, text) = match text.strip_prefix(MARK) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        form::check(text, &SYNTAX)?;
        let root = CstRootNode::parse(text, &SYNTAX).map_err(|error| form::not_json(&error))?;
        let is_strict = text.trim().is_empty() || serde_json::from_str::<IgnoredAny>(text).is_ok();
        Ok(Self { form, was_blank: root.value().is_none(), root, is_marked, is_strict })
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

    /// Finds our hooks in the list of one event.
    fn ours_in(&self, groups: &CstArray) -> Vec<Ours> {
        let ours = |entry: CstNode, group: Option<(CstObject, CstArray)>| {
            let value = entry.to_serde_value()?;
            Some(Ours { handler: self.form.of_ours(&value)?, value, entry, group })
        };
        if !self.form.is_grouped {
            return groups.elements().into_iter().filter_map(|entry| ours(entry, None)).collect();
        }
        let groups = groups.elements().into_iter().filter_map(|group| group.as_object());
        let groups = groups.filter_map(|group| Some((group.clone(), group.array_value(HOOKS)?)));
        groups
            .flat_map(|(group, entries)| {
                let all = entries.elements().into_iter();
                all.filter_map(move |entry| ours(entry, Some((group.clone(), entries.clone()))))
            })
            .collect()
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
                self.ours_in(&event.groups).into_iter().map(move |ours| (event.name.clone(), ours.handler))
            })
            .collect()
    }

    fn disables_hooks(&self) -> bool {
        let (path, disabling) = self.form.disabled;
        let Some((switch, folders)) = path.split_last() else { return false };
        let folder = folders
            .iter()
            .try_fold(self.root.object_value(), |above, name| Some(above?.object_value(name)))
            .flatten();
        let switch = folder.and_then(|folder| folder.get(switch)?.value()?.as_boolean_lit());
        switch.is_some_and(|switch| switch.value() == disabling)
    }

    fn obstacles(&self) -> Vec<&'static str> {
        let comments = self.form.if_commented.filter(|_| !self.is_strict);
        let disabled = Some(self.form.if_disabled).filter(|_| self.disables_hooks());
        comments.into_iter().chain(disabled).collect()
    }

    fn install(&self, wanted: &[(&str, HookHandler)]) {
        let (mut there, mut taken) = (Vec::new(), Vec::new());
        for event in self.events() {
            let handler = wanted
                .iter()
                .find(|(name, _)| *name == event.name)
                .map(|(name, handler)| self.form.entry(name, handler));
            for ours in self.ours_in(&event.groups) {
                let is_right = handler.as_ref() == Some(&ours.value) && ours.takes_everything();
                if is_right && !there.contains(&event.name) {
                    there.push(event.name.clone());
                } else {
                    taken.push(event.name.clone());
                    ours.take_out(&event.groups);
                }
            }
        }
        for (event, handler) in wanted.iter().filter(|(event, _)| there.iter().all(|name| name != event)) {
            let root = self.root.object_value_or_set();
            if let Some(version) = self.form.version.filter(|_| root.get(VERSION).is_none()) {
                root.insert(0, VERSION, input(&json!(version)));
            }
            let entry = self.form.entry(event, handler);
            let entry = if self.form.is_grouped { json!({ HOOKS: [entry] }) } else { entry };
            root.object_value_or_set(HOOKS).array_value_or_set(event).append(input(&entry));
        }
        self.tidy(&|event| !taken.iter().any(|name| name == event), Keep::Yes);
    }

    fn status_line(&self) -> Option<String> {
        let value = self.root.object_value()?.get(self.form.status_line?)?.value()?.to_serde_value()?;
        let command = value.get("command").and_then(Value::as_str);
        Some(command.map_or_else(|| value.to_string(), str::to_owned))
    }

    fn set_status_line(&self, command: &str) {
        let Some(key) = self.form.status_line else { return };
        let value = input(&json!({ "type": "command", "command": command }));
        let root = self.root.object_value_or_set();
        match root.get(key) {
            Some(property) => property.set_value(value),
            None => {
                root.append(key, value);
            }
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        let variables = self.root.object_value()?.object_value(VARIABLES)?;
        variables.get(name)?.value()?.as_string_lit()?.decoded_value().ok()
    }

    fn set_variables(&self, wanted: &[(&str, String)]) {
        for (name, value) in wanted {
            if self.variable(name).as_ref() == Some(value) {
                continue;
            }
            // Leave a value that is not an object as it is.
            let root = self.root.object_value_or_set();
            let Some(variables) = root.object_value_or_create(VARIABLES) else { return };
            let value = CstInputValue::String(value.clone());
            match variables.get(name) {
                Some(property) => property.set_value(value),
                None => drop(variables.append(name, value)),
            }
        }
    }

    fn outline(&self) -> String {
        let lists = |hooks: CstObject| {
            let names = hooks.properties().into_iter().filter_map(|property| property.decoded_name());
            (HOOKS.to_owned(), names.map(|name| (name, json!([]))).collect::<Map<_, _>>().into())
        };
        let root = self.root.object_value();
        let variables = root.and_then(|root| root.get(VARIABLES)).map(|_| (VARIABLES.to_owned(), json!({})));
        Value::from_iter(self.hooks().map(lists).into_iter().chain(variables)).to_string()
    }

    fn status_line_outline(&self) -> String {
        let key = self.form.status_line.map(str::to_owned);
        let value =
            key.as_ref().and_then(|key| self.root.object_value()?.get(key)?.value()?.to_serde_value());
        Value::from_iter(key.zip(value)).to_string()
    }

    fn restore_status_line(&self, before: Option<&str>) {
        let (Some(key), Some(root)) = (self.form.status_line, self.root.object_value()) else { return };
        let Some(property) = root.get(key) else { return };
        let before = before.and_then(|text| Self::parse(self.form, text).ok());
        let old = before.and_then(|before| before.root.object_value()?.get(key)?.value()?.to_serde_value());
        match old {
            Some(old) => property.set_value(input(&old)),
            None => property.remove(),
        }
    }

    fn remove_variables(&self, ours: &[(&str, String)], before: Option<&str>) {
        let before = before.and_then(|text| Self::parse(self.form, text).ok());
        let Some(variables) = self.root.object_value().and_then(|root| root.object_value(VARIABLES)) else {
            return;
        };
        for (name, value) in ours {
            if self.variable(name).as_ref() == Some(value) {
                variables.get(name).into_iter().for_each(CstObjectProp::remove);
            }
        }
        let had = before.is_some_and(|before| {
            before.root.object_value().is_some_and(|root| root.get(VARIABLES).is_some())
        });
        if variables.properties().is_empty() && !had {
            let property = self.root.object_value().and_then(|root| root.get(VARIABLES));
            property.into_iter().for_each(CstObjectProp::remove);
        }
    }

    fn remove(&self, before: Option<&str>) {
        let before = before.and_then(|text| Self::parse(self.form, text).ok());
        let mut taken = Vec::new();
        for event in self.events() {
            for ours in self.ours_in(&event.groups) {
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

impl Ours {
    /// Removes the entry, and its group from the groups of its event if no other entry is left in it.
    fn take_out(self, groups: &CstArray) {
        self.entry.remove();
        match self.group {
            Some((group, entries)) if entries.elements().is_empty() => group.remove(),
            Some(_) => return,
            None => {}
        }
        close_up(groups);
    }

    /// Whether it runs for every tool, agent or reason.
    fn takes_everything(&self) -> bool {
        let Some(matcher) = self.group.as_ref().and_then(|(group, _)| group.get(MATCHER)) else {
            return true;
        };
        let matcher = matcher.value().and_then(|value| value.as_string_lit()?.decoded_value().ok());
        matcher.is_some_and(|matcher| matcher.is_empty() || matcher == "*")
    }
}

/// Removes the line end that our group added to a list that begins on the line of its bracket.
fn close_up(groups: &CstArray) {
    let children = groups.children();
    if children.get(1).is_none_or(|first| first.is_newline() || first.is_whitespace() || first.is_comment()) {
        return;
    }
    let blanks =
        children.into_iter().rev().skip(1).take_while(|child| child.is_newline() || child.is_whitespace());
    blanks.for_each(CstNode::remove);
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
