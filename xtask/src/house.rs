//! Rules about names and pictures: type names defined more than once, and the picture of the crates in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::edges;

/// Largest share of type names that are defined more than once, in percent.
const MOST_SHARED_NAMES: usize = 7;

/// Crates of tests and chores: their names are not counted, and the picture leaves them out.
const NOT_SHIPPED: [&str; 3] = ["testkit", "rig", "xtask"];

/// The picture's file, and the lines around it.
const PICTURE: (&str, &str, &str) = ("ARCHITECTURE.md", "<!-- crates -->", "<!-- /crates -->");

/// State of the hub's thread: its file, its type, and its most fields. What belongs to one session is in the session table.
const LOOP_STATE: (&str, &str, usize) = ("crates/hub/src/event_loop.rs", "struct EventLoop {", 15);

/// Returns the findings, one sentence each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut sources = Vec::new();
    for folder in fs::read_dir(root.join("crates")).context("cannot list crates")? {
        let folder = folder?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !NOT_SHIPPED.contains(&name.as_str()) {
            read_sources(&folder.join("src"), &mut sources)?;
        }
    }
    let mut findings: Vec<String> = shared_names(&sources).into_iter().collect();
    let text =
        fs::read_to_string(root.join(PICTURE.0)).with_context(|| format!("cannot read {}", PICTURE.0))?;
    findings.extend(compare_picture(&text, &edges::dependencies()?));
    let state = fs::read_to_string(root.join(LOOP_STATE.0))
        .with_context(|| format!("cannot read {}", LOOP_STATE.0))?;
    findings.extend(count_fields(&state));
    Ok(findings)
}

/// Returns a finding if the event loop has too many fields, or is not found.
fn count_fields(source: &str) -> Option<String> {
    let (file, head, most) = LOOP_STATE;
    let body = source.split_once(head).and_then(|(_, rest)| Some(rest.split_once("\n}")?.0));
    let is_field = |line: &&str| line.starts_with("    ") && !line.trim_start().starts_with("//");
    match body.map(|body| body.lines().filter(is_field).count()) {
        Some(count) if count <= most => None,
        Some(count) => Some(format!("{file}: `{head}` has {count} fields, more than {most}")),
        None => Some(format!("{file} has no `{head}`")),
    }
}

fn read_sources(folder: &Path, sources: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            read_sources(&path, sources)?;
        } else if name.ends_with(".rs") && name != "tests.rs" {
            sources
                .push(fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?);
        }
    }
    Ok(())
}

/// Returns a finding if too many type names are defined more than once.
fn shared_names(sources: &[String]) -> Option<String> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for name in product.lines().filter_map(defined_type) {
            *names.entry(name).or_default() += 1;
        }
    }
    let shared: Vec<&str> = names.iter().filter(|(_, count)| **count > 1).map(|(name, _)| *name).collect();
    let is_too_much = shared.len() * 100 > names.len() * MOST_SHARED_NAMES;
    is_too_much.then(|| {
        format!(
            "{} of {} type names are defined more than once, more than {MOST_SHARED_NAMES} %: {}",
            shared.len(),
            names.len(),
            shared.join(", ")
        )
    })
}

/// Returns the name of the type that a line defines. An indented `type` belongs to a trait or its implementation.
fn defined_type(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    let public = match trimmed.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => trimmed,
    };
    let mut words = public.split_whitespace();
    let is_type = match words.next()? {
        "struct" | "enum" | "trait" => true,
        "type" => trimmed.len() == line.len(),
        _ => false,
    };
    let name = words.next().filter(|_| is_type)?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    name.get(..end).filter(|name| !name.is_empty())
}

/// Compares the lines `crate → dependencies` of the picture with the manifests.
fn compare_picture(text: &str, dependencies: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let (file, begin, end) = PICTURE;
    let Some(picture) = text.split_once(begin).and_then(|(_, rest)| Some(rest.split_once(end)?.0)) else {
        return vec![format!("{file} has no picture between {begin} and {end}")];
    };
    let drawn: BTreeSet<String> =
        picture.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    let line = |(from, to): (&String, &BTreeSet<String>)| {
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        format!("{from} → {}", to.join(" "))
    };
    let shipped =
        |(from, to): &(&String, &BTreeSet<String>)| !NOT_SHIPPED.contains(&from.as_str()) && !to.is_empty();
    let manifests: BTreeSet<String> = dependencies.iter().filter(shipped).map(line).collect();
    let missing = manifests.difference(&drawn).map(|line| format!("{file}: the picture lacks `{line}`"));
    let wrong =
        drawn.difference(&manifests).map(|line| format!("{file}: the picture has `{line}`, which is not so"));
    missing.chain(wrong).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_type_names_that_are_defined_too_often() {
        let source =
            |names: &[&str]| names.iter().map(|name| format!("pub(crate) struct {name} {{}}\n")).collect();
        let many: Vec<String> = (0..20).map(|number| format!("T{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let one: String = source(&many);
        assert_eq!(shared_names(&[one.clone(), source(&["T1"])]), None, "5 % are few enough");
        let found = shared_names(&[one, source(&["T1", "T2"])]).unwrap();
        assert!(found.starts_with("2 of 20") && found.ends_with("T1, T2"), "{found}");
    }

    #[test]
    fn report_a_state_with_too_many_fields() {
        let source =
            |count: usize| format!("struct EventLoop {{\n{}}}\n", "    /// Doc.\n    a: u8,\n".repeat(count));
        assert_eq!(count_fields(&source(15)), None);
        assert!(count_fields(&source(16)).is_some_and(|found| found.contains("16 fields")));
        assert!(count_fields("struct Other;").is_some());
    }

    #[test]
    fn find_definitions() {
        assert_eq!(defined_type("    pub struct Hub<'a> {"), Some("Hub"));
        assert_eq!(defined_type("pub(super) type Reply<T> = Box<T>;"), Some("Reply"));
        assert_eq!(defined_type("    type Err = String;"), None);
        assert_eq!(defined_type("publish(struct)"), None);
    }

    #[test]
    fn report_arrows_that_differ_from_the_manifests() {
        let edges = |to: &[&str]| to.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let manifests = BTreeMap::from([
            ("hub".to_owned(), edges(&["session", "store"])),
            ("session".to_owned(), edges(&["track"])),
            ("rig".to_owned(), edges(&["client"])),
        ]);
        let drawn = "<!-- crates -->\n    hub → router store\n    router → decode\n<!-- /crates -->";
        let found = compare_picture(drawn, &manifests);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("lacks `router → track`") && found[1].contains("has `router → decode`"),
            "{found:?}"
        );
        assert_eq!(compare_picture("", &manifests).len(), 1);
    }
}
