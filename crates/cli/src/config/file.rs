//! Reads one settings file, with the line of each setting.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use toml::de::{DeTable, DeValue};

use super::{origin::FileOwner, paths::ConfigPath, value::SettingValue};
use crate::error::{CliError, ErrorKind};

/// Largest file that is read. Real ones have a few hundred bytes; a project's file comes with its repository and is not
/// trusted.
const LIMIT_BYTES: u64 = 1 << 20;

/// Reads a settings file. Returns each setting with its line (1-based) and its key, `section.name` in one of the
/// `sections`, in file order.
///
/// # Errors
/// If the file cannot be read or is not TOML.
pub(super) fn read(
    source: &ConfigPath,
    sections: &[&str],
) -> Result<Vec<(usize, String, SettingValue)>, CliError> {
    // A repository may hold a named pipe there, which would block for ever.
    if source.owner == FileOwner::Project && !source.path.is_file() {
        return Err(CliError::new(
            ErrorKind::Failed,
            format!("{} is no regular file", source.path.display()),
        ));
    }
    let text = read_text(&source.path)?;
    let table = DeTable::parse(&text).map_err(|error| syntax_error(&source.path, &text, &error))?;
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        let name = key.get_ref();
        if let DeValue::Table(section) = value.get_ref()
            && sections.contains(&name.as_ref())
        {
            entries.extend(section.iter().map(|(key, value)| {
                (key.span().start, format!("{name}.{}", key.get_ref()), value.get_ref())
            }));
        } else {
            entries.push((key.span().start, name.to_string(), value.get_ref()));
        }
    }
    let mut entries: Vec<_> =
        entries.into_iter().map(|(offset, key, value)| (line_of(&text, offset), key, value.into())).collect();
    entries.sort_by_key(|(line, ..)| *line);
    Ok(entries)
}

/// Returns the line (1-based) of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the error, with its line, of a text that is not TOML or not of the expected structure.
pub(crate) fn syntax_error(path: &Path, text: &str, error: &toml::de::Error) -> CliError {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    CliError::new(ErrorKind::Usage, format!("{}:{line}: {}", path.display(), error.message()))
}

/// Reads a file of at most [`LIMIT_BYTES`].
pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    let failed = |error: io::Error| {
        let kind =
            if error.kind() == io::ErrorKind::InvalidData { ErrorKind::Usage } else { ErrorKind::Failed };
        CliError::caused(kind, anyhow::Error::new(error).context(format!("cannot read {}", path.display())))
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let length = file.take(LIMIT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(length).is_ok_and(|length| length > LIMIT_BYTES) {
        return Err(CliError::new(
            ErrorKind::Usage,
            format!("{} is larger than {LIMIT_BYTES} bytes", path.display()),
        ));
    }
    Ok(text)
}
