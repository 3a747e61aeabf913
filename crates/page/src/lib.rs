//! The web page built from `web/`: its files embedded in the binary, with the metadata that an HTTP server needs.
//!
//! Independent of HTTP and of the data model. `web/dist` is committed, so that `cargo` alone builds
//! the product; `dist` is a link to it, so that the crate carries its files when it is published.

use std::borrow::Cow;

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "dist"]
struct EmbeddedFiles;

/// An embedded file.
#[derive(Clone, Debug)]
pub struct PageFile {
    /// Its bytes.
    pub bytes: Cow<'static, [u8]>,
    /// Its media type.
    pub media_type: &'static str,
    /// Hash of its bytes as hexadecimal digits, for example for an ETag.
    pub digest: String,
    /// Whether its name changes with its bytes, so that clients may cache it for ever.
    pub is_immutable: bool,
}

/// Returns a file by its path, such as `index.html`; `None` if it does not exist.
pub fn file(path: &str) -> Option<PageFile> {
    let found = EmbeddedFiles::get(path)?;
    let hash = found.metadata.sha256_hash();
    let digest = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    // Only files in `assets` have a hash in their name.
    let is_immutable = path.starts_with("assets/") && media_type(path) != SVG;
    Some(PageFile { bytes: found.data, media_type: media_type(path), digest, is_immutable })
}

/// How the document names its own files.
const OWN_FILES: &str = "\"./assets/";

impl PageFile {
    /// Returns the document for an address so many folders below the page's root.
    #[must_use]
    pub fn below(self, folders: usize) -> Self {
        let Ok(text) = str::from_utf8(&self.bytes) else { return self };
        if folders == 0 {
            return self;
        }
        let own_files = format!("\"{}assets/", "../".repeat(folders));
        let bytes = text.replace(OWN_FILES, &own_files).into_bytes().into();
        Self { bytes, digest: format!("{}-{folders}", self.digest), ..self }
    }
}

/// Returns the document of the page with the mark of a team's server, by which the page recognizes its kind of server.
pub fn team_document() -> Option<PageFile> {
    let hub = file("index.html")?;
    let text = String::from_utf8(hub.bytes.into_owned()).ok()?;
    let bytes = text.replacen("<html", "<html data-server=\"team\"", 1).into_bytes().into();
    Some(PageFile { bytes, digest: format!("{}-team", hub.digest), ..hub })
}

/// Returns the paths of all files.
pub fn paths() -> impl Iterator<Item = Cow<'static, str>> {
    EmbeddedFiles::iter()
}

/// Returns the self-contained page as the text before and after the JSON of the session that it shows.
///
/// The JSON is placed in a data script element: `<` in it must be escaped as `\u003c`.
pub fn saved() -> Option<(String, String)> {
    let page = String::from_utf8(file(SAVED)?.bytes.into_owned()).ok()?;
    let (before, behind) = page.split_once(PLACEHOLDER)?;
    Some((before.to_owned(), behind.to_owned()))
}

/// File of [`saved`], and the placeholder of the data in it.
const SAVED: &str = "saved.html";
const PLACEHOLDER: &str = "@subscope-saved@";

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
        let named: Vec<&str> = index.split('"').filter_map(|word| word.strip_prefix("./")).collect();
        assert!(named.len() >= 3, "{index}");
        for path in named {
            assert!(file(path).is_some(), "{path}");
        }
        assert!(paths().all(|path| media_type(&path) != "application/octet-stream"));
    }

    #[test]
    fn document_names_its_files_from_the_folder_of_its_address() {
        let index = || file("index.html").unwrap();
        for (folders, up) in [(0, "./"), (1, "../"), (3, "../../../")] {
            let document = index().below(folders);
            let text = str::from_utf8(&document.bytes).unwrap();
            assert_eq!(text.matches(&format!("=\"{up}assets/")).count(), text.matches("assets/").count());
            assert_eq!(document.digest == index().digest, folders == 0);
        }
    }

    #[test]
    fn document_of_a_team_is_marked_and_another_one() {
        let (hub, team) = (file("index.html").unwrap(), team_document().unwrap());
        let text = String::from_utf8(team.bytes.into_owned()).unwrap();
        assert!(text.contains("<html data-server=\"team\" lang="), "{text}");
        assert_ne!(hub.digest, team.digest);
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
