//! The documentation and the command line agree: every command line of README and book is accepted, and the page of
//! all commands is what their help says.

mod deployments;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory, Parser, error::ErrorKind};
use subscope_program::{TEAM_PROGRAM, TeamProgram};

use super::{Cli, TEMPLATE};

/// Least command lines that the documentation has; fewer means that the search misses them.
const LEAST_LINES: usize = 150;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page of all commands. clap has wrapped its lines; their source is checked with the help.
const COMMANDS: &str = "docs/src/cli.md";

/// Returns README and all pages of the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") && !path.ends_with(COMMANDS)
            {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Splits a shell line into its words. Comments and redirections are dropped; `|`, `&&`, `;` and `&` are words.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            // Help texts explain a line after two blanks.
            (None, ' ') if word.is_some() && characters.peek() == Some(&' ') => break,
            (None, ' ') => words.extend(word.take()),
            (None, '>' | '<') if word.as_deref().is_none_or(|word| word.parse::<u8>().is_ok()) => break,
            // A substitution begins a command.
            (None, '(') if word.as_ref().is_some_and(|word| word.ends_with('$')) => {
                word = None;
                words.push("|".into());
            }
            (None, '|' | ';' | '&' | ')') => {
                words.extend(word.take());
                words.push(character.to_string());
            }
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Returns the calls of our programs in a shell line: as a command, or as the command of another one after `--`.
fn calls(line: &str) -> Vec<Vec<String>> {
    let mut calls = Vec::new();
    for command in words(line).split(|word| matches!(word.as_str(), "|" | ";" | "&" | ")")) {
        let is_assignment = |word: &&String| word.contains('=') && !word.starts_with('-');
        let start = command.iter().take_while(is_assignment).count();
        let command = &command[start..];
        if command.first().is_some_and(|word| word == "subscope" || word == TEAM_PROGRAM) {
            calls.push(command.to_vec());
        } else if let Some(at) = command.windows(2).position(|pair| pair == ["--", "subscope"]) {
            calls.push(command[at + 1..].to_vec());
        }
    }
    calls
}

/// Where a command line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a block: it must be complete.
    Block,
    /// In a sentence or table: it may be the mere name of a command.
    Sentence,
}

/// Returns the shell lines of a page with their line numbers: those of code blocks, continued lines joined, and code in
/// sentences and tables.
fn shell_lines(page: &str) -> Vec<(usize, Place, String)> {
    let mut lines = Vec::new();
    let mut block: Option<&str> = None;
    let mut open: Option<(usize, String)> = None;
    for (index, line) in page.lines().enumerate() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(fence) };
            continue;
        }
        match block {
            Some("" | "sh" | "text" | "console") => {
                let (number, before) = open.take().unwrap_or((index + 1, String::new()));
                let joined = before + line.trim();
                match joined.strip_suffix('\\') {
                    Some(begun) => open = Some((number, begun.to_owned())),
                    None => lines.push((number, Place::Block, joined)),
                }
            }
            Some(_) => {}
            None => {
                let code = line
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .filter(|code| code.contains("subscope ") || code.contains("subscope-team "));
                lines.extend(code.map(|code| (index + 1, Place::Sentence, code.to_owned())));
            }
        }
    }
    lines
}

/// Parses a call; the error is the first line of what clap says. A word in capitals is a placeholder.
fn parse(call: &[String], place: Place) -> Result<(), String> {
    let parsed = if call[0] == TEAM_PROGRAM {
        TeamProgram::try_parse_from(call).map(drop)
    } else {
        Cli::try_parse_from(call).map(drop)
    };
    let Err(error) = parsed else { return Ok(()) };
    let is_placeholder =
        |word: &String| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase());
    let kind = error.kind();
    let is_answer = matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let is_incomplete = matches!(
        kind,
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let is_open =
        matches!(kind, ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::InvalidSubcommand)
            && call.iter().any(is_placeholder);
    let is_fine = is_answer || place == Place::Sentence && (is_incomplete || is_open);
    if is_fine { Ok(()) } else { Err(error.to_string().lines().next().unwrap_or_default().to_owned()) }
}

#[test]
fn every_command_line_of_the_documentation_is_accepted() {
    let mut count = 0;
    let mut refused = String::new();
    for page in pages() {
        for (line, place, text) in shell_lines(&fs::read_to_string(&page).unwrap()) {
            for call in calls(&text) {
                count += 1;
                if let Err(why) = parse(&call, place) {
                    writeln!(refused, "{}:{line}: {text}: {why}", page.display()).unwrap();
                }
            }
        }
    }
    println!("{count} command lines of the documentation were parsed");
    assert!(refused.is_empty(), "{refused}");
    assert!(count >= LEAST_LINES, "only {count} command lines were found");
}

#[test]
fn every_example_in_help_is_accepted() {
    let mut all = Cli::command();
    all.build();
    let mut commands: Vec<&Command> = vec![&all];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        let help = command.get_after_long_help().or(command.get_after_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        // Examples are indented; sentences are not.
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            for call in calls(line.trim()) {
                assert_eq!(parse(&call, Place::Block), Ok(()), "{}: {line}", command.get_name());
            }
        }
    }
}

#[test]
fn help_lists_every_command_in_a_group() {
    let all = Cli::command();
    for command in all.get_subcommands() {
        let line = format!("\n  {:12} {}\n", command.get_name(), command.get_about().unwrap());
        assert_eq!(TEMPLATE.contains(&line), !command.is_hide_set(), "TEMPLATE and {line}");
    }
}

#[test]
fn every_command_has_an_example() {
    let all = Cli::command();
    let visible = |command: &&Command| !command.is_hide_set();
    for command in all.get_subcommands().filter(visible) {
        let help = |command: &Command| command.get_after_long_help().map(ToString::to_string);
        let own = help(command).unwrap_or_default();
        let example = format!("subscope {}", command.get_name());
        assert!(own.starts_with("Examples:\n") && own.contains(&example), "{}", command.get_name());
        for inner in command.get_subcommands().filter(visible) {
            let example = format!("{} {}", command.get_name(), inner.get_name());
            let has_one = own.contains(&example) || help(inner).is_some_and(|help| help.contains(&example));
            assert!(has_one, "{example} has no example");
        }
    }
}

#[test]
fn command_lines_are_found_in_pipes_assignments_and_other_commands() {
    let found = |line: &str| calls(line).iter().map(|call| call.join(" ")).collect::<Vec<_>>();
    assert_eq!(found("A=1 B='2 3' subscope ls -n 3 | jq ."), ["subscope ls -n 3"]);
    assert_eq!(found("claude -p \"a b\" | subscope watch - > x"), ["subscope watch -"]);
    assert_eq!(found("claude mcp add x -- subscope mcp query"), ["subscope mcp query"]);
    assert_eq!(
        found("stop=$(subscope publish --type subagent_end)"),
        ["subscope publish --type subagent_end"]
    );
    assert_eq!(found("subscope ls   # everything"), ["subscope ls"]);
    assert_eq!(found("subscope serve &"), ["subscope serve"]);
    assert_eq!(found("the subscope book"), [] as [String; 0]);
    let lines =
        shell_lines("a `subscope ls` b\n```sh\nsubscope \\\n  tree last\n```\n```toml\nsubscope no\n```\n");
    let expected =
        [(1, Place::Sentence, "subscope ls".to_owned()), (3, Place::Block, "subscope tree last".to_owned())];
    assert_eq!(lines, expected);
    assert_eq!(parse(&calls("subscope stop")[0], Place::Sentence), Ok(()));
    assert!(parse(&calls("subscope stop")[0], Place::Block).is_err());
    assert!(parse(&calls("subscope ls --newest")[0], Place::Sentence).is_err());
}

fn help_text(command: &mut Command, path: &str, level: usize, out: &mut String) {
    let help = command.render_long_help().to_string();
    let mut help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    // The options of every command are listed once.
    if level > 2
        && let Some((before, global)) = help.split_once("\nGlobal options:\n")
    {
        let rest = global.split("\n\n").skip_while(|part| part.starts_with("  ")).collect::<Vec<_>>();
        help = format!("{before}\n{}", rest.join("\n\n"));
    }
    writeln!(out, "\n{} {path}\n\n```text\n{}\n```", "#".repeat(level), help.trim_end()).unwrap();
}

fn section(command: &mut Command, path: &str, level: usize, out: &mut String) {
    help_text(command, path, level, out);
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
        let path = format!("{path} {}", inner.get_name());
        if inner.get_name() != "help" || level == 2 {
            section(inner, &path, level + 1, out);
        }
    }
}

#[test]
fn page_lists_every_command() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut page = "# Commands\n\nThis page is for you if you look up an option: it has every command. `subscope COMMAND --help` prints \
                    the same.\n\nGenerated by `cargo xtask types` from the definition of the command line.\n"
        .to_owned();
    section(&mut command, "subscope", 2, &mut page);
    // Its commands are those of `subscope team`.
    help_text(&mut TeamProgram::command().term_width(100), TEAM_PROGRAM, 2, &mut page);
    subscope_testkit::generated::check("docs/src/cli.md", &page);
}
