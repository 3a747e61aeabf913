//! `cargo xtask types`: TypeScript types of the page, made from the Rust model, so that there is one description of a row.
//!
//! Reads the model's source and not its running code: what serde does to names and absent values stands in attributes.
//! `web/src/model.ts` is committed; a test here fails where it is not what the model says.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use syn::{
    Attribute, Expr, Field, Fields, GenericArgument, Item, ItemEnum, ItemStruct, Lit, Meta, PathArguments,
    Type, punctuated::Punctuated, token::Comma,
};

use crate::step::{announce, root};

const FILE: &str = "web/src/model.ts";

/// What the page reads, in this order, by the file of the model that it stands in.
const WANTED: &[(&str, &[&str])] = &[
    ("basis", &["Basis"]),
    ("usage", &["Usage"]),
    ("problem", &["Problem"]),
    (
        "tree",
        &[
            "Session",
            "AgentStatus",
            "LivenessKind",
            "Liveness",
            "Flag",
            "ToolStatus",
            "ToolCall",
            "Subtree",
            "Agent",
            "Summary",
            "Tree",
        ],
    ),
    ("event", &["WORDS", "Event"]),
    ("list", &["SessionStatus", "SessionRow", "StatsRow", "Stats"]),
    ("hub", &["SessionPage", "Found", "Hits", "HubMode", "Health", "Ordered"]),
];

/// Writes the types.
pub(crate) fn write() -> Result<()> {
    announce(&format!("types: {FILE}"));
    fs::write(root().join(FILE), made()?).with_context(|| format!("cannot write {FILE}"))
}

fn made() -> Result<String> {
    let mut text = String::from("// Made by `cargo xtask types` from crates/model: edit that.\n");
    for (file, names) in WANTED {
        let path = root().join(format!("crates/model/src/{file}.rs"));
        let items = items(&path)?;
        for name in *names {
            let item = items.iter().find(|item| is_called(item, name));
            let item = item.with_context(|| format!("{} has no {name}", path.display()))?;
            text += "\n";
            text += &declared(item)?;
        }
    }
    Ok(text)
}

fn items(path: &Path) -> Result<Vec<Item>> {
    let source = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(syn::parse_file(&source).with_context(|| format!("cannot read {}", path.display()))?.items)
}

fn is_called(item: &Item, name: &str) -> bool {
    match item {
        Item::Struct(it) => it.ident == name,
        Item::Enum(it) => it.ident == name,
        Item::Const(it) => it.ident == name,
        _ => false,
    }
}

fn declared(item: &Item) -> Result<String> {
    match item {
        Item::Struct(it) => interface(it),
        Item::Enum(it) => Ok(words(it)),
        Item::Const(it) => kinds(&it.expr),
        _ => bail!("only structs, enums and the words of events are translated"),
    }
}

fn interface(item: &ItemStruct) -> Result<String> {
    let Fields::Named(fields) = &item.fields else { bail!("{} has no named fields", item.ident) };
    let mut text = format!("{}export interface {} {{\n", comment(&item.attrs, ""), item.ident);
    for field in &fields.named {
        let serde = Serde::of(&field.attrs)?;
        if serde.is_skipped {
            continue;
        }
        text += &comment(&field.attrs, "  ");
        text += &line(field, &serde)?;
    }
    Ok(text + "}\n")
}

fn line(field: &Field, serde: &Serde) -> Result<String> {
    let own = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let name = serde.rename.clone().unwrap_or(own);
    let written = translated(&field.ty)?;
    // What is left out when it is nothing is never null.
    Ok(if serde.is_optional {
        format!("  {name}?: {};\n", written.trim_end_matches(" | null"))
    } else {
        format!("  {name}: {written};\n")
    })
}

fn words(item: &ItemEnum) -> String {
    let words: Vec<String> = item
        .variants
        .iter()
        .map(|variant| format!("\"{}\"", variant.ident.to_string().to_lowercase()))
        .collect();
    format!("{}export type {} = {};\n", comment(&item.attrs, ""), item.ident, words.join(" | "))
}

/// The kinds of events are serialised by the words of a table: pairs of kind and word.
fn kinds(table: &Expr) -> Result<String> {
    let Expr::Array(rows) = table else { bail!("the words of events are no array") };
    let mut words = Vec::new();
    for row in &rows.elems {
        let Expr::Tuple(pair) = row else { bail!("a word of events is no pair") };
        let Some(Expr::Lit(word)) = pair.elems.last() else { bail!("a word of events is no text") };
        let Lit::Str(word) = &word.lit else { bail!("a word of events is no text") };
        words.push(format!("  | \"{}\"", word.value()));
    }
    Ok(format!("/** What an event is about. */\nexport type EventKind =\n{};\n", words.join("\n")))
}

/// What serde makes of a field.
#[derive(Default)]
struct Serde {
    rename: Option<String>,
    is_skipped: bool,
    is_optional: bool,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut serde = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            for meta in attribute.parse_args_with(Punctuated::<Meta, Comma>::parse_terminated)? {
                if meta.path().is_ident("skip") {
                    serde.is_skipped = true;
                } else if meta.path().is_ident("skip_serializing_if") {
                    serde.is_optional = true;
                } else if let Meta::NameValue(pair) = &meta
                    && pair.path.is_ident("rename")
                    && let Expr::Lit(word) = &pair.value
                    && let Lit::Str(word) = &word.lit
                {
                    serde.rename = Some(word.value());
                } else if !meta.path().is_ident("default") {
                    bail!("this chore does not know what serde makes of {:?}", meta.path().get_ident());
                }
            }
        }
        Ok(serde)
    }
}

fn translated(of: &Type) -> Result<String> {
    match of {
        Type::Array(array) => {
            let Expr::Lit(length) = &array.len else { bail!("an array's length is no number") };
            let Lit::Int(length) = &length.lit else { bail!("an array's length is no number") };
            Ok(format!("[{}]", vec![translated(&array.elem)?; length.base10_parse()?].join(", ")))
        }
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { bail!("a type without a name") };
            let inner: Vec<&Type> = match &last.arguments {
                PathArguments::AngleBracketed(all) => {
                    let types = all.args.iter().filter_map(|argument| match argument {
                        GenericArgument::Type(of) => Some(of),
                        _ => None,
                    });
                    types.collect()
                }
                PathArguments::None | PathArguments::Parenthesized(_) => Vec::new(),
            };
            named(&last.ident.to_string(), &inner)
        }
        _ => bail!("this chore does not know such a type"),
    }
}

fn named(name: &str, inner: &[&Type]) -> Result<String> {
    Ok(match (name, inner) {
        ("Text" | "String" | "SessionId" | "AgentId" | "ToolUseId" | "Actor", []) => "string".to_owned(),
        ("u32" | "u64" | "i64" | "usize" | "Millis" | "MicroUsd", []) => "number".to_owned(),
        ("bool", []) => "boolean".to_owned(),
        ("Value", []) => "Record<string, unknown>".to_owned(),
        ("Option", [one]) => format!("{} | null", translated(one)?),
        ("Vec", [one]) => format!("{}[]", translated(one)?),
        ("BTreeMap", [_, one]) => format!("Record<string, {}>", translated(one)?),
        (name, []) if WANTED.iter().any(|(_, names)| names.contains(&name)) => name.to_owned(),
        ("EventKind", []) => name.to_owned(),
        (name, _) => bail!("the page's types have no {name}"),
    })
}

/// The first sentence of what the model says of it.
fn comment(attributes: &[Attribute], indent: &str) -> String {
    let words: Vec<String> = attributes.iter().filter_map(said).collect();
    let all = words.join(" ");
    let first = all.split_inclusive(". ").next().unwrap_or_default().trim();
    if first.is_empty() { String::new() } else { format!("{indent}/** {first} */\n") }
}

fn said(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(text) = &pair.value else { return None };
    match &text.lit {
        Lit::Str(text) if pair.path.is_ident("doc") => Some(text.value().trim().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_types_are_what_the_model_says() {
        let committed = fs::read_to_string(root().join(FILE)).unwrap();
        assert!(committed == made().unwrap(), "{FILE} is not what the model says: `cargo xtask types`");
    }

    #[test]
    fn serde_attributes_are_followed() {
        let item = syn::parse_str(
            "struct S { #[serde(rename = \"type\")] kind: Option<Text>, #[serde(skip)] gone: Other,
             #[serde(default, skip_serializing_if = \"Option::is_none\")] rev: Option<u64>, spans: Vec<[Millis; 2]> }",
        )
        .unwrap();
        let text = interface(&item).unwrap();
        assert_eq!(
            text,
            "export interface S {\n  type: string | null;\n  rev?: number;\n  spans: [number, number][];\n}\n"
        );
        let unknown = syn::parse_str("struct S { #[serde(flatten)] all: Text }").unwrap();
        assert!(interface(&unknown).is_err());
    }
}
