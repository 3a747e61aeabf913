//! `subscope verify`: compares what subscope says with what the harnesses themselves wrote, and with itself.

mod compare;
mod read;
mod report;
mod sessions;
mod whole;

use std::{fs, io::Write as _, path::Path};

use subscope_platform::OpenPolicy as _;

pub(in crate::command) use self::report::VerifyReport;
use self::sessions::Lists;
use crate::prelude::*;

pub(crate) fn run(args: &VerifyArgs, context: &Context) -> Result<(), CliError> {
    let mut report = VerifyReport::default();
    let mut each = |subject: sessions::Subject| report.add(&subject, compare::verify(&subject));
    let lists = match &args.path {
        None => Some(sessions::each_of_homes(context, &mut each)?),
        Some(path) => sessions::each_at(path, context, &mut each)?,
    };
    if let Some(Lists { rows, stats, unread, files_left_out }) = lists {
        report.files_left_out = files_left_out;
        unread.iter().for_each(|session| report.add_unread(session));
        report.check(whole::check(&rows, &stats));
    }
    if report.sessions == 0 {
        return Err(match &args.path {
            Some(path) => CliError::new(ErrorKind::Input, format!("no session in {}", path.display())),
            None => CliError::failed("no sessions yet"),
        });
    }
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.render(&context.style(None)))?;
    }
    if let Some(path) = &args.report {
        write_new(path, &report.without_ids().to_text())?;
        context.info(&format!("{} has no text of agents: read it before you send it", path.display()));
    }
    match report.differing() {
        0 => Ok(()),
        some => {
            let of = subscope_render::text::plural(some, "difference");
            Err(CliError::failed(format!("{of} found"))
                .hint("`subscope verify --report` writes a report that can be sent"))
        }
    }
}

/// Writes a file that must not exist: never over another file, whose owner may need it.
fn write_new(path: &Path, text: &str) -> Result<(), CliError> {
    let file = fs::OpenOptions::new().write(true).create_new(true).private().open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| CliError::write(path.display(), error))
}
