//! Rules about the shape of the product: state of the hub, type names, clocks, and the picture of the crates in
//! ARCHITECTURE.md. Each rule gives a figure, and findings if it is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::edges;

/// Largest share of type names that are defined more than once, in percent.
const MOST_SHARED_NAMES: usize = 7;

/// Crates of tests and chores: they are not counted, and the picture leaves them out.
const NOT_SHIPPED: [&str; 3] = ["testkit", "rig", "xtask"];

/// The picture's file, and the lines around it.
const PICTURE: (&str, &str, &str) = ("ARCHITECTURE.md", "<!-- crates -->", "<!-- /crates -->");

/// State of the hub's thread: its file, its type, and its most fields. What belongs to one session is in the session
/// table.
const LOOP_STATE: (&str, &str, usize) = ("crates/hub/src/event_loop.rs", "struct EventLoop {", 15);

/// Crates whose state lives as long as a hub.
const LONG_LIVED: [&str; 2] = ["crates/hub/src/", "crates/session/src/"];

/// Most collections of theirs that are keyed by session id: the table of sessions, the router's and the files' of a
/// session. Results of one pass are not counted: those of the index, and of a batch of ingests.
const MOST_KEYED_COLLECTIONS: usize = 3;
const PASSING: [&str; 2] = ["crates/hub/src/index/", "crates/hub/src/event_loop/ingest.rs"];

/// Where these crates may read a clock or sleep: the clock, the outermost loop, drivers and their threads.
const MAY_READ_CLOCKS: [&str; 5] = ["clock.rs", "event_loop.rs", "driver.rs", "file_thread.rs", "replay.rs"];
const CLOCKS: [&str; 3] = ["thread::sleep", "Instant::now", "SystemTime::now"];

/// A Rust file of the product without its tests.
struct Source {
    name: String,
    text: String,
}

/// What the rules count, and what breaks them, one sentence each.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pub(crate) figures: Vec<String>,
    pub(crate) findings: Vec<String>,
}

impl Shape {
    /// Adds a figure, and a finding with these names if it is above its limit.
    fn count(&mut self, what: &str, count: usize, most: usize, names: &[&str]) {
        self.figures.push(format!("{what}: {count} (at most {most})"));
        if count > most {
            self.findings.push(format!("{what}: {count}, more than {most}: {}", names.join(", ")));
        }
    }
}

/// Applies all rules.
pub(crate) fn check(root: &Path) -> Result<Shape> {
    let mut sources = Vec::new();
    for folder in fs::read_dir(root.join("crates")).context("cannot list crates")? {
        let folder = folder?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !NOT_SHIPPED.contains(&name.as_str()) {
            read_sources(root, &folder.join("src"), &mut sources)?;
        }
    }
    let mut shape = Shape::default();
    let lines: usize = sources.iter().map(|source| source.text.lines().count()).sum();
    shape.figures.push(format!("lines of the product without tests: {lines}"));
    count_shared_names(&sources, &mut shape);
    count_fields(&sources, &mut shape);
    count_keyed_collections(&sources, &mut shape);
    find_clocks(&sources, &mut shape);
    let text =
        fs::read_to_string(root.join(PICTURE.0)).with_context(|| format!("cannot read {}", PICTURE.0))?;
    shape.findings.extend(compare_picture(&text, &edges::dependencies()?));
    Ok(shape)
}

fn read_sources(root: &Path, folder: &Path, sources: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            read_sources(root, &path, sources)?;
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            sources.push(Source { name, text: product.to_owned() });
        }
    }
    Ok(())
}

fn count_fields(sources: &[Source], shape: &mut Shape) {
    let (file, head, most) = LOOP_STATE;
    let text = sources.iter().find(|source| source.name == file).map_or("", |source| &source.text);
    let body = text.split_once(head).and_then(|(_, rest)| Some(rest.split_once("\n}")?.0));
    let is_field = |line: &&str| line.starts_with("    ") && !line.trim_start().starts_with("//");
    match body {
        Some(body) => {
            shape.count("fields of EventLoop", body.lines().filter(is_field).count(), most, &[file])
        }
        None => shape.findings.push(format!("{file} has no `{head}`")),
    }
}

/// Counts the fields of long-lived state that are keyed by session id.
fn count_keyed_collections(sources: &[Source], shape: &mut Shape) {
    let is_keyed = |line: &&str| {
        let field = line.split_once(") ").filter(|(front, _)| front.trim_start().starts_with("pub("));
        let field = field.map_or(*line, |(_, field)| field);
        line.starts_with("    ")
            && field.ends_with(',')
            && field.contains(": ")
            && !field.contains(['(', ')', '&', '='])
            && ["Map<SessionId,", "Set<SessionId>"].iter().any(|map| field.contains(map))
    };
    let is_state = |source: &&Source| {
        LONG_LIVED.iter().any(|folder| source.name.starts_with(folder))
            && !PASSING.iter().any(|place| source.name.starts_with(place))
    };
    let fields = sources.iter().filter(is_state).flat_map(|source| source.text.lines().filter(is_keyed));
    let fields: Vec<&str> = fields.map(str::trim).collect();
    shape.count("collections keyed by session id", fields.len(), MOST_KEYED_COLLECTIONS, &fields);
}

/// Finds clocks and sleeps where time is to be passed in.
fn find_clocks(sources: &[Source], shape: &mut Shape) {
    for Source { name, text } in sources {
        let folder = LONG_LIVED.iter().find_map(|folder| name.strip_prefix(folder));
        if folder.is_none_or(|file| MAY_READ_CLOCKS.contains(&file)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if CLOCKS.iter().any(|clock| line.contains(clock)) {
                shape.findings.push(format!("{name}:{}: reads a clock or sleeps", index + 1));
            }
        }
    }
}

fn count_shared_names(sources: &[Source], shape: &mut Shape) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for name in sources.iter().flat_map(|source| source.text.lines().filter_map(defined_type)) {
        *names.entry(name).or_default() += 1;
    }
    let shared: Vec<&str> = names.iter().filter(|(_, count)| **count > 1).map(|(name, _)| *name).collect();
    let what = format!("type names of {} that are defined more than once", names.len());
    shape.count(&what, shared.len(), names.len() * MOST_SHARED_NAMES / 100, &shared);
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

    fn source(name: &str, text: &str) -> Source {
        Source { name: name.to_owned(), text: text.to_owned() }
    }

    fn shape_of(rule: fn(&[Source], &mut Shape), sources: &[Source]) -> Shape {
        let mut shape = Shape::default();
        rule(sources, &mut shape);
        shape
    }

    #[test]
    fn report_type_names_that_are_defined_too_often() {
        let types = |names: &mut dyn Iterator<Item = usize>| {
            source("a.rs", &names.map(|name| format!("pub(crate) struct T{name} {{}}\n")).collect::<String>())
        };
        let few = shape_of(count_shared_names, &[types(&mut (0..20)), types(&mut (1..2))]);
        assert_eq!(few.findings.len(), 0, "5 % are few enough");
        let many = shape_of(count_shared_names, &[types(&mut (0..20)), types(&mut (1..3))]).findings;
        assert!(many[0].contains("of 20") && many[0].ends_with("T1, T2"), "{many:?}");
    }

    #[test]
    fn report_a_state_with_too_many_fields() {
        let found = |text: &str| shape_of(count_fields, &[source(LOOP_STATE.0, text)]).findings;
        let state =
            |count: usize| format!("{}\n{}}}\n", LOOP_STATE.1, "    /// Doc.\n    a: u8,\n".repeat(count));
        assert!(found(&state(15)).is_empty());
        assert!(found(&state(16))[0].contains("16, more than 15"));
        assert_eq!(found("struct Other;").len(), 1);
    }

    #[test]
    fn report_collections_keyed_by_session_in_long_lived_state_only() {
        let state =
            "struct S {\n    pub(crate) by_id: BTreeMap<SessionId, Row>,\n    rows: Vec<SessionId>,\n}\n";
        let count = |name: &str, repeats: usize| {
            shape_of(count_keyed_collections, &[source(name, &state.repeat(repeats))]).findings.len()
        };
        assert_eq!((count("crates/hub/src/a.rs", 3), count("crates/hub/src/a.rs", 4)), (0, 1));
        assert_eq!((count("crates/hub/src/index/plan.rs", 4), count("crates/cli/src/a.rs", 4)), (0, 0));
        let local = "fn f(a: &BTreeMap<SessionId, u8>,\n    let b: BTreeSet<SessionId> = x,\n".repeat(9);
        assert!(
            shape_of(count_keyed_collections, &[source("crates/hub/src/a.rs", &local)]).findings.is_empty()
        );
    }

    #[test]
    fn report_clocks_where_time_is_passed_in() {
        let found =
            |name: &str| shape_of(find_clocks, &[source(name, "\nlet t = Instant::now();\n")]).findings;
        assert!(found("crates/hub/src/clock.rs").is_empty() && found("crates/cli/src/a.rs").is_empty());
        assert!(found("crates/session/src/router.rs")[0].starts_with("crates/session/src/router.rs:2"));
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
        let drawn = "<!-- crates -->\n    hub → session store\n    session → decode\n<!-- /crates -->";
        let found = compare_picture(drawn, &manifests);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("lacks `session → track`") && found[1].contains("has `session → decode`"),
            "{found:?}"
        );
        assert_eq!(compare_picture("", &manifests).len(), 1);
    }
}
