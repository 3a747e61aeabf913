//! Reads one settings file, with the line of each setting.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    path::Path,
};

use subscope_platform::OpenPolicy as _;
use subscope_program::{CliError, ErrorKind};
use toml::de::{DeTable, DeValue};

use super::{paths::ConfigPath, value::SettingValue};

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

/// Reads a text file of at most `limit_bytes`. One that is longer, not UTF-8 or no regular file is an error of the kind
/// `wrong`: a named pipe or a device, which a repository may name, would block for ever.
pub(crate) fn read_text(path: &Path, limit_bytes: u64, wrong: ErrorKind) -> Result<String, CliError> {
    let failed = |error: io::Error| {
        let is_wrong = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
        let error = CliError::because(format!("cannot read {}", path.display()), error);
        if is_wrong { error.of_kind(wrong) } else { error }
    };
    let mut text = String::new();
    let file = open_regular(path).map_err(failed)?;
    let length = file.take(limit_bytes + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > limit_bytes {
        return Err(CliError::new(wrong, format!("{} is larger than {limit_bytes} bytes", path.display())));
    }
    Ok(text)
}

/// Opens a regular file.
///
/// # Errors
/// Errors of the operating system; [`io::ErrorKind::InvalidInput`] for anything but a regular file.
fn open_regular(path: &Path) -> io::Result<File> {
    let other = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    // To open a device may have effects of its own.
    if !fs::metadata(path)?.is_file() {
        return Err(other());
    }
    // Something else may be there by now, and to open a named pipe would wait for its writer.
    let file = OpenOptions::new().read(true).without_waiting().open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(other()) }
}
