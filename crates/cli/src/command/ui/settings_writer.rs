//! Saves choices made in the UI to the user's settings file, preserving everything else in it.

use std::{fs, io, path::Path};

use subscope_tui::{Choice, Setting};
use toml_edit::{DocumentMut, Item, value};

use crate::prelude::*;

/// Saves a choice.
///
/// # Errors
/// If there is no settings path, or the file cannot be read, parsed or written.
pub(super) fn save(setting: Setting, choice: Choice, context: &Context) -> Result<(), CliError> {
    let none = || CliError::failed("nothing says where settings are kept: HOME is not set");
    let path = context.config.paths.user_file().ok_or_else(none)?;
    let failed = |what: &str| format!("the choice is not kept: cannot {what} {}", path.display());
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(CliError::because(failed("read"), error)),
    };
    let text =
        with_setting(&text, setting, choice).map_err(|error| CliError::because(failed("change"), error))?;
    replace_file(path, &text).map_err(|error| CliError::because(failed("write"), error))
}

/// Returns the file's text with the setting changed.
fn with_setting(text: &str, setting: Setting, choice: Choice) -> Result<String, toml_edit::TomlError> {
    let mut document: DocumentMut = text.parse()?;
    let (table, key) = match setting {
        Setting::Detail => (None, "subagent_tracing_detail"),
        Setting::Tree => (Some("ui"), "tree"),
        Setting::Theme => (Some("ui"), "theme"),
    };
    let slot: &mut Item = match table {
        None => &mut document[key],
        Some(table) => {
            let table = document.entry(table).or_insert(Item::Table(toml_edit::Table::new()));
            &mut table[key]
        }
    };
    // Keep a comment after the value.
    let decor = slot.as_value().map(|value| value.decor().clone());
    *slot = value(choice);
    if let (Some(decor), Some(value)) = (decor, slot.as_value_mut()) {
        *value.decor_mut() = decor;
    }
    Ok(document.to_string())
}

/// Replaces the file atomically.
fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    // Keep a symbolic link and replace its target.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut new = tempfile::Builder::new().prefix(".config").tempfile_in(folder)?;
    io::Write::write_all(&mut new, text.as_bytes())?;
    if let Ok(metadata) = fs::metadata(&path) {
        fs::set_permissions(new.path(), metadata.permissions())?;
    }
    new.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_kept_and_all_else_stays() {
        let text = "# mine\nsubagent_tracing_detail = \"full\"   # all of it\n\n[watch]\nstall = \"1m\"\n";
        let kept = with_setting(text, Setting::Detail, "minimal").unwrap();
        assert_eq!(kept, text.replace("full", "minimal"));
        let kept = with_setting(&kept, Setting::Theme, "light").unwrap();
        let kept = with_setting(&kept, Setting::Tree, "hidden").unwrap();
        assert!(kept.starts_with("# mine\n") && kept.contains("[watch]\nstall = \"1m\"\n"), "{kept}");
        assert!(kept.contains("[ui]\ntheme = \"light\"\ntree = \"hidden\"\n"), "{kept}");
        assert_eq!(with_setting("", Setting::Detail, "off").unwrap(), "subagent_tracing_detail = \"off\"\n");
        assert!(with_setting("a = ", Setting::Detail, "off").is_err());
    }

    #[test]
    fn file_is_made_where_there_is_none_and_replaced_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.toml");
        replace_file(&path, "a = 1\n").unwrap();
        replace_file(&path, "a = 2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a = 2\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
