//! Checks that figures quoted in the README equal those in BENCHMARKS.md.
//!
//! A quoted figure follows the hidden mark `<!-- bench: QUESTION | FIGURE -->`: a unique part of a row's first cell,
//! and its second cell. The figure must be the row's median.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const MARK: &str = "<!-- bench: ";
const MARK_END: &str = " -->";

/// Returns the figures of the README that differ from BENCHMARKS.md, each as `file:line: what`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let read =
        |name: &str| fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"));
    Ok(compare(&read("README.md")?, &read("BENCHMARKS.md")?))
}

fn compare(readme: &str, benchmarks: &str) -> Vec<String> {
    let rows: Vec<(&str, &str, &str)> = benchmarks.lines().filter_map(row).collect();
    let mut findings = Vec::new();
    let mut offset = 0;
    for part in readme.split_inclusive(MARK).collect::<Vec<_>>().windows(2) {
        let [before, behind] = part else { continue };
        offset += before.len();
        let line = readme[..offset].lines().count();
        let mut report = |what: String| findings.push(format!("README.md:{line}: {what}"));
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
        assert_eq!(compare(readme, ROWS), [] as [&str; 0]);
    }

    #[test]
    fn report_each_other_figure_with_its_line() {
        for figure in ["25000", "322", "322750", "32275k"] {
            let readme =
                format!("One.\nNow <!-- bench: 64 connections | in a second -->{figure} a second.\n");
            let found = compare(&readme, ROWS);
            assert!(found.len() == 1 && found[0].starts_with("README.md:2: "), "{figure}: {found:?}");
        }
    }

    #[test]
    fn report_marks_that_name_no_row_or_several() {
        for mark in ["posts | in a second", "gets | in a second", "posts | in an hour", "posts"] {
            assert_eq!(compare(&format!("in <!-- bench: {mark} -->7"), ROWS).len(), 1, "{mark}");
        }
        assert_eq!(compare("in <!-- bench: posts", ROWS).len(), 1);
        assert_eq!(compare("in\n<!-- bench: posts | 99th percentile -->7.38 ms", ROWS).len(), 1);
    }
}
