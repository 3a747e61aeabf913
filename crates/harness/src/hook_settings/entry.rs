//! One hook as it is written in a settings file.

use serde_json::{Value, json};
use subscope_model::is_windows_path;

use super::SettingsForm;
use crate::{
    HookHandler, TOKEN_VARIABLE,
    hooks::{for_powershell, is_our_command, of_powershell, words},
};

/// How long a harness waits for our hook, in seconds, until it continues without it. The hook itself takes less than
/// one, but a machine that swaps may start it late.
const TIMEOUT_SECONDS: u64 = 5;
/// The same for an event whose hook waits for a person's answer, for five minutes at most.
const WAITING_TIMEOUT_SECONDS: u64 = 330;
/// A header that marks an HTTP hook as ours; another program's hook may have the same path.
const MARK: (&str, &str) = ("X-Subscope-Hook", "1");
/// The header of a hub's token.
const TOKEN_HEADER: &str = "Authorization";

impl SettingsForm {
    /// Returns the entry of our hook of an event as it is written.
    pub(crate) fn entry(&self, event: &str, handler: &HookHandler) -> Value {
        let seconds = match handler {
            HookHandler::Command(_) if self.waiting_events.contains(&event) => WAITING_TIMEOUT_SECONDS,
            HookHandler::Command(_) | HookHandler::Http { .. } => TIMEOUT_SECONDS,
        };
        let timeout = seconds * self.units_per_second;
        match handler {
            HookHandler::Command(command) => {
                let program = words(command).and_then(|words| words.into_iter().next());
                let is_of_windows = program.is_some_and(|program| is_windows_path(&program));
                match self.powershell.filter(|_| is_of_windows) {
                    Some(key) => {
                        json!({ "type": "command", key: for_powershell(command), self.timeout: timeout })
                    }
                    None => json!({ "type": "command", self.command: command, self.timeout: timeout }),
                }
            }
            HookHandler::Http { url, sends_token: false } => json!({
                "type": "http", "url": url, "headers": { MARK.0: MARK.1 }, self.timeout: timeout
            }),
            // The harness puts in the values of those variables that are listed.
            HookHandler::Http { url, sends_token: true } => json!({
                "type": "http", "url": url,
                "headers": { MARK.0: MARK.1, TOKEN_HEADER: format!("Bearer ${TOKEN_VARIABLE}") },
                "allowedEnvVars": [TOKEN_VARIABLE], self.timeout: timeout
            }),
        }
    }

    /// Reads an entry; `None` if it is not ours.
    pub(super) fn of_ours(&self, entry: &Value) -> Option<HookHandler> {
        let text = |key: &str| entry.get(key)?.as_str();
        match text("type")? {
            "command" => text(self.command)
                .or_else(|| text(self.powershell?))
                .map(of_powershell)
                .filter(|command| is_our_command(command))
                .map(HookHandler::Command),
            "http" => {
                let headers = entry.get("headers")?;
                headers.get(MARK.0)?.as_str().filter(|value| *value == MARK.1)?;
                let sends_token = headers.get(TOKEN_HEADER).is_some();
                text("url").map(|url| HookHandler::Http { url: url.to_owned(), sends_token })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use super::{super::tests::FORM, *};

    #[test]
    #[cfg(unix)]
    fn command_survives_sh_and_is_known_again() {
        for program in ["/usr/bin/subscope", "/a b/it's $HOME `x`/subscope", "/t\u{e9}st/\\/subscope"] {
            let handler = HookHandler::command(Path::new(program), &["--store", "/my data"]);
            let HookHandler::Command(command) = &handler else { panic!("{handler:?}") };
            let out =
                Command::new("/bin/sh").args(["-c", &format!("printf '%s\\n' {command}")]).output().unwrap();
            let expected = format!("{program}\nhook\n--store\n/my data\n");
            assert_eq!(String::from_utf8(out.stdout).unwrap(), expected);
            assert_eq!(FORM.of_ours(&FORM.entry("PreToolUse", &handler)), Some(handler), "{program}");
        }
        let plain = HookHandler::command(Path::new("/usr/bin/subscope"), &[]);
        assert_eq!(plain, HookHandler::Command("/usr/bin/subscope hook".to_owned()));
    }

    #[test]
    fn command_on_windows_has_the_form_of_its_shell_and_is_known_again() {
        const POWERSHELL: SettingsForm = SettingsForm { powershell: Some("command"), ..FORM };
        const BOTH: SettingsForm = SettingsForm { command: "bash", powershell: Some("powershell"), ..FORM };
        for (program, bash, powershell) in [
            (r"C:\Users\x\subscope.exe", "C:/Users/x/subscope.exe hook", "C:/Users/x/subscope.exe hook"),
            (
                r"C:\Users\A B\it's\subscope.exe",
                r"'C:/Users/A B/it'\''s/subscope.exe' hook",
                "& 'C:/Users/A B/it''s/subscope.exe' hook",
            ),
            (
                r"\\host\share\subscope.EXE",
                r"'\\host\share\subscope.EXE' hook",
                r"& '\\host\share\subscope.EXE' hook",
            ),
        ] {
            let handler = HookHandler::command(Path::new(program), &[]);
            assert_eq!(handler, HookHandler::Command(bash.to_owned()));
            for (form, key, expected) in [
                (&FORM, "command", bash),
                (&POWERSHELL, "command", powershell),
                (&BOTH, "powershell", powershell),
            ] {
                let entry = form.entry("PreToolUse", &handler);
                assert_eq!(entry[key], expected);
                assert_eq!(form.of_ours(&entry).as_ref(), Some(&handler), "{entry}");
            }
        }
        let plain = HookHandler::command(Path::new("/a b/subscope"), &[]);
        assert_eq!(
            BOTH.entry("PreToolUse", &plain)["bash"],
            "'/a b/subscope' hook",
            "Unix has no other form"
        );
        for other in
            ["& 'C:/x/other.exe' hook", "& 'C:/x/subscope.exe' hook; rm x", "& subscope.exe.cmd hook"]
        {
            assert_eq!(FORM.of_ours(&json!({ "type": "command", "command": other })), None, "{other}");
        }
    }

    #[test]
    fn entries_of_others_are_not_ours() {
        for command in [
            "/usr/bin/mysubscope hook",
            "subscope hooks",
            "subscope hook; rm x",
            "subscope hook --store a b",
            "subscope hook --store",
            "subscope hook --exec a",
            "echo subscope hook",
            "subscope",
            "'subscope hook",
            "subscope hook > log",
            "",
        ] {
            assert_eq!(FORM.of_ours(&json!({ "type": "command", "command": command })), None, "{command}");
        }
        for entry in [
            json!({ "type": "http", "url": "http://127.0.0.1:7337/hooks/claude" }),
            json!({ "type": "prompt", "command": "subscope hook" }),
            json!({ "type": "command", "command": 1 }),
            json!({ "command": "subscope hook" }),
            json!("subscope hook"),
            json!(null),
        ] {
            assert_eq!(FORM.of_ours(&entry), None, "{entry}");
        }
        for command in
            ["/old/place/subscope hook", "subscope.exe hook", "subscope hook --harness x --event y --store z"]
        {
            let ours = json!({ "type": "command", "command": command, "timeout": 60 });
            assert!(FORM.of_ours(&ours).is_some());
        }
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
                assert_eq!(FORM.of_ours(&FORM.entry("PreToolUse", &handler)), Some(handler));
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
