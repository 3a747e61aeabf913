//! The page as it was built from `web/`: its files, embedded, with what a server has to say of them.
//!
//! Knows no HTTP and no rows. `web/dist` is committed, so that `cargo` alone builds the product.

use std::borrow::Cow;

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Dist;

/// One file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its bytes.
    pub bytes: Cow<'static, [u8]>,
    /// Its media type.
    pub media_type: &'static str,
    /// The same as long as its bytes are, in hexadecimal digits.
    pub digest: String,
    /// Whether its name changes with its bytes, so that what was fetched once never has to be asked for again.
    pub is_immutable: bool,
}

/// Returns a file by its path, `index.html`; `None` where there is none.
pub fn file(path: &str) -> Option<File> {
    let found = Dist::get(path)?;
    let hash = found.metadata.sha256_hash();
    let digest = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    // Only what stands there has a hash in its name.
    let is_immutable = path.starts_with("assets/") && media_type(path) != SVG;
    Some(File { bytes: found.data, media_type: media_type(path), digest, is_immutable })
}

/// Returns the paths of all files.
pub fn paths() -> impl Iterator<Item = Cow<'static, str>> {
    Dist::iter()
}

/// The page as one file that needs no other: what stands before and behind the JSON of a session that it is to show.
///
/// The JSON stands in a script element that is data: `<` in it has to be written as `\u003c`.
pub fn saved() -> Option<(String, String)> {
    let page = String::from_utf8(file(SAVED)?.bytes.into_owned()).ok()?;
    let (before, behind) = page.split_once(PLACE)?;
    Some((before.to_owned(), behind.to_owned()))
}

/// The file of [`saved`], and where in it the data belongs.
const SAVED: &str = "saved.html";
const PLACE: &str = "@subscope-saved@";

const SVG: &str = "image/svg+xml";

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => SVG,
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_names_only_files_that_there_are() {
        let index = String::from_utf8(file("index.html").unwrap().bytes.into_owned()).unwrap();
        let named: Vec<&str> = index.split('"').filter_map(|word| word.strip_prefix('/')).collect();
        assert!(named.len() >= 3, "{index}");
        for path in named {
            assert!(file(path).is_some(), "{path}");
        }
        assert!(paths().all(|path| media_type(&path) != "application/octet-stream"));
    }

    #[test]
    fn saved_page_needs_no_other_file() {
        let (before, behind) = saved().unwrap();
        assert!(before.ends_with('>') && behind.starts_with("</script>"), "data in a script element");
        assert!(before.contains("Content-Security-Policy"));
        for word in ["<script src", "<link", "@import"] {
            assert!(!before.contains(word) && !behind.contains(word), "{word}");
        }
    }
}
