//! Checks that figures quoted in the README and in the book equal those in BENCHMARKS.md and TRUTH.md.
//!
//! A quoted figure follows the hidden mark `<!-- bench: QUESTION | FIGURE -->`: a unique part of a row's first cell,
//! and its second cell. The figure must be the row's median. Lines between `<!-- truth -->` and `<!-- /truth -->` are
//! lines of TRUTH.md, whose last columns may be left out. The README quotes no other measurement.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const MARK: &str = "<!-- bench: ";
const MARK_END: &str = " -->";

/// Marks around lines of TRUTH.md.
const TRUTH: (&str, &str) = ("<!-- truth -->", "<!-- /truth -->");

/// Units of measurements: a number before one is quoted from BENCHMARKS.md.
const UNITS: [&str; 9] = ["ms", "µs", "ns", "MB/s", "MB/sec", "kB/s", "×", "%", "events/s"];

/// Most lines of the README: it is read in ten minutes.
const MOST_README_LINES: usize = 180;

const README: &str = "README.md";
const BOOK: &str = "docs/src";

/// Returns the figures that differ, each as `file:line: what`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let read =
        |name: &str| fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"));
    let (readme, benchmarks) = (read(README)?, read("BENCHMARKS.md")?);
    let mut findings = compare(README, &readme, &benchmarks);
    findings.extend(compare_truth(&readme, &read("TRUTH.md")?));
    findings.extend(unquoted(&readme));
    let lines = readme.lines().count();
    if lines > MOST_README_LINES {
        findings
            .push(format!("{README}:{lines}: longer than {MOST_README_LINES} lines: move details to {BOOK}"));
    }
    for page in pages(&root.join(BOOK))? {
        let name = page.strip_prefix(root).unwrap_or(&page).to_string_lossy().into_owned();
        findings.extend(compare(&name, &read(&name)?, &benchmarks));
    }
    Ok(findings)
}

/// Returns the Markdown files of a folder, sorted.
pub(crate) fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut pages = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// Compares the marked lines of the README with those of TRUTH.md.
fn compare_truth(readme: &str, truth: &str) -> Vec<String> {
    let known: Vec<&str> = truth.lines().collect();
    let mut findings = Vec::new();
    let mut is_quoted = false;
    for (index, line) in readme.lines().enumerate() {
        if line == TRUTH.0 || line == TRUTH.1 {
            is_quoted = line == TRUTH.0;
        } else if is_quoted && !known.iter().any(|known| is_quote(line, known)) {
            findings.push(format!("{README}:{}: {line:?} is no line of TRUTH.md", index + 1));
        }
    }
    findings
}

/// Whether a line is another, or a row of a table with the first columns of another.
fn is_quote(line: &str, known: &str) -> bool {
    line == known || line.ends_with('|') && known.starts_with(line)
}

/// Returns the measurements of the README that no mark precedes.
fn unquoted(readme: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in readme.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            let [number, unit] = pair else { continue };
            let unit = unit.trim_end_matches([',', '.', ';', ':', ')']);
            let is_figure = number.starts_with(|first: char| first.is_ascii_digit());
            if is_figure && UNITS.contains(&unit) {
                findings
                    .push(format!("{README}:{}: \"{number} {unit}\" has no mark of its source", index + 1));
            }
        }
    }
    findings
}

fn compare(file: &str, readme: &str, benchmarks: &str) -> Vec<String> {
    let rows: Vec<(&str, &str, &str)> = benchmarks.lines().filter_map(row).collect();
    let mut findings = Vec::new();
    let mut offset = 0;
    for part in readme.split_inclusive(MARK).collect::<Vec<_>>().windows(2) {
        let [before, behind] = part else { continue };
        offset += before.len();
        let line = readme[..offset].lines().count();
        let mut report = |what: String| findings.push(format!("{file}:{line}: {what}"));
        if before.strip_suffix(MARK).is_none_or(|text| text.is_empty() || text.ends_with('\n')) {
            report("a mark begins its line, which ends the paragraph for Markdown".to_owned());
        }
        let Some((mark, text)) = behind.split_once(MARK_END) else {
            report("a mark of a figure does not end on its line".to_owned());
            continue;
        };
        let Some((question, figure)) = mark.split_once(" | ") else {
            report(format!("{mark:?} is not `QUESTION | FIGURE`"));
            continue;
        };
        let is_it = |row: &&(&str, &str, &str)| row.0.contains(question) && row.1 == figure;
        match rows.iter().filter(is_it).collect::<Vec<_>>().as_slice() {
            [(_, _, median)] => {
                let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
                if !text.strip_prefix(median).is_some_and(is_whole) {
                    let quoted: String = text.chars().take(median.chars().count() + 8).collect();
                    report(format!("{quoted:?} is {median:?} in BENCHMARKS.md ({mark})"));
                }
            }
            found => report(format!("{} rows of BENCHMARKS.md are {mark:?}", found.len())),
        }
    }
    findings
}

/// Question, figure and median of a row; the median without its budget.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
    let (question, figure, median) = (cells.next()?, cells.next()?, cells.next()?);
    Some((question, figure, median.split(" (").next().unwrap_or(median)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "\
| question | figure | median | least – greatest |
|---|---|---|---|
| posts, 64 connections | in a second | 32275 (asked: 15000) | 1 – 2 |
| posts, 1 connection | in a second | 7 | 1 – 2 |
| posts, 64 connections | 99th percentile | 7.38 ms (budget 20) | 6 – 8 ms |
";

    #[test]
    fn accept_figures_as_they_stand_there() {
        let readme = "Takes <!-- bench: 64 connections | in a second -->32275 a second,\n\
                      p99 <!-- bench: posts | 99th percentile -->7.38 ms.\n";
        assert_eq!(compare(README, readme, ROWS), [] as [&str; 0]);
    }

    #[test]
    fn report_each_other_figure_with_its_line() {
        for figure in ["25000", "322", "322750", "32275k"] {
            let readme =
                format!("One.\nNow <!-- bench: 64 connections | in a second -->{figure} a second.\n");
            let found = compare(README, &readme, ROWS);
            assert!(found.len() == 1 && found[0].starts_with("README.md:2: "), "{figure}: {found:?}");
        }
    }

    #[test]
    fn report_marks_that_name_no_row_or_several() {
        for mark in ["posts | in a second", "gets | in a second", "posts | in an hour", "posts"] {
            assert_eq!(compare(README, &format!("in <!-- bench: {mark} -->7"), ROWS).len(), 1, "{mark}");
        }
        assert_eq!(compare(README, "in <!-- bench: posts", ROWS).len(), 1);
        assert_eq!(compare(README, "in\n<!-- bench: posts | 99th percentile -->7.38 ms", ROWS).len(), 1);
    }

    #[test]
    fn report_lines_that_are_not_in_truth_and_measurements_without_a_mark() {
        let truth = "| tool | wrong |\n|---|---|\n| a | 0 of 7 |\n";
        let quote = |line: &str| format!("x\n<!-- truth -->\n{line}\n<!-- /truth -->\n| a | 1 of 7 |\n");
        assert_eq!(compare_truth(&quote("| a | 0 of 7 |"), truth), [] as [&str; 0]);
        assert_eq!(compare_truth(&quote("| a |"), truth), [] as [&str; 0], "the first columns");
        assert!(compare_truth(&quote("| a | 1 of 7 |"), truth)[0].starts_with("README.md:3: "));
        assert_eq!(compare_truth(&quote("| a | 0"), truth).len(), 1, "half a cell");
        assert_eq!(unquoted("takes <!-- bench: a | b -->7.38 ms."), [] as [&str; 0]);
        assert_eq!(unquoted("a session of 270 MB becomes 12 agents"), [] as [&str; 0]);
        assert_eq!(unquoted("One.\nIt takes 7 ms, or 3 % of it.").len(), 2);
    }
}
