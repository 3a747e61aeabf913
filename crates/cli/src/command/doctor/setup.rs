//! What the user set up: files of settings, prices, the terminal.

use std::path::PathBuf;

use subscope_collect::archive::{Archive, Verified};
use subscope_model::{Millis, parse_rfc3339};
use subscope_store::{Access, OpenError, SqliteStore};

use super::{Check, State};
use crate::{config::Loaded, error::CliError, prices::Prices, terminal::Terminal};

/// Age of prices from which on they are likely to be wrong: models and prices change several times a year.
const OLD_DAYS: i64 = 180;
/// Columns below which trees lose columns.
const NARROW: usize = 60;
const DAY_MS: i64 = 86_400_000;

/// Says which files of settings there are and what is wrong in them.
pub(super) fn settings(config: &Loaded) -> Vec<Check> {
    let name = "settings";
    let mut checks: Vec<Check> =
        config.errors.iter().map(|error| Check::new(name, State::Failure, error.to_string())).collect();
    checks.extend(config.warnings.iter().map(|warning| Check::new(name, State::Warning, warning)));
    if checks.is_empty() {
        let places = config.places.all().iter().filter(|place| place.exists());
        let files: Vec<String> = places.map(|place| place.path.display().to_string()).collect();
        let says =
            if files.is_empty() { "no file; the built-in ones hold".to_owned() } else { files.join(", ") };
        checks.push(Check::new(name, State::Ok, says));
    }
    checks
}

/// Says where prices come from and how old they are.
pub(super) fn prices(prices: Result<&Prices, CliError>, now_ms: Millis) -> Check {
    let name = "prices";
    let prices = match prices {
        Ok(prices) => prices,
        Err(error) => return Check::new(name, State::Failure, error.to_string()),
    };
    let table = &prices.table;
    let from = match &prices.file {
        Some(file) => format!("{}, {} ({})", file.display(), table.source, prices.origin),
        None => format!("bundled, {}", table.source),
    };
    let says = format!("{} models: {from}, taken {}", table.models.len(), table.date);
    let hint = "--prices FILE takes others; unknown models have no price and are never guessed";
    match parse_rfc3339(&format!("{}T00:00:00Z", table.date)) {
        Some(taken_ms) if now_ms.saturating_sub(taken_ms) > OLD_DAYS * DAY_MS => {
            let days = now_ms.saturating_sub(taken_ms) / DAY_MS;
            Check::new(name, State::Warning, format!("{says}: {days} days old")).hint(hint)
        }
        Some(_) => Check::new(name, State::Ok, says),
        None => Check::new(name, State::Warning, format!("{says}: not a date")).hint(hint),
    }
}

/// Says what is kept in the folder for data; what is there already has to be a folder, and a store that can be read.
pub(super) fn store(folder: Result<PathBuf, CliError>) -> Check {
    let folder = match folder {
        Ok(folder) => folder,
        Err(error) => return Check::new("store", State::Failure, error.to_string()),
    };
    let hint = "--store or SUBSCOPE_DATA_DIR names another folder";
    if folder.exists() && !folder.is_dir() {
        return Check::new(
            "store",
            State::Failure,
            format!("{}, meant for data, is no folder", folder.display()),
        )
        .hint(hint);
    }
    match SqliteStore::open(&folder, Access::Read, "", 0) {
        Ok(store) => {
            let megabytes = store.bytes().unwrap_or(0) >> 20;
            Check::new("store", State::Ok, format!("{megabytes} MB of rows in {}", folder.display()))
        }
        Err(OpenError::Missing(_)) => {
            Check::new("store", State::Ok, format!("nothing kept yet; it will be in {}", folder.display()))
        }
        Err(error) => Check::new("store", State::Failure, error.to_string()).hint(hint),
    }
}

/// Says whether each compressed transcript is what was written; nothing where there is none.
pub(super) fn archive(archive: Result<Archive, CliError>) -> Vec<Check> {
    let name = "archive";
    // That there is no folder for data is said of the store.
    let Ok(archive) = archive else { return Vec::new() };
    let Verified { files, without_checksums, damaged } = archive.verify();
    if !damaged.is_empty() {
        let failure = |(path, what): (PathBuf, String)| {
            Check::new(name, State::Failure, format!("{}: {what}", path.display()))
                .hint("copy the file from a backup; without one, subscope goes on reading what is left of it")
        };
        return damaged.into_iter().map(failure).collect();
    }
    let says = format!("{files} compressed transcripts");
    match (files, without_checksums) {
        (0, _) => Vec::new(),
        (_, 0) => vec![Check::new(name, State::Ok, format!("{says}; all checksums are right"))],
        (_, some) => {
            let says = format!("{says}, {some} of an older version without checksums");
            vec![Check::new(name, State::Warning, says).hint("`subscope index` adds them")]
        }
    }
}

/// Says what stdout can show, and why.
pub(super) fn terminal(terminal: &Terminal) -> [Check; 3] {
    let name = "terminal";
    let (color, ascii, width) = (&terminal.color, &terminal.ascii, &terminal.width);
    let kind = if terminal.is_terminal { "a terminal" } else { "no terminal" };
    let says = if color.value { "colours" } else { "no colours" };
    let colors = Check::new(name, State::Ok, format!("stdout is {kind}; {says}: {}", color.because));
    let says = if ascii.value { "ASCII" } else { "Unicode" };
    let letters = Check::new(name, State::Ok, format!("{says}: {}", ascii.because));
    let says = format!("{} columns: {}", width.value, width.because);
    let columns = if width.value < NARROW {
        Check::new(name, State::Warning, says).hint(format!("trees are drawn whole from {NARROW} columns on"))
    } else {
        Check::new(name, State::Ok, says)
    };
    [colors, letters, columns]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        config::{Places, Raw, Settings, load},
        environment::Environment,
        prices,
        terminal::Probe,
    };

    #[test]
    fn prices_tell_source_date_and_age() {
        let read = prices::load(None).unwrap();
        let taken_ms = parse_rfc3339(&format!("{}T00:00:00Z", read.table.date)).unwrap();
        let young = super::prices(Ok(&read), taken_ms + DAY_MS);
        assert_eq!(young.state, State::Ok);
        assert!(
            young.says.contains("bundled, litellm") && young.says.ends_with(&read.table.date),
            "{}",
            young.says
        );
        let old = super::prices(Ok(&read), taken_ms + 200 * DAY_MS);
        assert_eq!(old.state, State::Warning);
        assert!(old.says.ends_with("200 days old"), "{}", old.says);
    }

    #[test]
    fn wrong_settings_are_broken_and_unknown_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let states = |text: Option<&str>| {
            let file = folder.path().join("c.toml");
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            let name = file.to_str().unwrap().to_owned();
            let chosen = if text.is_some() { vec![("SUBSCOPE_CONFIG", name.as_str())] } else { vec![] };
            let environment = Environment::of(Path::new("/nowhere"), &chosen);
            let loaded = load(Places::find(None, &environment), &environment, Raw::default());
            settings(&loaded).iter().map(|check| check.state).collect::<Vec<_>>()
        };
        assert_eq!(states(None), [State::Ok]);
        assert_eq!(states(Some("ascii = true")), [State::Ok]);
        assert_eq!(states(Some("ascii = 3\nfont = 'x'")), [State::Failure, State::Warning]);
    }

    #[test]
    fn terminal_tells_each_conclusion_and_why() {
        let environment = Environment::of(Path::new("/"), &[("TERM", "dumb"), ("COLUMNS", "40")]);
        let display = Settings::from(Raw::default()).display;
        let probe = Probe { is_terminal: true, columns: None };
        let checks = terminal(&Terminal::conclude(&display, &environment, probe));
        let says: Vec<&str> = checks.iter().map(|check| check.says.as_str()).collect();
        assert_eq!(
            says,
            ["stdout is a terminal; no colours: TERM is dumb", "ASCII: TERM is dumb", "40 columns: COLUMNS"]
        );
        assert_eq!(checks[2].state, State::Warning);
    }
}
