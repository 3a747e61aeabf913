//! Reads one file of settings: every wrong value with its line, every unknown name as a warning.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use toml::de::{DeTable, DeValue};

use super::{Origin, Raw, given::Given, origin::Owner, places::Place, raw::Name};
use crate::error::{CliError, Kind};

/// The greatest file that is read. Real ones have a few hundred bytes; a project's file comes with its repository and
/// is not to be trusted.
const LIMIT_BYTES: u64 = 1 << 20;

/// What a file says.
#[derive(Debug)]
pub(super) struct Contents {
    /// Its settings, those with wrong values left out.
    pub(super) raw: Raw,
    /// What is not known, each with its place.
    pub(super) warnings: Vec<String>,
    /// What is wrong, each with its place.
    pub(super) errors: Vec<CliError>,
}

/// Reads a file of settings.
///
/// # Errors
/// Where the file cannot be read or is no TOML.
pub(super) fn read(place: &Place) -> Result<Contents, CliError> {
    // A project's file is whatever its repository holds: a pipe there would be waited for without end.
    if place.owner == Owner::Project && !place.path.is_file() {
        return Err(CliError::new(Kind::Failed, format!("{} is no regular file", place.path.display())));
    }
    let text = read_text(&place.path)?;
    parse(place.owner, &place.path, &text)
}

fn parse(owner: Owner, path: &Path, text: &str) -> Result<Contents, CliError> {
    let table = DeTable::parse(text).map_err(|error| syntax_error(path, text, &error))?;
    let mut contents = Contents { raw: Raw::default(), warnings: Vec::new(), errors: Vec::new() };
    let path: Arc<Path> = path.into();
    for entry in entries(table.get_ref(), text) {
        let Entry { key, value, line } = entry;
        let origin = Origin::File { owner, path: path.clone(), line };
        match contents.raw.set(&key, Given::Toml(value), &origin) {
            Ok(Name::Known) => {}
            Ok(Name::Unknown) => contents
                .warnings
                .push(format!("{}:{line}: there is no setting {key:?}; it is ignored", path.display())),
            Err(what) => contents
                .errors
                .push(CliError::new(Kind::Usage, format!("{}:{line}: {key}: {what}", path.display()))),
        }
    }
    Ok(contents)
}

/// One setting as it stands in a file.
struct Entry<'t> {
    /// Its name, `table.name` for one in a table.
    key: String,
    value: &'t DeValue<'t>,
    /// Its line, from 1.
    line: usize,
}

/// Returns the settings in the order of the file.
fn entries<'t>(table: &'t DeTable<'t>, text: &str) -> Vec<Entry<'t>> {
    let mut all = Vec::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        match value.get_ref() {
            DeValue::Table(inner) if Raw::TABLES.contains(&name) => {
                all.extend(inner.iter().map(|(key, value)| Entry {
                    key: format!("{name}.{}", key.get_ref()),
                    value: value.get_ref(),
                    line: line_of(text, key.span().start),
                }));
            }
            leaf => {
                all.push(Entry { key: name.to_owned(), value: leaf, line: line_of(text, key.span().start) })
            }
        }
    }
    all.sort_by_key(|entry| entry.line);
    all
}

/// Returns the line, from 1, in which a byte of the text stands.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the error for a text that is no TOML, or not of the form asked for, with its line.
pub(crate) fn syntax_error(path: &Path, text: &str, error: &toml::de::Error) -> CliError {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    CliError::new(Kind::Usage, format!("{}:{line}: {}", path.display(), error.message()))
}

/// Returns the text of a small file.
pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    let failed = |error: io::Error| {
        let kind = if error.kind() == io::ErrorKind::InvalidData { Kind::Usage } else { Kind::Failed };
        CliError::caused(kind, anyhow::Error::new(error).context(format!("cannot read {}", path.display())))
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let length = file.take(LIMIT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(length).is_ok_and(|length| length > LIMIT_BYTES) {
        return Err(CliError::new(
            Kind::Usage,
            format!("{} is larger than {LIMIT_BYTES} bytes", path.display()),
        ));
    }
    Ok(text)
}
