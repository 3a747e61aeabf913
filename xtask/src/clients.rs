//! The client libraries for Python and TypeScript: their types, generated from `model` and from the events that
//! programs publish, and `cargo xtask clients`, which tests both, and the extension for VS Code, against the real program.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

use anyhow::{Context, Result, bail};
use syn::{Field, Fields, Item, ItemEnum, ItemStruct};

use crate::step::{announce, cargo, output, program, root, run, skip, target_folder};
use crate::types::{comment, items, translate_type};
use crate::{npm, pypi, vscode};

const TYPESCRIPT: &str = "clients/typescript/src/model.ts";
const PYTHON: &str = "clients/python/src/subscope_client/model.py";
/// The events that programs publish.
const PUBLISHED: &str = "crates/client/src/publish/event.rs";
const MYPY: (&str, &str) = ("mypy", "1.18.2");
pub(crate) const TSC: (&str, &str) = ("typescript", "5.9.3");

/// Returns the generated files with their texts; `model` is TypeScript of the data model.
pub(crate) fn generated(model: &str) -> Result<[(&'static str, String); 2]> {
    let typescript = format!("{model}{}", published()?);
    let python = python(&typescript)?;
    Ok([(TYPESCRIPT, typescript), (PYTHON, python)])
}

/// Returns the types of published events as TypeScript.
fn published() -> Result<String> {
    let items = items(&root().join(PUBLISHED))?;
    let named = |name: &str| {
        let found = items.iter().find(|item| {
            matches!(item, Item::Struct(ItemStruct { ident, .. }) | Item::Enum(ItemEnum { ident, .. }) if ident == name)
        });
        found.with_context(|| format!("{PUBLISHED} has no {name}"))
    };
    let (Item::Enum(kinds), Item::Struct(usage), Item::Struct(event)) =
        (named("EventKind")?, named("TokenUsage")?, named("Event")?)
    else {
        bail!("{PUBLISHED} has other items than expected");
    };
    let words: Vec<String> =
        kinds.variants.iter().map(|kind| format!("\"{}\"", snake_case(&kind.ident.to_string()))).collect();
    let (required, optional) = fields(event)?;
    let (_, usage) = fields(usage)?;
    Ok(format!(
        "\n/** Kind of a published event. */\nexport type PublishedEventKind = {};\n\
         \n/** Tokens of a model response, as published. */\nexport interface PublishedTokenUsage {{\n{usage}}}\n\
         \n/** What a published event may have besides its required fields. */\nexport interface PublishedFields {{\n{optional}}}\n\
         \n/** An event that a program publishes about its own subagent. */\n\
         export interface PublishedEvent extends PublishedFields {{\n{required}}}\n",
        words.join(" | ")
    ))
}

/// Returns the required and the optional fields of a struct.
fn fields(item: &ItemStruct) -> Result<(String, String)> {
    let Fields::Named(fields) = &item.fields else { bail!("{} has no named fields", item.ident) };
    let (mut required, mut optional) = (String::new(), String::new());
    for field in &fields.named {
        let own = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
        let (name, written) = match own.as_str() {
            "timestamp_ms" => ("timestamp".to_owned(), "number | string".to_owned()),
            "kind" => ("type".to_owned(), "PublishedEventKind".to_owned()),
            "token_usage" => ("tokenUsage".to_owned(), "PublishedTokenUsage".to_owned()),
            _ => (camel_case(&own), translate_type(&field.ty)?.trim_end_matches(" | null").to_owned()),
        };
        let is_optional = is_skipped_if_empty(field);
        let (out, mark) = if is_optional { (&mut optional, "?") } else { (&mut required, "") };
        writeln!(out, "{}  {name}{mark}: {written};", comment(&field.attrs, "  "))?;
    }
    Ok((required, optional))
}

fn is_skipped_if_empty(field: &Field) -> bool {
    let mut is_skipped = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        // Other attributes have values that are read over.
        let _ = attribute.parse_nested_meta(|meta| {
            is_skipped |= meta.path.is_ident("skip_serializing_if");
            meta.value().and_then(|value| value.parse::<syn::Expr>()).map(drop).or(Ok(()))
        });
    }
    is_skipped
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        out.push_str(&first.to_uppercase());
        out.push_str(rest);
    }
    out
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// Translates the generated TypeScript, which has only interfaces and unions of words, to Python.
fn python(typescript: &str) -> Result<String> {
    let mut out = String::from(
        "\"\"\"Types of the hub's JSON. Made by `cargo xtask types` from crates/model: edit that.\"\"\"\n\n\
         from __future__ import annotations\n\nfrom typing import Any, Literal, NotRequired, TypedDict\n",
    );
    let mut doc = String::new();
    let mut union: Option<(String, String)> = None;
    for line in typescript.lines().skip(1) {
        let trimmed = line.trim();
        if let Some((name, mut words)) = union.take() {
            words.push_str(trimmed);
            match words.strip_suffix(';') {
                Some(all) => write!(out, "\n{name} = Literal[{}]\n", literals(all))?,
                None => union = Some((name, words)),
            }
        } else if let Some(text) = trimmed.strip_prefix("/** ") {
            text.trim_end_matches(" */").clone_into(&mut doc);
            if line.starts_with("  ") {
                writeln!(out, "    # {doc}")?;
            }
        } else if let Some(rest) = trimmed.strip_prefix("export type ") {
            let (name, words) = rest.split_once('=').context("a type without a value")?;
            match words.trim().strip_suffix(';') {
                Some(all) => write!(out, "\n# {doc}\n{} = Literal[{}]\n", name.trim(), literals(all))?,
                None => {
                    write!(out, "\n# {doc}")?;
                    union = Some((name.trim().to_owned(), words.trim().to_owned()));
                }
            }
        } else if let Some(rest) = trimmed.strip_prefix("export interface ") {
            let head = rest.trim_end_matches('{').trim();
            let (name, parents) = head.split_once(" extends ").unwrap_or((head, "TypedDict"));
            write!(out, "\n\nclass {name}({parents}):\n    \"\"\"{doc}\"\"\"\n\n")?;
        } else if let Some(field) = trimmed.strip_suffix(';') {
            let (name, kind) = field.split_once(": ").context("a field without a type")?;
            match name.strip_suffix('?') {
                Some(name) => writeln!(out, "    {name}: NotRequired[{}]", python_type(kind)?)?,
                None => writeln!(out, "    {name}: {}", python_type(kind)?)?,
            }
        } else if !matches!(trimmed, "" | "}") {
            bail!("no Python for {line:?}");
        }
    }
    Ok(out)
}

/// Returns the words of a union, separated by commas.
fn literals(union: &str) -> String {
    let words: Vec<&str> = union.split('|').map(str::trim).filter(|word| !word.is_empty()).collect();
    words.join(", ")
}

fn python_type(of: &str) -> Result<String> {
    if let Some(one) = of.strip_suffix("[]") {
        return Ok(format!("list[{}]", python_type(one)?));
    }
    if let Some(value) = of.strip_prefix("Record<string, ").and_then(|rest| rest.strip_suffix('>')) {
        return Ok(format!("dict[str, {}]", python_type(value)?));
    }
    if let Some(items) = of.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let first = items.split(", ").next().context("an empty tuple")?;
        return Ok(format!("list[{}]", python_type(first)?));
    }
    if let Some((one, rest)) = of.split_once(" | ") {
        return Ok(format!("{} | {}", python_type(one)?, python_type(rest)?));
    }
    Ok(match of {
        "string" => "str",
        "number" => "int",
        "boolean" => "bool",
        "null" => "None",
        "unknown" => "Any",
        name if name.chars().all(char::is_alphanumeric) => name,
        _ => bail!("no Python for the type {of:?}"),
    }
    .to_owned())
}

/// A hub of the real program; ended with this value.
struct Hub {
    process: Child,
    url: String,
}

impl Hub {
    fn start(folder: &Path) -> Result<Self> {
        let binary = target_folder()?.join("debug/subscope");
        let mut command = program(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(folder.join("data"));
        command.env("HOME", folder).stdout(Stdio::piped()).stdin(Stdio::null());
        let mut process = command.spawn().context("cannot start subscope")?;
        let stdout = process.stdout.take().context("subscope has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        let url = url.with_context(|| format!("no address in {line:?}"))?.to_owned();
        Ok(Self { process, url })
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Checks the types of both libraries and of the extension, and runs their tests against hubs of the real program.
pub(crate) fn test() -> Result<()> {
    output(cargo().args(["build", "--quiet", "--package", "subscope"]))?;
    let target = target_folder()?;
    let folder = target.join("clients");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let hub = Hub::start(&folder)?;
    let sources = root().join("clients/python/src");
    match pypi::install(
        Path::new("python3"),
        &target.join("pypi").join(format!("{}-{}", MYPY.0, MYPY.1)),
        &[&format!("{}=={}", MYPY.0, MYPY.1)],
    )? {
        Ok(commands) => {
            let mut mypy = program(commands.join("mypy"));
            mypy.args(["--strict", "--no-error-summary", "--cache-dir"]).arg(target.join("mypy"));
            run("clients: Python types", mypy.arg(&sources))?;
        }
        Err(reason) => skip("clients: Python types", &reason),
    }
    let mut tests = program("python3");
    tests.args(["-m", "unittest", "discover", "--start-directory", "clients/python/tests"]);
    tests.env("PYTHONPATH", &sources).env("PYTHONDONTWRITEBYTECODE", "1").env("SUBSCOPE_TEST_HUB", &hub.url);
    run("clients: Python", &mut tests)?;
    let modules = match npm::install(&target.join("npm").join(format!("{}-{}", TSC.0, TSC.1)), TSC.0, TSC.1)?
    {
        Ok(modules) => modules,
        Err(reason) => {
            skip("clients: TypeScript", &reason);
            return vscode::test(&target.join("debug/subscope"));
        }
    };
    announce("clients: TypeScript types");
    output(
        program("node").arg(modules.join("typescript/bin/tsc")).args(["--project", "clients/typescript"]),
    )?;
    let mut tests = program("node");
    tests.args(["--test", "clients/typescript/test/hub.test.mjs"]).env("SUBSCOPE_TEST_HUB", &hub.url);
    run("clients: TypeScript", &mut tests)?;
    vscode::test(&target.join("debug/subscope"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_and_unions_become_python() {
        let typescript = "// Made.\n\n/** A word. */\nexport type W = \"a\" | \"b\";\n\n/** More. */\nexport type M =\n  | \"c\"\n  | \"d\";\n\n/** It. */\nexport interface I extends P {\n  /** Its id. */\n  id: string | null;\n  spans?: [number, number][];\n  all: Record<string, unknown>;\n}\n";
        let python = python(typescript).unwrap();
        for part in [
            "# A word.\nW = Literal[\"a\", \"b\"]\n",
            "M = Literal[\"c\", \"d\"]\n",
            "class I(P):\n    \"\"\"It.\"\"\"\n\n    # Its id.\n    id: str | None\n    spans: NotRequired[list[list[int]]]\n    all: dict[str, Any]\n",
        ] {
            assert!(python.contains(part), "{part}\n{python}");
        }
    }

    #[test]
    fn names_are_written_as_in_json() {
        assert_eq!(
            (camel_case("subagent_run_id"), snake_case("SubagentStart")),
            ("subagentRunId".into(), "subagent_start".into())
        );
        let published = published().unwrap();
        assert!(
            published.contains("  subagentRunId: string;\n") && published.contains("  toolName?: string;\n")
        );
        assert!(published.contains("  isError?: boolean;\n") && published.contains("\"thought_trace\""));
    }
}
