//! Checks the words of README, book and help: terms of the field instead of private words, American spelling.
//!
//! A word in a code block or in code within a sentence is not checked. Generated pages are checked like the others,
//! and the page of all commands is what `--help` prints: so help texts are checked, too.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::quoted::pages;

/// Documents besides the pages of the book.
const DOCUMENTS: [&str; 4] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"];
const BOOK: &str = "docs/src";
/// The page with the help of all commands: its code blocks are prose.
const COMMANDS: &str = "docs/src/cli.md";

/// Phrases that have an exact name, with that name.
const PRIVATE_WORDS: [(&str, &str); 33] = [
    ("told", "say what happens: published, reported, known"),
    ("handed over", "posted, passed, ingested"),
    ("hands over", "posts, passes"),
    ("hand over", "post, pass"),
    ("rests on", "follows from, depends on"),
    ("rest on", "follow from, depend on"),
    ("whoever", "name the person or program"),
    ("lets go", "releases, evicts"),
    ("let go", "released, evicted"),
    ("stands there", "is stored, is written"),
    ("what is of", "name the thing"),
    ("gives way", "yields, waits, is evicted"),
    ("give way", "yield, wait"),
    ("is heard", "is received, arrives"),
    ("are heard", "are received"),
    ("takes in", "ingests, reads"),
    ("take in", "ingest, read"),
    ("taken in", "ingested, read"),
    ("of which", "two sentences"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("is no json", "is not JSON"),
    ("colour", "color"),
    ("behaviour", "behavior"),
    ("recognise", "recognize"),
    ("grey", "gray"),
    ("licence", "license"),
    ("cancelled", "canceled"),
    ("artefact", "artifact"),
    ("initialise", "initialize"),
    ("sanitise", "sanitize"),
    ("favour", "favor"),
    ("catalogue", "catalog"),
];

/// Returns the findings, each as `file:line: what`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let documents = DOCUMENTS.iter().map(|name| root.join(name)).filter(|path| path.exists());
    for path in documents.chain(pages(&root.join(BOOK))?) {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        findings.extend(look_at(&name, &text));
    }
    Ok(findings)
}

fn look_at(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut is_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            continue;
        }
        if is_block && name != COMMANDS {
            continue;
        }
        // Code within a sentence is every second part.
        let prose: Vec<&str> = line.split('`').step_by(2).collect();
        let prose = prose.join("`").to_lowercase();
        for (phrase, better) in PRIVATE_WORDS.iter().filter(|(phrase, _)| has_phrase(&prose, phrase)) {
            findings.push(format!("{name}:{}: {phrase:?}: {better}", index + 1));
        }
    }
    findings
}

/// Whether a text has a phrase that begins at the beginning of a word; a word of spelling may go on.
fn has_phrase(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + phrase.len()..].chars().next();
        let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
        let is_stem = phrase.ends_with("our") || phrase.ends_with("ise") || phrase.ends_with("ey");
        !is_word(before) && (is_stem || !is_word(behind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_private_words_in_prose_but_not_in_code() {
        let found = look_at(
            "a.md",
            "One.\nThe hub is told; it takes in lines.\n```sh\ntold\n```\n`told` is a word.\n",
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.md:2: \"told\""), "{found:?}");
        assert_eq!(look_at(COMMANDS, "```text\ncolours\n```\n").len(), 1, "help is prose");
    }

    #[test]
    fn report_whole_words_only() {
        for fine in ["It retold.", "untold", "stolder", "the forest onward", "courage"] {
            assert!(look_at("a.md", fine).is_empty(), "{fine}");
        }
        assert_eq!(look_at("a.md", "Colours and greyish behaviours.").len(), 3);
    }
}
