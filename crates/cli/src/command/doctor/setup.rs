//! Checks of the user's setup: settings, prices, store, archive, terminal.

use std::path::PathBuf;

use subscope_client::ClientError;
use subscope_collect::archive::{Archive, Verified};
use subscope_model::{Health, HubMode, Millis, Problem, parse_rfc3339};
use subscope_render::text::{self, plural};
use subscope_store::{Access, OpenError, SqliteStore, TextIndex};

use super::{super::hooks::status, Check};
use crate::{
    args::value::format_duration, config::LoadedConfig, hub_connection, prelude::*, prices::Prices,
    terminal::Terminal,
};

/// Age in days from which prices are likely to be outdated: models and prices change several times a year.
const OLD_DAYS: i64 = 180;
/// Terminal width below which trees drop columns.
const NARROW: usize = 60;
/// Sessions that are named at most.
const LISTED: usize = 3;
const DAY_MS: i64 = 86_400_000;

/// Reports the settings files and their errors.
pub(super) fn settings(config: &LoadedConfig) -> Vec<Check> {
    let name = "settings";
    let mut checks: Vec<Check> =
        config.errors.iter().map(|error| Check::failure(name, error.to_string())).collect();
    checks.extend(config.warnings.iter().map(|warning| Check::warning(name, warning)));
    let listen = config.settings.hub.listen;
    if !listen.ip().is_loopback() {
        let message = format!("hub.listen is {listen}: no command can start a background hub there");
        checks.push(Check::warning(name, message).hint(
            "write 127.0.0.1:7337 into the settings; `subscope serve --listen ADDRESS --token-file FILE` serves others",
        ));
    }
    if checks.is_empty() {
        let paths = config.paths.all.iter().filter(|path| path.exists());
        let files: Vec<String> = paths.map(|path| path.path.display().to_string()).collect();
        let message =
            if files.is_empty() { "no settings file; defaults apply".to_owned() } else { files.join(", ") };
        checks.push(Check::ok(name, message));
    }
    checks
}

/// Reports the origin and the age of the prices.
pub(super) fn prices(prices: Result<&Prices, CliError>, now_ms: Millis) -> Check {
    let name = "prices";
    let prices = match prices {
        Ok(prices) => prices,
        Err(error) => return Check::failure(name, error.to_string()),
    };
    let table = &prices.table;
    let from = match &prices.file {
        Some(file) => format!("{}, {} ({})", file.display(), table.source, prices.origin),
        None => format!("bundled, {}", table.source),
    };
    let message = format!("{} models: {from}, taken {}", table.models.len(), table.date);
    let hint = "--prices FILE takes others; unknown models have no price and are never guessed";
    match parse_rfc3339(&format!("{}T00:00:00Z", table.date)) {
        Some(taken_ms) if now_ms.saturating_sub(taken_ms) > OLD_DAYS * DAY_MS => {
            let days = now_ms.saturating_sub(taken_ms) / DAY_MS;
            Check::warning(name, format!("{message}: {days} days old")).hint(hint)
        }
        Some(_) => Check::ok(name, message),
        None => Check::warning(name, format!("{message}: not a date")).hint(hint),
    }
}

/// Checks the data directory: if it exists it must be a directory with a readable store.
pub(super) fn store(folder: Result<PathBuf, CliError>) -> Check {
    let folder = match folder {
        Ok(folder) => folder,
        Err(error) => return Check::failure("store", error.to_string()),
    };
    let hint = "--store or SUBSCOPE_DATA_DIR names another folder";
    if folder.exists() && !folder.is_dir() {
        return Check::failure("store", format!("the data folder {} is not a folder", folder.display()))
            .hint(hint);
    }
    let repair = "`subscope doctor --repair` sets it aside, keeps what can be read and rebuilds the rest";
    match SqliteStore::find_damage(&folder) {
        Ok(None) => {}
        Ok(Some(what)) => {
            let message = format!("the store in {} is damaged: {what}", folder.display());
            return Check::failure("store", message).hint(repair);
        }
        Err(error) => return Check::failure("store", CliError::from(error).to_string()).hint(hint),
    }
    match SqliteStore::open(&folder, Access::Read, "", 0) {
        Ok(store) => {
            let says = format!("{} of rows in {}", text::bytes(store.bytes().unwrap_or(0)), folder.display());
            match store.sessions_with_lost_trees() {
                Ok(lost) if lost.is_empty() => Check::ok("store", says),
                Ok(lost) => {
                    let ids: Vec<&str> = lost.iter().map(|id| id.as_str()).take(LISTED).collect();
                    let more = if lost.len() > LISTED { ", …" } else { "" };
                    let count = plural(lost.len() as u64, "session");
                    Check::warning(
                        "store",
                        format!("{says}; a repair lost the agents of {count}: {}{more}", ids.join(", ")),
                    )
                    .hint("`ls` and `stats` still have their figures; `subscope forget ID` deletes them")
                }
                Err(error) => Check::failure("store", error.to_string()).hint(repair),
            }
        }
        Err(OpenError::Missing(_)) => {
            Check::ok("store", format!("nothing kept yet; it will be in {}", folder.display()))
        }
        Err(error) => Check::failure("store", error.to_string()).hint(hint),
    }
}

/// Checks the full text; `None` if there is none.
pub(super) fn texts(folder: Result<PathBuf, CliError>) -> Option<Check> {
    let name = "full text";
    // A missing data directory is reported by the check of the store.
    Some(match TextIndex::find_damage(&folder.ok()?) {
        Ok(None) => return None,
        Ok(Some(what)) => Check::warning(name, format!("it is damaged: {what}"))
            .hint("it is rebuilt when it is used, or by `subscope doctor --repair`"),
        Err(error) => Check::failure(name, CliError::from(error).to_string()),
    })
}

/// Reports whether a hub runs; `None` without a data directory.
pub(super) fn hub(context: &Context) -> Option<Check> {
    let (name, folder) = ("hub", context.data_folder().ok()?);
    Some(match hub_connection::greet(&folder) {
        Ok((_, Health { pid, mode, url, problems, .. })) => {
            let ends = match mode {
                HubMode::Background => {
                    format!(
                        "in the background, ends when nobody has needed it for {}",
                        format_duration(context.settings().hub.idle)
                    )
                }
                HubMode::Foreground => "in the foreground".to_owned(),
                HubMode::Command => "in another command, as long as that".to_owned(),
            };
            let running = format!("process {pid} {ends}; page and API at {url}");
            match problems.last() {
                None => Check::ok(name, running),
                Some(Problem { at, what }) => {
                    let count = problems.len();
                    Check::warning(name, format!("{running}; input that no session could be read from: {at}: {what}"))
                        .hint(format!("{count} of the newest are in `problems` of {url}/healthz"))
                }
            }
        }
        Err(ClientError::Unreachable { address, .. }) if SqliteStore::is_written(&folder) => {
            Check::failure(name, format!("a process writes the store in {} and does not answer at {address}", folder.display()))
                .hint("`subscope index` ends by itself; end a hub whose socket was deleted with kill: the next command starts another")
        }
        Err(ClientError::Unreachable { .. }) => {
            Check::ok(name, "none runs; commands start one in the background when they need it")
        }
        Err(error) => Check::failure(name, error.to_string())
            .hint("`subscope serve --stop` ends a hub; one that hangs has to be killed"),
    })
}

/// Reports hooks that are not as they should be, events of hooks that cannot be read, and hooks that name an unknown harness.
pub(super) fn hooks(context: &Context) -> Vec<Check> {
    let warning = |(says, hint)| Check::warning("hooks", says).hint(hint);
    let mut checks: Vec<Check> = match status::problems(context) {
        Ok(problems) => problems.into_iter().map(warning).collect(),
        Err(error) => vec![Check::warning("hooks", error.to_string())],
    };
    // A missing data directory is reported by the check of the store.
    let Ok(data) = context.data_folder() else { return checks };
    let failure = |(says, hint)| Check::failure("hooks", says).hint(hint);
    checks.extend(status::waiting(&data).problems().map(failure));
    checks
}

/// Verifies the checksums of compressed transcripts; empty if there are none.
pub(super) fn archive(archive: Result<Archive, CliError>) -> Vec<Check> {
    let name = "archive";
    // A missing data directory is reported by the check of the store.
    let Ok(archive) = archive else { return Vec::new() };
    let Verified { files, without_checksums, damaged } = archive.verify();
    if !damaged.is_empty() {
        let failure = |(path, what): (PathBuf, String)| {
            Check::failure(name, format!("{}: {what}", path.display())).hint(
                "copy the file from a backup; without one, subscope continues to read what is left of it",
            )
        };
        return damaged.into_iter().map(failure).collect();
    }
    let message = format!("{files} compressed transcripts");
    match (files, without_checksums) {
        (0, _) => Vec::new(),
        (_, 0) => vec![Check::ok(name, format!("{message}; all checksums are right"))],
        (_, some) => {
            let message = format!("{message}, {some} of an older version without checksums");
            vec![Check::warning(name, message).hint("`subscope index` adds them")]
        }
    }
}

/// Reports the detected capabilities of stdout with their reasons.
pub(super) fn terminal(terminal: &Terminal) -> [Check; 3] {
    let name = "terminal";
    let (color, ascii, width) = (&terminal.color, &terminal.ascii, &terminal.width);
    let kind = if terminal.is_terminal { "a terminal" } else { "no terminal" };
    let message = if color.value { "colors" } else { "no colors" };
    let colors = Check::ok(name, format!("stdout is {kind}; {message}: {}", color.because));
    let message = if ascii.value { "ASCII" } else { "Unicode" };
    let letters = Check::ok(name, format!("{message}: {}", ascii.because));
    let message = format!("{} columns: {}", width.value, width.because);
    let columns = if width.value < NARROW {
        Check::warning(name, message).hint(format!("trees are drawn whole from {NARROW} columns on"))
    } else {
        Check::ok(name, message)
    };
    [colors, letters, columns]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{super::CheckState, *};
    use crate::{
        config::{ConfigPaths, LoadedConfig, SettingOrigin, load},
        environment::Environment,
        prices,
        terminal::TerminalProbe,
    };

    #[test]
    fn prices_tell_source_date_and_age() {
        let read = prices::load(None, SettingOrigin::default()).unwrap();
        let taken_ms = parse_rfc3339(&format!("{}T00:00:00Z", read.table.date)).unwrap();
        let young = super::prices(Ok(&read), taken_ms + DAY_MS);
        assert_eq!(young.state, CheckState::Ok);
        assert!(
            young.says.contains("bundled, litellm") && young.says.ends_with(&read.table.date),
            "{}",
            young.says
        );
        let old = super::prices(Ok(&read), taken_ms + 200 * DAY_MS);
        assert_eq!(old.state, CheckState::Warning);
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
            let loaded = load(ConfigPaths::find(None, &environment), &environment);
            settings(&loaded).iter().map(|check| check.state).collect::<Vec<_>>()
        };
        assert_eq!(states(None), [CheckState::Ok]);
        assert_eq!(states(Some("ascii = true")), [CheckState::Ok]);
        assert_eq!(states(Some("ascii = 3\nfont = 'x'")), [CheckState::Failure, CheckState::Warning]);
    }

    #[test]
    fn terminal_tells_each_conclusion_and_why() {
        let environment = Environment::of(Path::new("/"), &[("TERM", "dumb"), ("COLUMNS", "40")]);
        let probe = TerminalProbe { is_terminal: true, columns: None };
        let checks = terminal(&Terminal::detect(&LoadedConfig::default(), &environment, probe));
        let says: Vec<&str> = checks.iter().map(|check| check.says.as_str()).collect();
        assert_eq!(
            says,
            ["stdout is a terminal; no colors: TERM is dumb", "ASCII: TERM is dumb", "40 columns: COLUMNS"]
        );
        assert_eq!(checks[2].state, CheckState::Warning);
    }
}
