//! Detects the terminal's capabilities (colors, character set, columns) with the reason for each.

use std::io::IsTerminal;

use clap::ColorChoice;
use subscope_platform::AsFile;
use subscope_render::Style;

use crate::{
    config::{AsciiChoice, LoadedConfig},
    environment::Environment,
};

/// Columns if unknown (output to a file or pipe). More than the usual 80, because nothing is wrapped there and
/// truncated text is lost.
const UNKNOWN_WIDTH: usize = 120;
/// Widest terminal that is accepted; larger values come from broken settings.
const WIDEST: usize = 10_000;

/// Facts about an output stream, queried from the operating system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalProbe {
    pub(crate) is_terminal: bool,
    /// Its columns, if known.
    pub(crate) columns: Option<usize>,
}

impl TerminalProbe {
    /// Queries stdout or stderr.
    pub(crate) fn of(stream: &(impl IsTerminal + AsFile)) -> Self {
        let size = terminal_size::terminal_size_of(stream);
        Self { is_terminal: stream.is_terminal(), columns: size.map(|(width, _)| usize::from(width.0)) }
    }
}

/// A detected value with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Detected<T> {
    pub(crate) value: T,
    /// Reason, for people.
    pub(crate) because: String,
}

fn detected<T>(value: T, because: impl Into<String>) -> Detected<T> {
    Detected { value, because: because.into() }
}

/// Capabilities of the output stream.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    /// Whether it is a terminal; redrawing in place needs one.
    pub(crate) is_terminal: bool,
    pub(crate) color: Detected<bool>,
    pub(crate) ascii: Detected<bool>,
    pub(crate) width: Detected<usize>,
}

impl Terminal {
    /// Derives the capabilities from settings, environment and the queried facts.
    pub(crate) fn detect(config: &LoadedConfig, environment: &Environment, probe: TerminalProbe) -> Self {
        Self {
            is_terminal: probe.is_terminal,
            color: color(config, environment, probe),
            ascii: ascii(config, environment),
            width: width(environment, probe),
        }
    }

    pub(crate) fn style(&self) -> Style {
        Style { color: self.color.value, ascii: self.ascii.value, width: self.width.value }
    }
}

fn is_dumb(environment: &Environment) -> bool {
    environment.get("TERM").is_some_and(|term| term == "dumb")
}

/// Decides about colors. `NO_COLOR` counts if not empty (no-color.org), but an explicit `always` overrides it.
fn color(config: &LoadedConfig, environment: &Environment, probe: TerminalProbe) -> Detected<bool> {
    match config.settings.color {
        ColorChoice::Always => detected(true, config.origin("color").to_string()),
        ColorChoice::Never => detected(false, config.origin("color").to_string()),
        ColorChoice::Auto if !probe.is_terminal => detected(false, "output goes elsewhere"),
        ColorChoice::Auto if environment.get("NO_COLOR").is_some() => detected(false, "NO_COLOR is set"),
        ColorChoice::Auto if is_dumb(environment) => detected(false, "TERM is dumb"),
        ColorChoice::Auto => detected(true, "the terminal shows them"),
    }
}

fn ascii(config: &LoadedConfig, environment: &Environment) -> Detected<bool> {
    match config.settings.ascii {
        AsciiChoice::Always => return detected(true, config.origin("ascii").to_string()),
        AsciiChoice::Never => return detected(false, config.origin("ascii").to_string()),
        AsciiChoice::Auto => {}
    }
    if is_dumb(environment) {
        return detected(true, "TERM is dumb");
    }
    // POSIX, "Environment Variables": the first one that is set and not empty counts.
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| Some((name, environment.text(name)?)));
    match locale {
        Some((name, locale)) => detected(!is_utf8(&locale), format!("{name} is {locale}")),
        // Containers set no locale, and the terminals that show them support UTF-8.
        None => detected(false, "no locale is set"),
    }
}

/// Whether a locale is UTF-8. A locale without a character set counts as UTF-8, except `C` and `POSIX`.
fn is_utf8(locale: &str) -> bool {
    let plain = locale.split('@').next().unwrap_or(locale);
    match plain.split_once('.') {
        Some((_, set)) => matches!(set.to_ascii_lowercase().as_str(), "utf-8" | "utf8"),
        None => !matches!(plain, "C" | "POSIX"),
    }
}

fn width(environment: &Environment, probe: TerminalProbe) -> Detected<usize> {
    let columns = environment.text("COLUMNS").and_then(|text| text.trim().parse().ok());
    if let Some(columns) = columns.filter(|columns| (1..=WIDEST).contains(columns)) {
        return detected(columns, "COLUMNS");
    }
    match probe.columns.filter(|columns| (1..=WIDEST).contains(columns)) {
        Some(columns) => detected(columns, "the terminal says so"),
        None => detected(UNKNOWN_WIDTH, "the default, since no terminal says its width"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn detect(config: &LoadedConfig, variables: &[(&str, &str)], is_terminal: bool) -> Terminal {
        let environment = Environment::of(Path::new("/"), variables);
        let probe = TerminalProbe { is_terminal, columns: is_terminal.then_some(90) };
        Terminal::detect(config, &environment, probe)
    }

    fn style(variables: &[(&str, &str)], is_terminal: bool) -> (bool, bool, usize) {
        let style = detect(&LoadedConfig::default(), variables, is_terminal).style();
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
        let mut config = LoadedConfig::default();
        config.set_option("--color", Some(ColorChoice::Always), "color", |settings| &mut settings.color);
        config.set_option("--ascii", Some(AsciiChoice::Never), "ascii", |settings| &mut settings.ascii);
        let terminal = detect(&config, &[("NO_COLOR", "1"), ("TERM", "dumb")], false);
        assert!(terminal.color.value && !terminal.ascii.value);
        assert_eq!(terminal.color.because, "flag (--color)");
    }
}
