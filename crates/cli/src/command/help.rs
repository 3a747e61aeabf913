//! `subscope help`: prints pages of the book, which are part of the program, and the help of commands.

use clap::CommandFactory;
use subscope_render::{Style, markdown, text};

use crate::prelude::*;

/// The list of all pages: `[Title](name.md)` below headings of sections.
const SUMMARY: &str = include_str!("../../book/SUMMARY.md");

/// Declares the pages that are part of the program, by the names of their files.
macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../book/", $name, ".md")))),*]
    };
}

/// Name and Markdown of each page. The page of all commands is not among them: `--help` says the same.
const PAGES: &[(&str, &str)] = pages![
    "introduction",
    "install",
    "quickstart",
    "terminal-ui",
    "keys",
    "page",
    "vscode",
    "sessions",
    "run",
    "hooks",
    "stop",
    "jump",
    "answer",
    "publish",
    "mcp",
    "export",
    "opentelemetry",
    "connect-frameworks",
    "frameworks",
    "interchange",
    "shell",
    "remotes",
    "teams",
    "teams-reference",
    "teams-operate",
    "attribution",
    "status",
    "cost",
    "verify",
    "sources",
    "harnesses",
    "hub",
    "store",
    "operate",
    "security",
    "design",
    "configuration",
    "http-api",
    "http-routes",
    "schemas",
    "parity",
    "drift",
    "windows",
    "troubleshooting",
];

/// Most columns of a page: longer lines are hard to read.
const MOST_COLUMNS: usize = 100;
/// Column of the titles in the list of topics.
const TITLE_COLUMN: usize = 18;

/// Prints a topic, a command's help, or the list of topics.
///
/// # Errors
/// A usage error if there is no such topic or command; a failed write.
pub(crate) fn run(args: &HelpArgs, context: &Context) -> Result<(), CliError> {
    let style = context.style(None);
    let style = Style { width: style.width.min(MOST_COLUMNS), ..style };
    let Some(first) = args.topic.first() else {
        return output::print(&list(&style));
    };
    let command = command_help(&args.topic);
    let page = page(first).filter(|_| args.topic.len() == 1);
    if command.is_none() && page.is_none() {
        let error = CliError::usage(format!("no command or topic {:?}", args.topic.join(" ")));
        return Err(error.hint("`subscope help` lists the topics, `subscope --help` the commands"));
    }
    let page = page.map(|page| markdown::render_page(&readable(page), &style));
    let parts: Vec<String> = command.into_iter().chain(page).collect();
    output::print(&parts.join("\n"))
}

/// Returns the long help of a command or action.
fn command_help(words: &[String]) -> Option<String> {
    let mut all = Cli::command();
    all.build();
    let mut command = &mut all;
    for word in words {
        command = command.find_subcommand_mut(word).filter(|command| !command.is_hide_set())?;
    }
    Some(command.render_long_help().to_string())
}

fn page(name: &str) -> Option<&'static str> {
    PAGES.iter().find(|(page, _)| *page == name).map(|(_, text)| *text)
}

/// Returns the topics in the order of the book.
fn list(style: &Style) -> String {
    let mut source = String::new();
    for line in SUMMARY.lines() {
        if let Some((title, name)) = entry(line).filter(|(_, name)| page(name).is_some()) {
            source.push_str(&format!("    {} {title}\n", text::pad(name, TITLE_COLUMN)));
        } else if let Some(section) = line.strip_prefix("# ") {
            let heading = if section == "Summary" { "Topics" } else { section };
            source.push_str(&format!("\n# {heading}\n\n"));
        }
    }
    source.push_str("\n`subscope help TOPIC` prints one. `subscope COMMAND --help` explains a command.\n");
    markdown::render_page(&source, style)
}

/// Returns title and name of a page that a line of the summary lists.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (title, file) = line.split_once('[')?.1.split_once("](")?;
    Some((title, file.strip_suffix(".md)")?))
}

/// Returns a page as it is printed: without pictures and comments, and with links to other pages as their topics.
fn readable(text: &str) -> String {
    let text = without(&without(text, "<!--", "-->"), "![", ")");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        out.push_str(before);
        let target = after.split_once(')').map_or(after, |(target, _)| target);
        let name = target.split('#').next().and_then(|file| file.strip_suffix(".md"));
        match name.filter(|name| page(name).is_some()) {
            Some(name) => out.push_str(&format!("](<help {name}>")),
            None => out.push_str(&format!("](<{target}>")),
        }
        rest = &after[target.len()..];
    }
    out + rest
}

/// Removes each part of a text from an opening to a closing mark.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        out.push_str(before);
        rest = after.split_once(close).map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_of_the_book_is_a_topic() {
        let listed: BTreeSet<&str> = SUMMARY.lines().filter_map(entry).map(|(_, name)| name).collect();
        let embedded: BTreeSet<&str> = PAGES.iter().map(|(name, _)| *name).chain(["cli"]).collect();
        assert_eq!(listed, embedded, "docs/src/SUMMARY.md and PAGES differ");
    }

    #[test]
    fn every_page_is_printed_without_markup_and_fits() {
        let style = Style { color: false, ascii: false, width: 80 };
        for (name, page) in PAGES {
            let printed = markdown::render_page(&readable(page), &style);
            for mark in ["<!--", "![", "](", "```"] {
                assert!(!printed.contains(mark), "{name} has {mark}");
            }
            assert!(printed.lines().count() > 5, "{name}");
            assert!(printed.lines().all(|line| text::width(line) <= 80), "{name}");
        }
    }

    #[test]
    fn links_to_pages_name_the_topic() {
        let page = "See [Hooks](hooks.md#the-spool) and [more](https://e.test/a).\n![a\nb](images/x.png)\n";
        let style = Style { color: false, ascii: false, width: 80 };
        let printed = markdown::render_page(&readable(page), &style);
        assert_eq!(printed.trim_end(), "See Hooks (help hooks) and more (https://e.test/a).");
    }

    #[test]
    fn a_command_is_found_with_its_action() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(command_help(&words("hooks install")).unwrap().contains("--scope"));
        assert!(command_help(&words("hook")).is_none(), "it is hidden");
        assert!(command_help(&words("troubleshooting")).is_none());
    }
}
