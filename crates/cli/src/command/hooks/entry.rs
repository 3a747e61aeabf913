//! One hook as it stands in Claude Code's settings: how ours looks, and how it is told from others'.

use std::path::Path;

use serde_json::Value;

/// How long Claude Code waits for our hook, in seconds, until it goes on without it. The hook itself takes less than
/// one, but a machine that swaps may start it late.
const TIMEOUT_SECONDS: u64 = 5;
/// The program's name, by which an entry of another copy is known as ours, too: the path differs after an update.
pub(super) const PROGRAM: &str = "subscope";
/// A header that says that an HTTP hook is ours; the path alone may be somebody else's.
const MARK: (&str, &str) = ("X-Subscope-Hook", "1");
/// Where the hub takes payloads.
const PATH: &str = "/hooks/claude";

/// What our hook does with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    /// Runs this command.
    Command(String),
    /// Posts to this URL.
    Http(String),
}

impl Handler {
    /// Returns the command that runs `program` as a hook, for data in `store` where that is named.
    pub(crate) fn command(program: &Path, store: Option<&Path>) -> Self {
        let mut command = format!("{} hook", quoted(&program.to_string_lossy()));
        if let Some(store) = store {
            command.push_str(&format!(" --store {}", quoted(&store.to_string_lossy())));
        }
        Self::Command(command)
    }

    /// Returns the post to a hub.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub(super) fn http(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let rest = rest.ok_or_else(|| format!("{url:?} is no URL: it begins with http:// or https://"))?;
        let is_plain = |character: char| {
            character.is_ascii_graphic() && !matches!(character, '"' | '\\' | '?' | '#' | '@')
        };
        if rest.starts_with(['/', ':']) || rest.is_empty() || !rest.chars().all(is_plain) {
            return Err(format!("{url:?} is no URL of a hub: write it as http://127.0.0.1:7337"));
        }
        Ok(Self::Http(format!("{}{PATH}", url.trim_end_matches('/'))))
    }

    /// Whether only this machine can listen at the other end.
    pub(super) fn stays_here(&self) -> bool {
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

    /// Returns the entry as it is written.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Command(command) => {
                serde_json::json!({ "type": "command", "command": command, "timeout": TIMEOUT_SECONDS })
            }
            Self::Http(url) => serde_json::json!({
                "type": "http", "url": url, "headers": { MARK.0: MARK.1 }, "timeout": TIMEOUT_SECONDS
            }),
        }
    }

    /// Reads an entry; `None` where it is somebody else's.
    pub(crate) fn of_ours(entry: &Value) -> Option<Self> {
        let text = |key: &str| entry.get(key)?.as_str();
        match text("type")? {
            "command" => {
                text("command").filter(|command| is_our_command(command)).map(|c| Self::Command(c.to_owned()))
            }
            "http" => {
                let (name, value) = MARK;
                let is_ours = entry.get("headers")?.get(name)?.as_str() == Some(value);
                is_ours.then(|| text("url").map(|url| Self::Http(url.to_owned())))?
            }
            _ => None,
        }
    }
}

/// Whether a command runs a program of our name as a hook, and does nothing else.
fn is_our_command(command: &str) -> bool {
    let Some(words) = words(command) else { return false };
    let [program, hook, rest @ ..] = words.as_slice() else { return false };
    let name = Path::new(program).file_name();
    let is_ours = name.is_some_and(|name| name == PROGRAM) && hook == "hook";
    is_ours && (rest.is_empty() || (rest.len() == 2 && rest[0] == "--store"))
}

/// Quotes a word for sh (POSIX, "Shell Command Language", 2.2.2), where that is needed.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Takes a command apart that has nothing but words as [`quoted`] writes them; `None` for any other.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(character) = rest.next() {
        match character {
            ' ' => words.extend(word.take()),
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
            // Anything that sh would act on: not ours.
            '"' | '$' | '`' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '*' | '?' | '[' | '#' | '~'
            | '\n' | '\t' => return None,
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
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
            assert_eq!(Handler::of_ours(&handler.to_json()), Some(handler), "{program}");
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
                Handler::of_ours(&json!({ "type": "command", "command": command })),
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
            assert_eq!(Handler::of_ours(&entry), None, "{entry}");
        }
        let ours = json!({ "type": "command", "command": "/old/place/subscope hook", "timeout": 60 });
        assert!(Handler::of_ours(&ours).is_some());
    }

    #[test]
    fn http_takes_plain_urls_and_tells_where_they_lead() {
        for (url, stays_here) in [
            ("http://127.0.0.1:7337", true),
            ("http://localhost:1/", true),
            ("http://[::1]:7337", true),
            ("https://hub.example.org/team", false),
            ("http://localhost.evil.org", false),
        ] {
            let handler = Handler::http(url).unwrap();
            assert_eq!(handler.stays_here(), stays_here, "{url}");
            assert_eq!(Handler::of_ours(&handler.to_json()), Some(handler));
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
