//! Loads the token price table: the bundled one, with the prices of the user's file added.

use std::path::{Path, PathBuf};

use subscope_model::PriceTable;
use subscope_program::{CliError, ErrorKind};

use crate::config::{LIMIT_BYTES, SettingOrigin, read_text, syntax_error};

/// The bundled table; its header names the source of the prices.
const BUNDLED: &str = include_str!("../data/prices.toml");
/// Name of the bundled table in messages.
const BUNDLED_NAME: &str = "data/prices.toml";

/// A price table with its origin.
#[derive(Debug)]
pub(crate) struct Prices {
    pub(crate) table: PriceTable,
    /// The file; `None` for the bundled table.
    pub(crate) file: Option<PathBuf>,
    /// Layer that chose the file.
    pub(crate) origin: SettingOrigin,
}

/// Loads the bundled table, and adds the prices of the given file, which `origin` chose.
///
/// # Errors
/// If the file cannot be read, or is no price table (with the line).
pub(crate) fn load(file: Option<&Path>, origin: SettingOrigin) -> Result<Prices, CliError> {
    let mut table = parse(BUNDLED_NAME.as_ref(), BUNDLED)?;
    let Some(path) = file else { return Ok(Prices { table, file: None, origin }) };
    let chosen = format!("the file of prices is chosen by: {origin}");
    let text = read_text(path, LIMIT_BYTES, ErrorKind::Usage).map_err(|error| error.hint(chosen))?;
    table.extend(parse(path, &text)?);
    Ok(Prices { table, file: Some(path.to_owned()), origin })
}

fn parse(path: &Path, text: &str) -> Result<PriceTable, CliError> {
    let table: PriceTable = toml::from_str(text).map_err(|error| {
        syntax_error(path, text, &error)
            .hint("prices are picodollars (10^-12 USD) a token: `subscope help cost` shows the form")
    })?;
    if table.models.is_empty() {
        return Err(CliError::usage(format!("{}: holds the price of no model", path.display())));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::Layer;

    fn message(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        fs::write(&path, text).unwrap();
        let error = load(Some(&path), SettingOrigin::new(Layer::Flag, "--prices")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        error.to_string().replace(folder.path().to_str().unwrap(), "")
    }

    #[test]
    fn bundled_table_has_source_date_and_models() {
        let prices = load(None, SettingOrigin::default()).unwrap();
        assert!(prices.table.source.starts_with("litellm") && prices.table.date.len() == 10);
        for (model, input) in [
            ("claude-sonnet-4-5-20250929", 3_000_000),
            ("claude-sonnet-4-20250514", 3_000_000),
            ("claude-3-5-haiku-20241022", 800_000),
            ("claude-opus-4-20250514", 15_000_000),
            ("us.anthropic.claude-opus-4-1-20250805-v1:0", 15_000_000),
            ("claude-3-7-sonnet-20250219", 3_000_000),
            ("claude-3-5-sonnet-20241022", 3_000_000),
            ("claude-3-5-haiku@20241022", 800_000),
            ("claude-3-opus-20240229", 15_000_000),
            ("claude-3-haiku-20240307", 250_000),
            ("codex-mini-latest", 1_500_000),
        ] {
            assert_eq!(prices.table.price(model).map(|price| price.short.input), Some(input), "{model}");
        }
    }

    #[test]
    fn a_file_adds_to_the_bundled_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let model = "input = 1, output = 2, cache_read = 3, cache_write = 4, cache_write_1h = 5";
        fs::write(&path, format!("source = 's'\ndate = '2026-01-01'\n[models]\nm = {{ {model} }}\n"))
            .unwrap();
        let prices = load(Some(&path), SettingOrigin::new(Layer::Flag, "--prices")).unwrap();
        let bundled = load(None, SettingOrigin::default()).unwrap().table;
        assert_eq!(prices.table.models.len(), bundled.models.len() + 1);
        assert_eq!(prices.table.price("m").and_then(|price| price.short.cache_write_1h), Some(5));
    }

    #[test]
    fn errors_in_a_price_file_name_their_line() {
        assert!(message("source = 's'\ndate = \n").starts_with("/prices.toml:2: "));
        let missing = message("source = 's'\ndate = 'd'\n[models]\nm = { input = 1 }\n");
        assert!(missing.starts_with("/prices.toml:4: missing field"), "{missing}");
        let negative = message(
            "source = 's'\ndate = 'd'\n[models]\n\nm = { input = -1, output = 0, cache_read = 0, cache_write = 0, cache_write_1h = 0 }\n",
        );
        assert!(negative.starts_with("/prices.toml:5: "), "{negative}");
        assert_eq!(
            message("source = 's'\ndate = 'd'\n[models]\n"),
            "/prices.toml: holds the price of no model"
        );
    }

    #[test]
    fn a_file_that_is_not_there_says_who_chose_it() {
        let error = load(Some(Path::new("/nowhere/p.toml")), SettingOrigin::new(Layer::Flag, "--prices"));
        let text = error.unwrap_err().render(subscope_render::Charset::Ascii);
        assert!(text.starts_with("subscope: cannot read /nowhere/p.toml\n  caused by: "), "{text}");
        assert!(text.ends_with("hint: the file of prices is chosen by: flag (--prices)\n"), "{text}");
    }
}
