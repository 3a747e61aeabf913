//! Reads one settings file, with the line of each setting.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use toml::de::{DeTable, DeValue};

use super::{Layer, paths::ConfigPath, value::SettingValue};
use crate::error::{CliError, ErrorKind};

/// Largest file that is read. Real ones have a few hundred bytes; a project's file comes with its repository and is not
/// trusted.
pub(crate) const LIMIT_BYTES: u64 = 1 << 20;

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
    if source.layer == Layer::Project && !source.path.is_file() {
        return Err(CliError::failed(format!("{} is not a regular file", source.path.display())));
    }
    let text = read_text(&source.path, LIMIT_BYTES, ErrorKind::Usage)?;
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
    CliError::usage(format!("{}:{line}: {}", path.display(), error.message()))
}

/// Reads a text file of at most `limit_bytes`. One that is longer or not UTF-8 is an error of the kind `wrong`.
pub(crate) fn read_text(path: &Path, limit_bytes: u64, wrong: ErrorKind) -> Result<String, CliError> {
    let failed = |error: io::Error| {
        let is_wrong = error.kind() == io::ErrorKind::InvalidData;
        let error = CliError::because(format!("cannot read {}", path.display()), error);
        if is_wrong { error.of_kind(wrong) } else { error }
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let length = file.take(limit_bytes + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > limit_bytes {
        return Err(CliError::new(wrong, format!("{} is larger than {limit_bytes} bytes", path.display())));
    }
    Ok(text)
}
