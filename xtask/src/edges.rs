//! Table of allowed dependencies between crates, compared with the manifests.
//!
//! A new edge is a separate commit that justifies it and changes this table. Dev-dependencies are ignored, except that
//! no shipped crate may use `testkit` or `rig`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::step::{cargo, output};

/// All crates except those used only by tests and xtask, and the server of a team, which is a program of its own.
const EVERYTHING: &[&str] = &["*"];

/// Each crate with its allowed dependencies. `model` may be used by every crate below.
const EDGES: &[(&str, &[&str])] = &[
    ("model", &[]),
    // What operating systems do differently; depends on nothing.
    ("platform", &[]),
    ("decode", &[]),
    ("track", &[]),
    // The questions about sessions: one signature each for all who answer.
    ("query", &[]),
    // `query`: the query of the session list. `platform`: bytes of paths, private files, room on the disk.
    ("store", &["platform", "query"]),
    // `harness`: how names of models are shortened.
    ("render", &["harness"]),
    // `platform`: whether the process of a record runs.
    ("export", &["platform"]),
    // Everything about vendors: decoders of their dialects, the layout of their files, their programs and
    // hooks.
    ("harness", &["decode"]),
    // `harness`: where transcripts are, and the meaning of their paths. `decode`: the name of a dialect.
    // `platform`: identity of files, private files.
    ("collect", &["decode", "harness", "platform"]),
    // Embedded by other programs: it queries a hub over its socket and never links it. `platform`:
    // the local socket, and whose it is.
    ("client", &["platform", "query"]),
    // A watchdog for any process group; depends on nothing.
    ("guard", &[]),
    // `harness`: recognizes the dialect of a source if the caller does not name it.
    ("session", &["decode", "harness", "track"]),
    // `collect`: the hub owns its collectors. Only it knows which source is checkpointed how far, so only it
    // can say what is read next; a collector that pushed into the hub from outside would need that knowledge twice.
    // `harness`: which files are transcripts, and the answers to hooks. `platform`: identity of files, private files.
    ("hub", &["session", "query", "store", "collect", "harness", "platform"]),
    // The embedded files of the page; it knows neither HTTP nor exports.
    ("page", &[]),
    // The hub stores rows. `page`: the files that it serves. `render`, `export`: timelines and exports for the page,
    // made by the same pure functions as for the other user interfaces. `client`: the type of the events that programs
    // publish, which describes the route that takes them. `platform`: the local socket, and private files.
    ("server", &["client", "hub", "page", "platform", "query", "render", "export"]),
    // `render`: sanitizes messages. The others: errors of theirs have hints.
    ("program", &["collect", "export", "render", "store"]),
    // `server`: the page, the routes of questions, and errors. `query`: the questions. `store`: the queries that every
    // store answers. `hub`: the clock, and the display of hits. `program`, `render`: arguments and messages.
    ("team", &["export", "hub", "program", "query", "render", "server", "store"]),
    // A run connects a child to a private hub: it is the hub's driver, opens its listener, forwards to the machine's
    // hub, and writes traces. User interfaces do not depend on it. `guard`: a command ends with the run that is killed.
    // `harness`: the dialect of the child's output, and the notes of its processes. `collect`: transcripts written in
    // its working folder. `platform`: starts and parents of processes.
    (
        "run",
        &[
            "hub", "server", "client", "collect", "decode", "harness", "session", "export", "guard",
            "platform",
        ],
    ),
    // `session`, `decode`: the output of an agent command is read like every session, in this process. `client`:
    // publishes its events. `render`: sanitizes text for a model or a person. Queries go through the host. `guard`: no
    // process outlives a killed server. `harness`: the dialect of the output. `platform`: signals, bytes of paths.
    ("mcp", &["client", "decode", "harness", "session", "guard", "platform", "query", "render"]),
    // It draws lines made by `render`. Its host feeds it; its requests are enums.
    ("tui", &["render"]),
    ("cli", EVERYTHING),
    // Builds test data for all layers; only tests use it.
    ("testkit", &["collect", "decode", "harness", "track", "session"]),
    // `client`: reads the hub as other programs do. `testkit`: its environment for the real binary.
    ("rig", &["client", "testkit"]),
    ("xtask", &[]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
}

/// Returns the differences between manifests and table, one sentence each.
pub(crate) fn check() -> Result<Vec<String>> {
    compare(&metadata()?, EDGES)
}

/// Returns the crates that each crate depends on, without dev-dependencies, all by their short names.
pub(crate) fn dependencies() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let json = metadata()?;
    let metadata: Metadata = serde_json::from_str(&json).context("cannot read what cargo metadata prints")?;
    let of = |package: &Package| package.own().map(str::to_owned).collect();
    Ok(metadata.packages.iter().map(|package| (short(&package.name).to_owned(), of(package))).collect())
}

fn metadata() -> Result<String> {
    output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))
}

impl Package {
    /// Crates of this workspace that it depends on, without dev-dependencies.
    fn own(&self) -> impl Iterator<Item = &str> {
        let is_own = |it: &&Dependency| it.path.is_some() && it.kind.as_deref() != Some("dev");
        self.dependencies.iter().filter(is_own).map(|it| short(&it.name))
    }
}

fn compare(json: &str, table: &[(&str, &[&str])]) -> Result<Vec<String>> {
    let metadata: Metadata = serde_json::from_str(json).context("cannot read what cargo metadata prints")?;
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for package in &metadata.packages {
        let crate_name = short(&package.name);
        seen.insert(crate_name);
        let Some((_, allowed)) = table.iter().find(|(name, _)| *name == crate_name) else {
            findings.push(format!("crate {crate_name} is not in the table of edges (xtask/src/edges.rs)"));
            continue;
        };
        for target in package.own() {
            let is_everything =
                allowed.contains(&"*") && !matches!(target, "team" | "testkit" | "rig" | "xtask");
            let is_model = target == "model" && crate_name != "model" && crate_name != "xtask";
            if !(is_everything || is_model || allowed.contains(&target)) {
                findings.push(format!(
                    "{crate_name} → {target} is not in the table of edges (xtask/src/edges.rs)"
                ));
            }
        }
    }
    let stale = table.iter().map(|(name, _)| *name).filter(|name| !seen.contains(name));
    findings.extend(stale.map(|name| format!("the table of edges has {name}, but there is no such crate")));
    Ok(findings)
}

/// Returns the name used in the table: without `subscope-`; the package `subscope` is the binary.
fn short(package: &str) -> &str {
    if package == "subscope" { "cli" } else { package.strip_prefix("subscope-").unwrap_or(package) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[(&str, &[&str])] =
        &[("model", &[]), ("session", &["decode"]), ("decode", &[]), ("cli", EVERYTHING), ("testkit", &[])];

    fn findings(edges: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let names =
            ["subscope-model", "subscope-session", "subscope-decode", "subscope-cli", "subscope-testkit"];
        let packages: Vec<_> = names
            .iter()
            .map(|name| {
                let dependencies: Vec<_> = edges
                    .iter()
                    .filter(|(from, _, _)| from == name)
                    .map(|(_, to, kind)| serde_json::json!({"name": to, "kind": kind, "path": "/somewhere"}))
                    .collect();
                serde_json::json!({"name": name, "dependencies": dependencies})
            })
            .collect();
        compare(&serde_json::json!({"packages": packages}).to_string(), TABLE).unwrap()
    }

    #[test]
    fn accept_edges_of_the_table() {
        let edges = [
            ("subscope-session", "subscope-decode", None),
            ("subscope-session", "subscope-model", None),
            ("subscope-cli", "subscope-session", None),
            ("subscope-model", "subscope-testkit", Some("dev")),
        ];
        assert_eq!(findings(&edges), Vec::<String>::new());
    }

    #[test]
    fn report_an_edge_upwards_and_what_the_tool_never_links() {
        let edges = [
            ("subscope-decode", "subscope-session", None),
            ("subscope-cli", "subscope-testkit", None),
            ("subscope-cli", "subscope-team", None),
        ];
        let found = findings(&edges);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|f| f.starts_with("decode → session")), "{found:?}");
        assert!(found.iter().any(|f| f.starts_with("cli → testkit")), "{found:?}");
    }

    #[test]
    fn report_a_crate_without_row_and_a_row_without_crate() {
        let json = r#"{"packages":[{"name":"subscope-model","dependencies":[]},{"name":"subscope-new","dependencies":[]}]}"#;
        let found = compare(json, &[("model", &[]), ("gone", &[])]).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crate new"), "{found:?}");
        assert!(found[1].contains("gone"), "{found:?}");
    }
}
