//! Hook entries of Claude Code's settings: writes ours, and recognises them among others.

use std::path::Path;

use serde_json::Value;

/// Seconds that Claude Code waits for our hook. The hook takes less than one, but a swapping machine may start it late.
const TIMEOUT_SECONDS: u64 = 5;
/// Name of the program. An entry with another path but this name is also ours: the path differs after an update.
pub(super) const PROGRAM: &str = "subscope";
/// Header that marks an HTTP hook as ours; the URL path alone is not unique.
const MARKER_HEADER: (&str, &str) = ("X-Subscope-Hook", "1");
/// Route of the hub for hook payloads.
const HOOK_PATH: &str = "/hooks/claude";

/// Delivery of an event by our hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    /// Runs this command.
    Command(String),
    /// Posts to this URL.
    Http(String),
}

impl Handler {
    /// Returns a command hook that runs `program`, with `--store` if given.
    pub(crate) fn command(program: &Path, store: Option<&Path>) -> Self {
        let mut command = format!("{} hook", quote(&program.to_string_lossy()));
        if let Some(store) = store {
            command.push_str(&format!(" --store {}", quote(&store.to_string_lossy())));
        }
        Self::Command(command)
    }

    /// Returns an HTTP hook that posts to the hub at `url`.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub(super) fn http(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let rest = rest.ok_or_else(|| format!("{url:?} is no URL: it begins with http:// or https://"))?;
        let is_plain = |character: char| {
            character.is_ascii_graphic() && !matches!(character, '"' | '\\' | '?' | '#' | '@')
        };
        if rest.starts_with(['/', ':']) || rest.is_empty() || !rest.chars().all(is_plain) {
            return Err(format!("{url:?} is no URL of a hub: write it as http://127.0.0.1:7337"));
        }
        Ok(Self::Http(format!("{}{HOOK_PATH}", url.trim_end_matches('/'))))
    }

    /// Whether payloads stay on this machine.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Command(_) => true,
            Self::Http(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let authority = rest.split('/').next().unwrap_or_default();
                let host = match authority.rsplit_once(':') {
                    Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
                    _ => authority,
                };
                matches!(host, "localhost" | "[::1]") || host.starts_with("127.")
            }
        }
    }

    /// Returns the entry of a settings file.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Command(command) => {
                serde_json::json!({ "type": "command", "command": command, "timeout": TIMEOUT_SECONDS })
            }
            Self::Http(url) => serde_json::json!({
                "type": "http", "url": url, "headers": { MARKER_HEADER.0: MARKER_HEADER.1 }, "timeout": TIMEOUT_SECONDS
            }),
        }
    }

    /// Parses an entry; `None` if it is not ours.
    pub(crate) fn parse_own(entry: &Value) -> Option<Self> {
        let text = |key: &str| entry.get(key)?.as_str();
        match text("type")? {
            "command" => {
                text("command").filter(|command| is_our_command(command)).map(|c| Self::Command(c.to_owned()))
            }
            "http" => {
                let (name, value) = MARKER_HEADER;
                let is_ours = entry.get("headers")?.get(name)?.as_str() == Some(value);
                is_ours.then(|| text("url").map(|url| Self::Http(url.to_owned())))?
            }
            _ => None,
        }
    }
}

/// Whether a command only runs a program of our name as a hook.
fn is_our_command(command: &str) -> bool {
    let Some(split_words) = split_words(command) else { return false };
    let [program, hook, rest @ ..] = split_words.as_slice() else { return false };
    let name = Path::new(program).file_name();
    let is_ours = name.is_some_and(|name| name == PROGRAM) && hook == "hook";
    is_ours && (rest.is_empty() || (rest.len() == 2 && rest[0] == "--store"))
}

/// Quotes a word for sh if needed (POSIX, "Shell Command Language", 2.2.2).
fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Splits a command into words; `None` if it has anything but split_words as [`quote`] writes them.
fn split_words(command: &str) -> Option<Vec<String>> {
    let mut split_words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(character) = rest.next() {
        match character {
            ' ' => split_words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            // Characters that are special to sh: not ours.
            '"' | '$' | '`' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '*' | '?' | '[' | '#' | '~'
            | '\n' | '\t' => return None,
            plain => word.get_or_insert_default().push(plain),
        }
    }
    split_words.extend(word);
    Some(split_words)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::json;

    use super::*;

    #[test]
    fn command_survives_sh_and_is_known_again() {
        for program in ["/usr/bin/subscope", "/a b/it's $HOME `x`/subscope", "/t\u{e9}st/\\/subscope"] {
            let handler = Handler::command(Path::new(program), Some(Path::new("/my data")));
            let Handler::Command(command) = &handler else { panic!("{handler:?}") };
            let out =
                Command::new("/bin/sh").args(["-c", &format!("printf '%s\\n' {command}")]).output().unwrap();
            let expected = format!("{program}\nhook\n--store\n/my data\n");
            assert_eq!(String::from_utf8(out.stdout).unwrap(), expected);
            assert_eq!(Handler::parse_own(&handler.to_json()), Some(handler), "{program}");
        }
        let plain = Handler::command(Path::new("/usr/bin/subscope"), None);
        assert_eq!(plain, Handler::Command("/usr/bin/subscope hook".to_owned()));
    }

    #[test]
    fn entries_of_others_are_not_ours() {
        for command in [
            "/usr/bin/mysubscope hook",
            "subscope hooks",
            "subscope hook; rm x",
            "subscope hook --store a b",
            "echo subscope hook",
            "subscope",
            "'subscope hook",
            "subscope hook > log",
            "",
        ] {
            assert_eq!(
                Handler::parse_own(&json!({ "type": "command", "command": command })),
                None,
                "{command}"
            );
        }
        for entry in [
            json!({ "type": "http", "url": "http://127.0.0.1:7337/hooks/claude" }),
            json!({ "type": "prompt", "command": "subscope hook" }),
            json!({ "type": "command", "command": 1 }),
            json!({ "command": "subscope hook" }),
            json!("subscope hook"),
            json!(null),
        ] {
            assert_eq!(Handler::parse_own(&entry), None, "{entry}");
        }
        let ours = json!({ "type": "command", "command": "/old/place/subscope hook", "timeout": 60 });
        assert!(Handler::parse_own(&ours).is_some());
    }

    #[test]
    fn http_takes_plain_urls_and_tells_where_they_lead() {
        for (url, is_local) in [
            ("http://127.0.0.1:7337", true),
            ("http://localhost:1/", true),
            ("http://[::1]:7337", true),
            ("https://hub.example.org/team", false),
            ("http://localhost.evil.org", false),
        ] {
            let handler = Handler::http(url).unwrap();
            assert_eq!(handler.is_local(), is_local, "{url}");
            assert_eq!(Handler::parse_own(&handler.to_json()), Some(handler));
        }
        for url in [
            "",
            "127.0.0.1:7337",
            "ftp://x",
            "http://",
            "http:///x",
            "http://:80",
            "http://a b",
            "http://u:p@h",
            "http://h?x",
        ] {
            assert!(Handler::http(url).is_err(), "{url}");
        }
    }
}
