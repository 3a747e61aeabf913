//! Documentation of the settings, generated from their definition in `crates/cli/src/config/settings.rs`: the JSON
//! Schema, the table of the book, and the sample file that the help of `subscope config` shows.
//!
//! All three are committed. A test of `cli` compares the schema with the definition; one here compares the other two
//! with the schema.

use std::{fmt::Write as _, fs};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::step::{announce, cargo, output, root};

const SCHEMA: &str = "docs/config.schema.json";
const SAMPLE: &str = "crates/cli/data/config.toml";
const PAGE: &str = "docs/src/configuration.md";
/// Head of the page's table, which ends with an empty line.
const TABLE: &str = "| key | default | in a project | |\n|---|---|---|---|\n";
/// Columns of the sample's comments.
const WIDTH: usize = 90;

/// Writes the documentation.
pub(crate) fn write() -> Result<()> {
    announce(&format!("types: {SCHEMA}, {SAMPLE}, {PAGE}"));
    let schema = output(cargo().args(["run", "--quiet", "--package", "subscope", "--", "config", "schema"]))?;
    save(SCHEMA, &schema)?;
    let page = with_table(&read(PAGE)?, &schema)?;
    save(PAGE, &page)?;
    save(SAMPLE, &sample(&schema)?)
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))
}

fn save(file: &str, text: &str) -> Result<()> {
    fs::write(root().join(file), text).with_context(|| format!("cannot write {file}"))
}

/// One setting of the schema.
struct Setting<'s> {
    section: Option<&'s str>,
    name: &'s str,
    schema: &'s Value,
}

impl Setting<'_> {
    /// Returns what the setting is, and its words.
    fn about(&self) -> String {
        let about =
            self.schema["description"].as_str().unwrap_or_default().trim_end_matches('.').replace('\n', " ");
        let list = ["enum", "oneOf"].into_iter().find_map(|key| self.schema[key].as_array());
        let words: Vec<String> = list
            .into_iter()
            .flatten()
            .map(|word| format!("`{}`", word.get("const").unwrap_or(word)))
            .collect();
        if words.is_empty() { about } else { format!("{about} ({})", words.join(", ")) }
    }
}

fn settings(schema: &Value) -> Result<Vec<Setting<'_>>> {
    let mut all = Vec::new();
    for (name, schema) in schema["properties"].as_object().context("the schema has no properties")? {
        match schema["properties"].as_object() {
            Some(section) => all.extend(section.iter().map(|(inner, schema)| Setting {
                section: Some(name),
                name: inner,
                schema,
            })),
            None => all.push(Setting { section: None, name, schema }),
        }
    }
    Ok(all)
}

/// Returns the page with its table of settings generated again.
fn with_table(page: &str, schema: &str) -> Result<String> {
    let (before, rest) = page.split_once(TABLE).context("the page has no table of settings")?;
    let (_, after) = rest.split_once("\n\n").context("the page's table of settings has no end")?;
    let schema = serde_json::from_str(schema).context("the schema is no JSON")?;
    let row = |setting: &Setting<'_>| {
        let key = setting.section.map(|section| format!("{section}.")).unwrap_or_default() + setting.name;
        let default = &setting.schema["default"];
        let default = if default.is_null() { "not set".to_owned() } else { format!("`{default}`") };
        let in_project = match setting.schema["x-project"].as_str() {
            Some("any") => "yes".to_owned(),
            Some(value) => format!("only `{value}`"),
            None => "no".to_owned(),
        };
        format!("| `{key}` | {default} | {in_project} | {} |", setting.about())
    };
    let rows: Vec<String> = settings(&schema)?.iter().map(row).collect();
    Ok(format!("{before}{TABLE}{}\n\n{after}", rows.join("\n")))
}

/// Returns a settings file with a value of each setting: an example, or the default.
fn sample(schema: &str) -> Result<String> {
    let schema: Value = serde_json::from_str(schema).context("the schema is no JSON")?;
    let mut out = String::new();
    let mut section = None;
    for setting in settings(&schema)? {
        if setting.section != section {
            section = setting.section;
            writeln!(out, "\n[{}]", section.unwrap_or_default())?;
        }
        let mut line = String::from("#");
        for word in setting.about().replace('`', "").split_whitespace() {
            if line.len() + word.len() >= WIDTH {
                writeln!(out, "{line}")?;
                "#".clone_into(&mut line);
            }
            write!(line, " {word}")?;
        }
        let value = setting.schema["examples"].get(0).unwrap_or(&setting.schema["default"]);
        writeln!(out, "{line}\n{} = {value}", setting.name)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_documentation_is_what_the_schema_says() {
        let (schema, page) = (read(SCHEMA).unwrap(), read(PAGE).unwrap());
        assert!(with_table(&page, &schema).unwrap() == page, "{PAGE}: `cargo xtask types`");
        assert!(sample(&schema).unwrap() == read(SAMPLE).unwrap(), "{SAMPLE}: `cargo xtask types`");
    }
}
