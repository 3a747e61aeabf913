//! What the terminal can show: colours, characters, columns, and why.

use std::io::IsTerminal;

use clap::ColorChoice;
use subscope_render::Style;

use crate::{
    config::{AsciiChoice, Display},
    environment::Environment,
};

/// Columns where nothing tells them: output that goes to a file or a pipe. More than the usual 80, because there
/// nothing is wrapped and what is cut is lost.
const UNKNOWN_WIDTH: usize = 120;
/// The widest terminal that is believed; figures beyond come from broken settings.
const WIDEST: usize = 10_000;

/// What the operating system tells of stdout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Whether it is a terminal.
    pub(crate) is_terminal: bool,
    /// Its columns, where it tells.
    pub(crate) columns: Option<usize>,
}

impl Probe {
    /// Asks the operating system.
    pub(crate) fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let size = terminal_size::terminal_size_of(&stdout);
        Self { is_terminal: stdout.is_terminal(), columns: size.map(|(width, _)| usize::from(width.0)) }
    }
}

impl Probe {
    /// Asks about stderr, for what is printed there.
    pub(crate) fn of_stderr() -> Self {
        let stderr = std::io::stderr();
        let size = terminal_size::terminal_size_of(&stderr);
        Self { is_terminal: stderr.is_terminal(), columns: size.map(|(width, _)| usize::from(width.0)) }
    }
}

/// A conclusion and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found<T> {
    /// The conclusion.
    pub(crate) value: T,
    /// What it rests on, for people.
    pub(crate) because: String,
}

fn found<T>(value: T, because: impl Into<String>) -> Found<T> {
    Found { value, because: because.into() }
}

/// What stdout can show.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    /// Whether it is a terminal: what is redrawn in place needs one.
    pub(crate) is_terminal: bool,
    /// Whether colours are used.
    pub(crate) color: Found<bool>,
    /// Whether only ASCII is drawn.
    pub(crate) ascii: Found<bool>,
    /// Its columns.
    pub(crate) width: Found<usize>,
}

impl Terminal {
    /// Concludes from settings, environment and what the operating system tells.
    pub(crate) fn conclude(display: &Display, environment: &Environment, probe: Probe) -> Self {
        Self {
            is_terminal: probe.is_terminal,
            color: color(display, environment, probe),
            ascii: ascii(display, environment),
            width: width(environment, probe),
        }
    }

    /// Returns how output is to look.
    pub(crate) fn style(&self) -> Style {
        Style { color: self.color.value, ascii: self.ascii.value, width: self.width.value }
    }
}

fn is_dumb(environment: &Environment) -> bool {
    environment.get("TERM").is_some_and(|term| term == "dumb")
}

/// `NO_COLOR` counts when it is not empty (no-color.org), but an option or a setting that says `always` is meant.
fn color(display: &Display, environment: &Environment, probe: Probe) -> Found<bool> {
    match display.color.value {
        ColorChoice::Always => found(true, display.color.origin.to_string()),
        ColorChoice::Never => found(false, display.color.origin.to_string()),
        ColorChoice::Auto if !probe.is_terminal => found(false, "output goes elsewhere"),
        ColorChoice::Auto if environment.get("NO_COLOR").is_some() => found(false, "NO_COLOR is set"),
        ColorChoice::Auto if is_dumb(environment) => found(false, "TERM is dumb"),
        ColorChoice::Auto => found(true, "the terminal shows them"),
    }
}

fn ascii(display: &Display, environment: &Environment) -> Found<bool> {
    match display.ascii.value {
        AsciiChoice::Always => return found(true, display.ascii.origin.to_string()),
        AsciiChoice::Never => return found(false, display.ascii.origin.to_string()),
        AsciiChoice::Auto => {}
    }
    if is_dumb(environment) {
        return found(true, "TERM is dumb");
    }
    // POSIX, "Environment Variables": the first that is set and not empty counts.
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| Some((name, environment.text(name)?)));
    match locale {
        Some((name, locale)) => found(!speaks_utf8(&locale), format!("{name} is {locale}")),
        // Containers set none, and the terminals that they are seen in show UTF-8.
        None => found(false, "no locale is set"),
    }
}

/// Whether a locale is of UTF-8. One that names no character set is taken for one, but for the two plain ones.
fn speaks_utf8(locale: &str) -> bool {
    let plain = locale.split('@').next().unwrap_or(locale);
    match plain.split_once('.') {
        Some((_, set)) => matches!(set.to_ascii_lowercase().as_str(), "utf-8" | "utf8"),
        None => !matches!(plain, "C" | "POSIX"),
    }
}

fn width(environment: &Environment, probe: Probe) -> Found<usize> {
    let told = environment.text("COLUMNS").and_then(|text| text.trim().parse().ok());
    if let Some(columns) = told.filter(|columns| (1..=WIDEST).contains(columns)) {
        return found(columns, "COLUMNS");
    }
    match probe.columns.filter(|columns| (1..=WIDEST).contains(columns)) {
        Some(columns) => found(columns, "the terminal says so"),
        None => found(UNKNOWN_WIDTH, "nothing tells"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Settings;

    fn conclude(flags: crate::config::Raw, variables: &[(&str, &str)], is_terminal: bool) -> Terminal {
        let environment = Environment::of(Path::new("/"), variables);
        let probe = Probe { is_terminal, columns: is_terminal.then_some(90) };
        Terminal::conclude(&Settings::from(flags).display, &environment, probe)
    }

    fn style(variables: &[(&str, &str)], is_terminal: bool) -> (bool, bool, usize) {
        let style = conclude(Default::default(), variables, is_terminal).style();
        (style.color, style.ascii, style.width)
    }

    #[test]
    fn auto_follows_terminal_and_environment() {
        assert_eq!(style(&[], true), (true, false, 90));
        assert_eq!(style(&[], false), (false, false, UNKNOWN_WIDTH));
        assert_eq!(style(&[("NO_COLOR", "1")], true), (false, false, 90));
        assert_eq!(style(&[("NO_COLOR", "")], true), (true, false, 90));
        assert_eq!(style(&[("TERM", "dumb")], true), (false, true, 90));
        assert_eq!(style(&[("COLUMNS", "60")], true), (true, false, 60));
        for columns in ["0", "wide", "99999999"] {
            assert_eq!(style(&[("COLUMNS", columns)], true).2, 90, "{columns}");
        }
    }

    #[test]
    fn ascii_follows_the_first_locale_that_is_set() {
        for (locale, ascii) in [
            ("C", true),
            ("POSIX", true),
            ("C.UTF-8", false),
            ("de_DE", false),
            ("de_DE.UTF-8@euro", false),
            ("en_US.ISO-8859-1", true),
        ] {
            assert_eq!(style(&[("LANG", locale)], true).1, ascii, "{locale}");
        }
        assert!(!style(&[("LANG", "C"), ("LC_ALL", "en_US.utf8")], true).1);
    }

    #[test]
    fn settings_win_over_the_environment() {
        let mut flags = crate::config::Raw::default();
        flags.display.color = crate::config::Sourced::flag("--color", Some(ColorChoice::Always));
        flags.display.ascii = crate::config::Sourced::flag("--ascii", Some(AsciiChoice::Never));
        let terminal = conclude(flags, &[("NO_COLOR", "1"), ("TERM", "dumb")], false);
        assert!(terminal.color.value && !terminal.ascii.value);
        assert_eq!(terminal.color.because, "flag (--color)");
    }
}
