//! One hook as it stands in Claude Code's settings.

use serde_json::{Value, json};

use crate::{HookHandler, TOKEN_VARIABLE, hooks::is_our_command};

/// How long Claude Code waits for our hook, in seconds, until it goes on without it. The hook itself takes less than
/// one, but a machine that swaps may start it late.
const TIMEOUT_SECONDS: u64 = 5;
/// A header that says that an HTTP hook is ours; the path alone may be somebody else's.
const MARK: (&str, &str) = ("X-Subscope-Hook", "1");
/// The header of a hub's token.
const TOKEN_HEADER: &str = "Authorization";

/// Returns the entry of our hook as it is written.
pub(in crate::claude_code) fn to_json(handler: &HookHandler) -> Value {
    match handler {
        HookHandler::Command(command) => {
            json!({ "type": "command", "command": command, "timeout": TIMEOUT_SECONDS })
        }
        HookHandler::Http { url, sends_token: false } => json!({
            "type": "http", "url": url, "headers": { MARK.0: MARK.1 }, "timeout": TIMEOUT_SECONDS
        }),
        // Claude Code puts in the values of those variables that are listed.
        HookHandler::Http { url, sends_token: true } => json!({
            "type": "http", "url": url,
            "headers": { MARK.0: MARK.1, TOKEN_HEADER: format!("Bearer ${TOKEN_VARIABLE}") },
            "allowedEnvVars": [TOKEN_VARIABLE], "timeout": TIMEOUT_SECONDS
        }),
    }
}

/// Reads an entry; `None` where it is somebody else's.
pub(super) fn of_ours(entry: &Value) -> Option<HookHandler> {
    let text = |key: &str| entry.get(key)?.as_str();
    match text("type")? {
        "command" => text("command")
            .filter(|command| is_our_command(command))
            .map(|c| HookHandler::Command(c.to_owned())),
        "http" => {
            let headers = entry.get("headers")?;
            headers.get(MARK.0)?.as_str().filter(|value| *value == MARK.1)?;
            let sends_token = headers.get(TOKEN_HEADER).is_some();
            text("url").map(|url| HookHandler::Http { url: url.to_owned(), sends_token })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use super::*;

    #[test]
    fn command_survives_sh_and_is_known_again() {
        for program in ["/usr/bin/subscope", "/a b/it's $HOME `x`/subscope", "/t\u{e9}st/\\/subscope"] {
            let handler = HookHandler::command(Path::new(program), Some(Path::new("/my data")));
            let HookHandler::Command(command) = &handler else { panic!("{handler:?}") };
            let out =
                Command::new("/bin/sh").args(["-c", &format!("printf '%s\\n' {command}")]).output().unwrap();
            let expected = format!("{program}\nhook\n--store\n/my data\n");
            assert_eq!(String::from_utf8(out.stdout).unwrap(), expected);
            assert_eq!(of_ours(&to_json(&handler)), Some(handler), "{program}");
        }
        let plain = HookHandler::command(Path::new("/usr/bin/subscope"), None);
        assert_eq!(plain, HookHandler::Command("/usr/bin/subscope hook".to_owned()));
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
            assert_eq!(of_ours(&json!({ "type": "command", "command": command })), None, "{command}");
        }
        for entry in [
            json!({ "type": "http", "url": "http://127.0.0.1:7337/hooks/claude" }),
            json!({ "type": "prompt", "command": "subscope hook" }),
            json!({ "type": "command", "command": 1 }),
            json!({ "command": "subscope hook" }),
            json!("subscope hook"),
            json!(null),
        ] {
            assert_eq!(of_ours(&entry), None, "{entry}");
        }
        let ours = json!({ "type": "command", "command": "/old/place/subscope hook", "timeout": 60 });
        assert!(of_ours(&ours).is_some());
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
            for sends_token in [false, true] {
                let handler = HookHandler::http(url, "/hooks/claude", sends_token).unwrap();
                assert_eq!(handler.stays_here(), stays_here, "{url}");
                assert_eq!(of_ours(&to_json(&handler)), Some(handler));
            }
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
            assert!(HookHandler::http(url, "/hooks/claude", false).is_err(), "{url}");
        }
    }
}
