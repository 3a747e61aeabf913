//! `cargo xtask types`: generates the types of the page and of the client libraries from the Rust model.
//!
//! Parses the model's source, including serde attributes for names and absent values. The generated files are committed;
//! a test here fails if one is out of date.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use syn::{
    Attribute, Expr, Field, Fields, GenericArgument, Item, ItemConst, ItemEnum, ItemStruct, Lit, Meta,
    PathArguments, Type, TypeParam, punctuated::Punctuated, token::Comma,
};

use crate::clients;
use crate::step::{announce, root};

/// The generated types in order, by source file of the model.
const WANTED: &[(&str, &[&str])] = &[
    ("basis", &["Basis"]),
    ("usage", &["Usage"]),
    ("problem", &["Problem"]),
    ("attention", &["Attention"]),
    ("need", &["NeedGroup", "NeedReason", "AgentNeed", "SessionNeed"]),
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
            "VendorUnit",
            "VendorCost",
            "Summary",
            "Tree",
        ],
    ),
    ("event", &["WORDS", "Event"]),
    ("feed", &["Change", "MissedData"]),
    ("setup", &["Setup"]),
    ("snapshot", &["ContentLevel"]),
    ("remote", &["RemoteMachine"]),
    ("sending", &["Sending"]),
    ("spending", &["SpendingSpan", "Spending"]),
    (
        "list",
        &[
            "SessionStatus",
            "SessionRow",
            "StatsRow",
            "StatsGroup",
            "DayGroup",
            "SlowCall",
            "TopRow",
            "ConcurrencySpan",
            "Concurrency",
            "Stats",
        ],
    ),
    (
        "hub",
        &[
            "SessionPage",
            "IdMatches",
            "AgentName",
            "FacetCount",
            "Facets",
            "SearchHit",
            "Hits",
            "HubMode",
            "Forwarding",
            "ReadingProgress",
            "Health",
            "StopChannel",
            "Ordered",
        ],
    ),
    ("inbox", &["InboxEntry", "Inbox"]),
    ("jump", &["JumpOutcome", "Jumped"]),
    (
        "permission",
        &[
            "PermissionRequest",
            "PermissionRequests",
            "PermissionBehavior",
            "AgentQuestion",
            "QuestionOption",
            "PermissionDecision",
            "PermissionAnswered",
        ],
    ),
    ("comparison", &["Side", "Likeness", "ComparedAgent", "AgentPair", "Calls", "ToolPair", "Comparison"]),
    ("iteration", &["IterationStatus", "IterationMeta", "Iteration", "Iterations"]),
];

/// Writes the types.
pub(crate) fn write() -> Result<()> {
    for (file, text) in generated()? {
        announce(&format!("types: {file}"));
        fs::write(root().join(file), text).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

/// Returns the generated files with their texts. The page uses the types of the TypeScript library.
fn generated() -> Result<[(&'static str, String); 2]> {
    clients::generated(&generate()?)
}

fn generate() -> Result<String> {
    let mut text = String::from("// Made by `cargo xtask types` from crates/model: edit that.\n");
    for (file, names) in WANTED {
        let path = root().join(format!("crates/model/src/{file}.rs"));
        let items = items(&path)?;
        for name in *names {
            let item = items.iter().find(|item| has_name(item, name));
            let item = item.with_context(|| format!("{} has no {name}", path.display()))?;
            text += "\n";
            text += &declaration(item)?;
        }
    }
    Ok(text)
}

pub(crate) fn items(path: &Path) -> Result<Vec<Item>> {
    let source = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(syn::parse_file(&source).with_context(|| format!("cannot read {}", path.display()))?.items)
}

fn has_name(item: &Item, name: &str) -> bool {
    matches!(item, Item::Struct(ItemStruct { ident, .. }) | Item::Enum(ItemEnum { ident, .. }) | Item::Const(ItemConst { ident, .. }) if ident == name)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum of all items, of which few are translated"
)]
fn declaration(item: &Item) -> Result<String> {
    match item {
        Item::Struct(it) => interface(it),
        Item::Enum(it) => Ok(words(it)),
        Item::Const(it) => kinds(&it.expr),
        _ => bail!("only structs, enums and the words of events are translated"),
    }
}

fn interface(item: &ItemStruct) -> Result<String> {
    let Fields::Named(fields) = &item.fields else { bail!("{} has no named fields", item.ident) };
    let (mut lines, mut parents) = (String::new(), Vec::new());
    for field in &fields.named {
        let serde = Serde::of(&field.attrs)?;
        if serde.is_skipped {
            continue;
        }
        if serde.is_flat {
            parents.push(translate_type(type_of(field, item))?);
            continue;
        }
        lines += &comment(&field.attrs, "  ");
        lines += &line(field, type_of(field, item), &serde)?;
    }
    let parents = if parents.is_empty() { String::new() } else { format!(" extends {}", parents.join(", ")) };
    Ok(format!("{}export interface {}{parents} {{\n{lines}}}\n", comment(&item.attrs, ""), item.ident))
}

/// Returns the type of a field; that of a type parameter is the parameter's default.
fn type_of<'i>(field: &'i Field, item: &'i ItemStruct) -> &'i Type {
    let is_own =
        |param: &&TypeParam| matches!(&field.ty, Type::Path(path) if path.path.is_ident(&param.ident));
    item.generics.type_params().find(is_own).and_then(|param| param.default.as_ref()).unwrap_or(&field.ty)
}

fn line(field: &Field, of: &Type, serde: &Serde) -> Result<String> {
    let own = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let name = serde.rename.clone().unwrap_or(own);
    let written = translate_type(of)?;
    // A field that is omitted when empty is never null.
    Ok(if serde.is_optional {
        format!("  {name}?: {};\n", written.trim_end_matches(" | null"))
    } else {
        format!("  {name}: {written};\n")
    })
}

fn words(item: &ItemEnum) -> String {
    let is_snake_case = item.attrs.iter().any(|attribute| {
        matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string().contains("snake_case"))
    });
    let word = |name: String| {
        let inner = |at: usize, letter: char| is_snake_case && at > 0 && letter.is_uppercase();
        let split = name.char_indices().flat_map(|(at, letter)| {
            let gap = inner(at, letter).then_some('_');
            gap.into_iter().chain(letter.to_lowercase())
        });
        format!("\"{}\"", split.collect::<String>())
    };
    let words: Vec<String> = item.variants.iter().map(|variant| word(variant.ident.to_string())).collect();
    format!("{}export type {} = {};\n", comment(&item.attrs, ""), item.ident, words.join(" | "))
}

/// Event kinds are serialized by a table of pairs of kind and word.
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

/// Serde attributes of a field.
#[derive(Default)]
struct Serde {
    rename: Option<String>,
    is_skipped: bool,
    is_optional: bool,
    /// Its fields are those of the struct.
    is_flat: bool,
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
                } else if meta.path().is_ident("flatten") {
                    serde.is_flat = true;
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

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum of all types, of which few are translated"
)]
pub(crate) fn translate_type(of: &Type) -> Result<String> {
    match of {
        Type::Array(array) => {
            let Expr::Lit(length) = &array.len else { bail!("an array's length is no number") };
            let Lit::Int(length) = &length.lit else { bail!("an array's length is no number") };
            Ok(format!("[{}]", vec![translate_type(&array.elem)?; length.base10_parse()?].join(", ")))
        }
        Type::Slice(slice) => Ok(format!("{}[]", translate_type(&slice.elem)?)),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { bail!("a type without a name") };
            let inner: Vec<&Type> = match &last.arguments {
                PathArguments::AngleBracketed(all) => all.args.iter().filter_map(type_argument).collect(),
                PathArguments::None | PathArguments::Parenthesized(_) => Vec::new(),
            };
            translate_path(&last.ident.to_string(), &inner)
        }
        _ => bail!("this chore does not know such a type"),
    }
}

fn type_argument(argument: &GenericArgument) -> Option<&Type> {
    if let GenericArgument::Type(of) = argument { Some(of) } else { None }
}

fn translate_path(name: &str, inner: &[&Type]) -> Result<String> {
    Ok(match (name, inner) {
        ("Text" | "String" | "SessionId" | "AgentId" | "ToolUseId" | "Actor" | "EventSchema", []) => {
            "string".to_owned()
        }
        ("u32" | "u64" | "i32" | "i64" | "usize" | "Millis" | "MicroUsd", []) => "number".to_owned(),
        ("bool", []) => "boolean".to_owned(),
        ("Value", []) => "Record<string, unknown>".to_owned(),
        ("Option", [one]) => format!("{} | null", translate_type(one)?),
        // Written as what it holds.
        ("Box", [one]) => translate_type(one)?,
        ("Vec", [one]) => format!("{}[]", translate_type(one)?),
        ("BTreeMap", [_, one]) => format!("Record<string, {}>", translate_type(one)?),
        (name, []) if WANTED.iter().any(|(_, names)| names.contains(&name)) => name.to_owned(),
        ("EventKind", []) => name.to_owned(),
        (name, _) => bail!("the page's types have no {name}"),
    })
}

/// Returns the first sentence of the doc comment.
pub(crate) fn comment(attributes: &[Attribute], indent: &str) -> String {
    let words: Vec<String> = attributes.iter().filter_map(doc_line).collect();
    let all = words.join(" ");
    let first = all.split_inclusive(". ").next().unwrap_or_default().trim();
    if first.is_empty() { String::new() } else { format!("{indent}/** {first} */\n") }
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(text) = &pair.value else { return None };
    let Lit::Str(text) = &text.lit else { return None };
    pair.path.is_ident("doc").then(|| text.value().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_types_are_what_the_model_says() {
        for (file, text) in generated().unwrap() {
            let committed = fs::read_to_string(root().join(file)).unwrap();
            assert!(committed == text, "{file} is not what the model says: `cargo xtask types`");
        }
    }

    #[test]
    fn serde_attributes_are_followed() {
        let item = syn::parse_str(
            "struct S<D = Value> { #[serde(flatten)] meta: IterationMeta, #[serde(rename = \"type\")] kind: Option<Text>, #[serde(skip)] gone: Other,
             #[serde(default, skip_serializing_if = \"Option::is_none\")] rev: Option<u64>, spans: Vec<[Millis; 2]>, files: Box<[Text]>, data: D }",
        )
        .unwrap();
        let text = interface(&item).unwrap();
        assert_eq!(
            text,
            "export interface S extends IterationMeta {\n  type: string | null;\n  rev?: number;\n  spans: [number, number][];\n  files: string[];\n  data: Record<string, unknown>;\n}\n"
        );
        for (rule, written) in [("lowercase", "aunit"), ("snake_case", "a_unit")] {
            let item = format!("#[serde(rename_all = \"{rule}\")] enum E {{ AUnit, Other }}");
            let item = syn::parse_str(&item).unwrap();
            assert_eq!(words(&item), format!("export type E = \"{written}\" | \"other\";\n"));
        }
        let unknown = syn::parse_str("struct S { #[serde(with = \"other\")] all: Text }").unwrap();
        assert!(interface(&unknown).is_err());
    }
}
