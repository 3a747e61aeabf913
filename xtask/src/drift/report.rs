//! `docs/src/drift.md`: the table of `cargo xtask drift`, written and read.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::page;

/// Results for one harness.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    /// Its name in the registry of harnesses.
    pub(super) name: String,
    /// The name that people know.
    pub(super) title: String,
    pub(super) package: String,
    pub(super) newest: String,
    /// The day on which the newest version was published.
    pub(super) published: String,
    /// The newest version of those tried that is read right.
    pub(super) newest_right: Option<String>,
    /// What the newest version played.
    pub(super) played: Vec<Played>,
}

/// One script as one version played it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Played {
    script: String,
    /// Which of its ways to have agents.
    variant: String,
    agents: Option<u32>,
    calls: Option<u32>,
    faults: Vec<String>,
}

impl Played {
    /// Whether the tree equals the log of the fake server.
    pub(super) fn is_right(&self) -> bool {
        self.faults.is_empty()
    }

    fn to_cell(&self) -> String {
        let figure = |count: Option<u32>| count.map_or("?".to_owned(), |count| count.to_string());
        let verdict = if self.is_right() { "right" } else { "**wrong**" };
        let variant = if self.variant.is_empty() { String::new() } else { format!("{}: ", self.variant) };
        format!("{variant}{verdict}, {} agents, {} calls", figure(self.agents), figure(self.calls))
    }
}

/// Marker before the rows as JSON, from which a run for one harness keeps the rows of the others.
const DATA: (&str, &str) = ("<!-- rows: ", " -->");

/// Reads the rows of the page; none where it was never written.
pub(super) fn read() -> Result<Vec<Row>> {
    let Ok(text) = fs::read_to_string(page()) else { return Ok(Vec::new()) };
    let data = text.lines().find_map(|line| line.strip_prefix(DATA.0)?.strip_suffix(DATA.1));
    data.map_or(Ok(Vec::new()), |json| serde_json::from_str(json).context("cannot read docs/src/drift.md"))
}

/// Writes the page.
pub(super) fn write(rows: &[Row]) -> Result<()> {
    let text = to_markdown(rows)?;
    println!("\n{text}");
    let folder = page();
    fs::create_dir_all(folder.parent().unwrap_or(&folder)).context("cannot make docs/src")?;
    fs::write(page(), text).context("cannot write docs/src/drift.md")
}

fn to_markdown(rows: &[Row]) -> Result<String> {
    let mut page = HEAD.to_owned();
    for row in rows {
        let of = |script: &str| {
            let cells: Vec<String> =
                row.played.iter().filter(|it| it.script == script).map(Played::to_cell).collect();
            cells.join("<br>")
        };
        let right = row.newest_right.as_deref().unwrap_or("none of those tried");
        let Row { title, package, newest, published, .. } = row;
        page.push_str(&format!(
            "| {title} | `{package}` | {newest} | {published} | {} | {} | {right} |\n",
            of("parallel"),
            of("endings")
        ));
    }
    let wrong =
        || rows.iter().flat_map(|row| row.played.iter().filter(|it| !it.is_right()).map(move |it| (row, it)));
    if wrong().next().is_some() {
        page.push_str("\n## What is wrong\n\n");
    }
    for (row, played) in wrong() {
        for fault in &played.faults {
            let fault = fault.lines().next().unwrap_or_default().replace(['`', '<'], "'");
            page.push_str(&format!("* {} {}, {}: `{fault}`\n", row.title, row.newest, played.script));
        }
    }
    // A comment ends at `--` and `>`, which JSON can write otherwise.
    let data = serde_json::to_string(rows)?.replace('>', "\\u003e");
    page.push_str(&format!("\n{}{data}{}\n", DATA.0, DATA.1));
    Ok(page)
}

const HEAD: &str = "# Versions of the harnesses

Written by `cargo xtask drift`; do not edit. Harnesses change their files without notice. This check installs the newest
version of each from npm and has it play two scripts against a stand-in for its model, without network. Then it compares
the tree that `subscope tree last` makes of the files with the log of the stand-in: agents, parents, calls and their
endings, tokens, endings of agents, prompts.

* **parallel, nested**: two agents at once; the first starts an agent of its own. Gemini CLI and the second generation
  of Codex's agents (V2) refuse that: there it is a call that failed.
* **failed, denied, resumed**: an agent whose model refuses it, a call that a rule denies, one that fails, and a second
  process that resumes the session. In Kimi Code a hook denies the call; Cline CLI has nothing that denies a call and lets
  the agent go on, so there the call runs. Nor does Cline CLI resume a session without a terminal: that part is not played.

oh-my-pi is not played: it needs Bun, and its newest version did not start here. Nor are harnesses that were not run here
([Each agent](harnesses.md)).

| harness | package | newest | published | parallel, nested | failed, denied, resumed | newest that is right |
|---|---|---|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_rows_and_gives_them_back() {
        let played = |script: &str, faults: &[&str]| Played {
            script: script.to_owned(),
            variant: "V2".to_owned(),
            agents: Some(3),
            calls: None,
            faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        };
        let row = Row {
            name: "codex".to_owned(),
            title: "Codex".to_owned(),
            package: "@openai/codex".to_owned(),
            newest: "2.0.0".to_owned(),
            published: "2026-11-13".to_owned(),
            newest_right: Some("1.9.0".to_owned()),
            played: vec![played("parallel", &[]), played("endings", &["root: a --> b\nand more"])],
        };
        let page = to_markdown(&[row]).unwrap();
        assert!(page.contains(
            "| 2.0.0 | 2026-11-13 | V2: right, 3 agents, ? calls | V2: **wrong**, 3 agents, ? calls | 1.9.0 |"
        ));
        assert!(page.contains("* Codex 2.0.0, endings: `root: a --> b`\n"), "{page}");
        let data = page.lines().find_map(|line| line.strip_prefix(DATA.0)?.strip_suffix(DATA.1)).unwrap();
        assert!(!data.contains("-->"));
        let rows: Vec<Row> = serde_json::from_str(data).unwrap();
        assert_eq!((rows.len(), rows[0].newest_right.as_deref()), (1, Some("1.9.0")));
        assert_eq!(rows[0].played[1].faults, ["root: a --> b\nand more"]);
    }
}
