//! Saves settings in the user's file, preserving everything else in it.

use std::{fs, io, path::Path};

use serde_json::Value;
use subscope_model::ContentLevel;
use subscope_program::{CliError, ErrorKind};
use toml_edit::{Array, DocumentMut, InlineTable, Item, value};

use super::{ConfigPaths, LIMIT_BYTES, RemoteSettings, read_text};

/// Saves a setting, given by its key, and returns the path of the file.
///
/// # Errors
/// If there is no settings path, or the file cannot be read, parsed or written.
pub(crate) fn save<'p>(key: &str, value: &Value, paths: &'p ConfigPaths) -> Result<&'p Path, CliError> {
    let path = user_file(paths)?;
    let failed = |what: &str| format!("{key} is not saved: cannot {what} {}", path.display());
    let text = if path.exists() { read_text(path, LIMIT_BYTES, ErrorKind::Usage)? } else { String::new() };
    let text = with_setting(&text, key, value).map_err(|error| CliError::because(failed("change"), error))?;
    replace_file(path, &text).map_err(|error| CliError::because(failed("write"), error))?;
    Ok(path)
}

/// Adds another machine to the user's file and returns the path of the file.
///
/// # Errors
/// As [`save`].
pub(crate) fn add_remote<'p>(remote: &RemoteSettings, paths: &'p ConfigPaths) -> Result<&'p Path, CliError> {
    let path = user_file(paths)?;
    let failed = |what: &str| format!("{} is not saved: cannot {what} {}", remote.name, path.display());
    let text = if path.exists() { read_text(path, LIMIT_BYTES, ErrorKind::Usage)? } else { String::new() };
    let text = with_remote(&text, remote).map_err(|error| CliError::because(failed("change"), error))?;
    replace_file(path, &text).map_err(|error| CliError::because(failed("write"), error))?;
    Ok(path)
}

/// Returns the file's text with one more `[[remote]]`.
fn with_remote(text: &str, remote: &RemoteSettings) -> Result<String, toml_edit::TomlError> {
    let mut document: DocumentMut = text.parse()?;
    let mut entry = toml_edit::Table::new();
    entry.insert("name", value(&remote.name));
    if let Some(host) = &remote.ssh {
        entry.insert("ssh", value(host));
    }
    if !remote.command.is_empty() {
        entry.insert("command", value(remote.command.iter().collect::<Array>()));
    }
    if remote.content != ContentLevel::Text {
        entry.insert("content", value(remote.content.as_str()));
    }
    let all = document.entry("remote").or_insert(Item::ArrayOfTables(toml_edit::ArrayOfTables::new()));
    match all {
        Item::ArrayOfTables(all) => all.push(entry),
        // Written as a list of inline tables.
        Item::Value(toml_edit::Value::Array(all)) => all.push(entry.into_inline_table()),
        Item::None | Item::Value(_) | Item::Table(_) => {
            *all = Item::ArrayOfTables([entry].into_iter().collect());
        }
    }
    Ok(document.to_string())
}

/// Writes the user's file, which must not exist, and returns its path.
///
/// # Errors
/// If there is no settings path, the file exists or cannot be written.
pub(crate) fn create<'p>(text: &str, paths: &'p ConfigPaths) -> Result<&'p Path, CliError> {
    let path = user_file(paths)?;
    if path.exists() {
        let error = CliError::failed(format!("{} exists already", path.display()));
        return Err(error.hint("`subscope config set KEY VALUE` changes a setting in it"));
    }
    replace_file(path, text)
        .map_err(|error| CliError::because(format!("cannot write {}", path.display()), error))?;
    Ok(path)
}

fn user_file(paths: &ConfigPaths) -> Result<&Path, CliError> {
    let none = || CliError::failed("nothing says where settings are kept: HOME is not set");
    paths.user_file().ok_or_else(none)
}

/// Returns the TOML form of a setting's value; `None` for null.
pub(crate) fn toml_value(json: &Value) -> Option<toml_edit::Value> {
    Some(match json {
        Value::Bool(switch) => (*switch).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().filter_map(toml_value).collect::<Array>().into(),
        Value::Object(entries) => {
            let entries = entries.iter().filter_map(|(key, json)| Some((key.as_str(), toml_value(json)?)));
            entries.collect::<InlineTable>().into()
        }
        Value::Null => return None,
    })
}

/// Returns the file's text with the setting changed; a setting without a value is removed.
fn with_setting(text: &str, key: &str, json: &Value) -> Result<String, toml_edit::TomlError> {
    let mut document: DocumentMut = text.parse()?;
    let slot: &mut Item = match key.split_once('.') {
        None => &mut document[key],
        Some((table, key)) => {
            let table = document.entry(table).or_insert(Item::Table(toml_edit::Table::new()));
            &mut table[key]
        }
    };
    // Keep a comment after the value.
    let decor = slot.as_value().map(|value| value.decor().clone());
    *slot = toml_value(json).map_or(Item::None, value);
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
        let kept = with_setting(text, "subagent_tracing_detail", &"minimal".into()).unwrap();
        assert_eq!(kept, text.replace("full", "minimal"));
        let kept = with_setting(&kept, "ui.theme", &"light".into()).unwrap();
        let kept = with_setting(&kept, "ui.tree", &"hidden".into()).unwrap();
        assert!(kept.starts_with("# mine\n") && kept.contains("[watch]\nstall = \"1m\"\n"), "{kept}");
        assert!(kept.contains("[ui]\ntheme = \"light\"\ntree = \"hidden\"\n"), "{kept}");
        assert_eq!(with_setting("", "color", &"never".into()).unwrap(), "color = \"never\"\n");
        let listed =
            with_setting("", "watch.limits", &serde_json::json!(["a stall=5m", "b stall=1h"])).unwrap();
        assert_eq!(listed, "[watch]\nlimits = [\"a stall=5m\", \"b stall=1h\"]\n");
        assert!(with_setting("a = ", "color", &"never".into()).is_err());
    }

    #[test]
    fn machines_are_added_after_what_is_there() {
        let machine = |name: &str| RemoteSettings {
            name: name.to_owned(),
            ssh: None,
            command: vec!["docker".to_owned(), "exec".to_owned()],
            content: ContentLevel::Titles,
            silence: crate::config::usual_silence(),
        };
        let text = with_remote("# mine\ncolor = \"never\"\n", &machine("web")).unwrap();
        let entry = "[[remote]]\nname = \"web\"\ncommand = [\"docker\", \"exec\"]\ncontent = \"titles\"\n";
        assert_eq!(text, format!("# mine\ncolor = \"never\"\n\n{entry}"));
        let two = with_remote(&text, &machine("db")).unwrap();
        assert_eq!(two, format!("{text}\n{}", entry.replace("web", "db")));
        let inline = with_remote("remote = [{ ssh = \"a\" }]\n", &machine("db")).unwrap();
        assert!(inline.parse::<DocumentMut>().unwrap()["remote"].as_array().unwrap().len() == 2, "{inline}");
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
