//! `subscope bug-report`: writes a text file for a bug report, and prints it first. It has no text of agents; paths of
//! the user's home are shortened, and what looks like a secret is masked.

use std::{fmt::Write as _, fs, io::Write as _};

use subscope_export::redact;
use subscope_platform::OpenPolicy as _;

use super::doctor;
use crate::{config::Layer, hub_connection::log_path, prelude::*};

/// Lines of the hub's log that are included.
const LOG_LINES: usize = 100;

pub(crate) fn run(args: &BugReportArgs, context: &Context) -> Result<(), CliError> {
    let report = report(context);
    output::print(&report)?;
    let Some(path) = &args.output else {
        context.info("nothing was written: `-o FILE` writes this report to a file");
        return Ok(());
    };
    // Never over another file: its owner may need that.
    let file = fs::OpenOptions::new().write(true).create_new(true).private().open(path);
    let written = file.and_then(|mut file| file.write_all(report.as_bytes()));
    written.map_err(|error| CliError::write(path.display(), error))?;
    context.info(&format!("{} has the report above: read it before you share it", path.display()));
    Ok(())
}

fn report(context: &Context) -> String {
    let mut out = String::new();
    let mut section = |title: &str, text: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "## {title}\n\n{}\n", text.trim_end());
    };
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    section("version", &format!("subscope {}\n{system}", env!("CARGO_PKG_VERSION")));
    section("doctor", &doctor::report(context));
    section("settings that differ from their defaults", &settings(context));
    section(&format!("last {LOG_LINES} lines of the hub's log"), &log(context));
    let home = context.environment.text("HOME").filter(|home| home.len() > 1);
    let out = home.map_or(out.clone(), |home| out.replace(&*home, "~"));
    redact(&out).into_owned()
}

fn settings(context: &Context) -> String {
    let rows = context.config.rows().into_iter().filter(|row| row.origin.layer != Layer::Default);
    let lines: Vec<String> =
        rows.map(|row| format!("{} = {} ({})", row.key, row.value, row.origin.layer.as_str())).collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}

fn log(context: &Context) -> String {
    let path = context.data_folder().map(|data| log_path(&data, context));
    let text = path.ok().and_then(|path| fs::read(path).ok());
    let Some(text) = text else { return "there is no log".to_owned() };
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
