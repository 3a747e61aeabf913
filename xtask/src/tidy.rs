//! `cargo xtask tidy`: checks rules of the repository that no other tool checks.
//!
//! Each Rust file begins with a module comment; no file is longer than the limit; nothing unfinished, ignored or
//! private to one machine is committed; dependencies match the table and the picture; the shape of the product
//! ([`house`]) is kept; README and book quote the figures of BENCHMARKS.md and TRUTH.md, and use plain words
//! ([`prose`]).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::edges;
use crate::house::{self, Shape};
use crate::prose;
use crate::quoted;
use crate::step::{announce, root};

/// Longest file, without tests; files should be split from 600 lines on.
const LINE_LIMIT: usize = 800;

/// Directories that are not checked: generated content, and recordings, which are never edited.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "fixtures", "dist", "corpus", "artifacts"];

/// Words that identify one machine or workplace, split so that this file passes its own check.
const PRIVATE: &[&str] = &[concat!("/wo", "rk/"), concat!(".lib", "rary"), concat!("far", "m-")];

/// Markers of unfinished Rust code, split likewise.
const UNFINISHED: &[&str] =
    &[concat!("#[ig", "nore"), concat!("to", "do!"), concat!("FIX", "ME"), concat!("TO", "DO")];

/// The vendors of harnesses, in lower case, each with the folder that may name it.
const VENDORS: &[(&str, &str)] = &[("claude", "crates/harness/src/claude_code/")];

/// The id of an extension of another program, which has a vendor's word in it.
const OTHER_ID: &str = "saoudrizwan.claude-dev";

/// Places where product code may name vendors; at most eight.
const MAY_NAME_VENDORS: [&str; 8] = [
    // The registry.
    "crates/harness/src/lib.rs",
    // Help texts and their examples.
    "crates/cli/src/args/",
    "crates/tui/src/view/overlay.rs",
    // An example in the documentation of a setting.
    "crates/cli/src/config/settings.rs",
    // A recording that is part of the program.
    "crates/cli/src/command/demo.rs",
    // Rows that examples and tests draw.
    "crates/render/src/sample.rs",
    "crates/tui/src/samples.rs",
    // Addresses and messages that others know by these names.
    "crates/server/src/routes/",
];

/// Prints the findings; an error if there are any.
pub(crate) fn run() -> Result<()> {
    announce("tidy");
    let (files, Shape { figures, findings }) = check(&root())?;
    for line in figures.iter().chain(&findings) {
        println!("{line}");
    }
    if !findings.is_empty() {
        bail!("tidy failed: {} findings", findings.len());
    }
    println!("tidy: {files} files and the edges between the crates are in order");
    Ok(())
}

/// Returns the number of checked files, the figures, and the findings as `file:line: what`.
fn check(root: &Path) -> Result<(usize, Shape)> {
    let mut shape = house::check(root)?;
    let findings = &mut shape.findings;
    findings.extend(edges::check()?);
    findings.extend(quoted::check(root)?);
    findings.extend(prose::check(root)?);
    let mut files = 0;
    visit(root, &mut |path| {
        let Ok(text) = fs::read_to_string(path) else { return }; // no text: a picture or a recording
        files += 1;
        let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        findings.extend(look_at(&name, &text));
    })?;
    findings.sort();
    Ok((files, shape))
}

fn visit(folder: &Path, found: &mut dyn FnMut(&Path)) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        // In a linked work tree `.git` is a file.
        if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            continue;
        }
        if kind.is_dir() {
            visit(&entry.path(), found)?;
        } else if kind.is_file() {
            found(&entry.path());
        }
    }
    Ok(())
}

fn look_at(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let is_rust = name.ends_with(".rs");
    for (index, line) in text.lines().enumerate() {
        let mut report = |word: &str| findings.push(format!("{name}:{}: has {word:?}", index + 1));
        PRIVATE.iter().filter(|word| line.contains(**word)).for_each(|word| report(word));
        if is_rust {
            UNFINISHED.iter().filter(|word| line.contains(**word)).for_each(|word| report(word));
        }
    }
    if is_rust {
        if !text.starts_with("//!") {
            findings.push(format!("{name}:1: the first line is not a `//!` that says what the file is for"));
        }
        let lines = production_lines(name, text);
        findings.extend(vendors(name, text, lines));
        if lines > LINE_LIMIT {
            findings
                .push(format!("{name}:{LINE_LIMIT}: {lines} lines without tests; the limit is {LINE_LIMIT}"));
        }
    }
    findings
}

/// Returns where product code names a vendor that it should not know.
fn vendors(name: &str, text: &str, product_lines: usize) -> Vec<String> {
    let is_product = name.starts_with("crates/") && name.contains("/src/");
    let is_for_tests = ["crates/testkit/", "crates/rig/"].iter().any(|folder| name.starts_with(folder));
    if !is_product || is_for_tests || MAY_NAME_VENDORS.iter().any(|place| name.starts_with(place)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().take(product_lines).enumerate() {
        let line = line.to_lowercase().replace(OTHER_ID, "");
        let foreign = VENDORS.iter().filter(|(_, folder)| !name.starts_with(folder));
        let named = foreign.filter(|(vendor, _)| line.contains(vendor));
        findings.extend(named.map(|(vendor, folder)| {
            format!("{name}:{}: names {vendor:?}, which only {folder} knows", index + 1)
        }));
    }
    findings
}

/// Counts the lines before the file's own test module; a file of tests has none. A `mod tests;` that only
/// points to another file ends nothing.
fn production_lines(name: &str, text: &str) -> usize {
    let is_tests = name.ends_with("/tests.rs") || name.split('/').any(|folder| folder == "tests");
    if is_tests {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |index: usize| {
        let next = lines.iter().skip(index + 1).find(|line| !line.starts_with("#["));
        next.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let end = (0..lines.len()).find(|&index| lines[index] == "#[cfg(test)]" && opens_tests(index));
    end.unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_nothing_in_this_repository() {
        let (files, shape) = check(&root()).unwrap();
        assert!(files > 10, "only {files} files were looked at");
        assert!(shape.findings.is_empty(), "{}", shape.findings.join("\n"));
    }

    #[test]
    fn report_private_and_unfinished_words_with_their_line() {
        let text = format!("//! A file.\n// see {}shared\nfn f() {{ {}() }}\n", PRIVATE[0], UNFINISHED[1]);
        let found = look_at("crates/x/src/lib.rs", &text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/x/src/lib.rs:2:"), "{found:?}");
        assert!(found[1].starts_with("crates/x/src/lib.rs:3:"), "{found:?}");
    }

    #[test]
    fn accept_unfinished_words_outside_of_code() {
        assert!(look_at("README.md", UNFINISHED[2]).is_empty());
        assert_eq!(look_at("README.md", PRIVATE[2]).len(), 1);
    }

    #[test]
    fn report_vendors_outside_their_folders_but_not_in_tests() {
        let text =
            "//! What Claude Code does.\nconst A: u8 = 1;\n#[cfg(test)]\nmod tests {\n    // claude\n}\n";
        assert_eq!(look_at("crates/hub/src/a.rs", text).len(), 1);
        for name in [
            "crates/harness/src/claude_code/a.rs",
            "crates/hub/tests/a.rs",
            "crates/hub/src/a/tests.rs",
            "crates/rig/src/a.rs",
            "crates/cli/src/args/live.rs",
            "xtask/src/a.rs",
        ] {
            assert!(look_at(name, text).is_empty(), "{name}");
        }
    }

    #[test]
    fn report_a_file_without_purpose() {
        assert_eq!(look_at("crates/x/src/lib.rs", "use std::fs;\n").len(), 1);
        assert!(look_at("crates/x/src/lib.rs", "//! Why.\nuse std::fs;\n").is_empty());
    }

    #[test]
    fn count_lines_up_to_the_tests_only() {
        let code = "//! Why.\n".repeat(LINE_LIMIT);
        assert!(look_at("a/lib.rs", &format!("{code}#[cfg(test)]\nmod tests {{\n}}\n")).is_empty());
        assert_eq!(look_at("a/lib.rs", &format!("{code}#[cfg(test)]\nmod tests;\n")).len(), 1);
        assert!(look_at("a/tests.rs", &code.repeat(2)).is_empty());
        assert!(look_at("a/tests/big.rs", &code.repeat(2)).is_empty());
    }
}
