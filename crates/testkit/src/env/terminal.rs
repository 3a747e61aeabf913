//! The real binary in a real terminal of a known size: tmux on a private socket.

use std::{fs, path::PathBuf, process::Command, thread, time::Duration};

use super::{TestEnv, run};
use crate::skip;

/// Polling interval while waiting for a screen.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the program, records its exit code and keeps the pane with its last screen. tmux's own `remain-on-exit`
/// overwrites that screen, and sometimes loses the exit code (observed: tmux 3.3a). Interrupts go to the program.
const KEEPER: &str = r#"trap : INT; note=$1; shift; "$@"; echo $? >"$note"; while :; do sleep 60; done"#;

/// A terminal that runs the binary; its server ends when this is dropped. The screen stays when the program has ended.
#[derive(Debug)]
pub struct Terminal<'e> {
    env: &'e TestEnv,
    socket: String,
    /// Where the exit code is noted.
    note: PathBuf,
}

impl<'e> Terminal<'e> {
    /// Starts the environment's binary with these arguments in a terminal of that size; `None` where tmux is not
    /// installed: then the test is recorded as skipped and has to return.
    pub fn start(env: &'e TestEnv, width: u16, height: u16, arguments: &[&str]) -> Option<Self> {
        let is_installed =
            env.command_of("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
        if !is_installed {
            skip::missing_tool("tmux");
            return None;
        }
        // One environment may have several terminals; each gets a server of its own.
        let number = (0..).find(|number| !env.path(&format!("tmux-{number}.conf")).exists())?;
        let settings = "set -g status off\nset -sg escape-time 0\nset -g default-terminal screen-256color\n";
        let config = env.write(&format!("tmux-{number}.conf"), settings);
        let note = env.path(&format!("tmux-{number}.exit"));
        let terminal = Self { env, socket: format!("subscope-{number}"), note };
        let mut command = terminal.tmux();
        command.arg("-f").arg(config).args(["new-session", "-d"]);
        command.args(["-x", &width.to_string(), "-y", &height.to_string()]);
        command.args(["--", "/bin/sh", "-c", KEEPER, "keeper"]);
        command.arg(&terminal.note).arg(&env.binary).args(arguments);
        run(command, b"").success();
        Some(terminal)
    }

    /// Sends keys by their tmux names: `Enter`, `Up`, `C-c`, `q`.
    pub fn send(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    /// Types text as it is.
    pub fn type_text(&self, text: &str) {
        self.ask(&["send-keys", "-l", text]);
    }

    /// Changes the size.
    pub fn resize(&self, width: u16, height: u16) {
        self.ask(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Returns the screen as text, a line a row, without blanks at the ends of rows.
    pub fn capture(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    /// Returns the screen with the escapes of its colors.
    pub fn capture_with_escapes(&self) -> String {
        self.ask(&["capture-pane", "-p", "-e"])
    }

    /// Returns the title that the program has set.
    pub fn title(&self) -> String {
        self.ask(&["display-message", "-p", "#{pane_title}"]).trim_end().to_owned()
    }

    /// Waits until the screen fulfills `ready` and returns it; panics with the last screen after about `limit`.
    pub fn wait_for(&self, limit: Duration, ready: impl Fn(&str) -> bool) -> String {
        let looks = limit.as_millis() / POLL_INTERVAL.as_millis();
        for _ in 0..looks {
            let screen = self.capture();
            if ready(&screen) {
                return screen;
            }
            thread::sleep(POLL_INTERVAL);
        }
        panic!("not in {limit:?}; the screen:\n{}", self.capture());
    }

    /// Waits until the screen holds `text` and returns it; panics with the last screen after about `limit`.
    pub fn wait_for_text(&self, limit: Duration, text: &str) -> String {
        self.wait_for(limit, |screen| screen.contains(text))
    }

    /// Returns the program's exit code once it has ended; after a signal, 128 and the signal's number.
    pub fn exit_code(&self) -> Option<i32> {
        fs::read_to_string(&self.note).ok()?.trim().parse().ok()
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let mut command = self.tmux();
        command.args(arguments);
        run(command, b"").success()
    }

    fn tmux(&self) -> Command {
        let mut command = self.env.command_of("tmux");
        // Its socket is inside the environment, so that other tmux servers are never used.
        command
            .env("TMUX_TMPDIR", self.env.path("run"))
            .env("TERM", "xterm-256color")
            .args(["-L", &self.socket]);
        command
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.tmux().arg("kill-server").output();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);
    const SCRIPT: &str = "stty size; printf '\\033[31mred\\033[0m\\n'; read word; echo got $word; exit 4";

    #[test]
    fn interrupt_reaches_the_program_and_the_screen_stays() {
        let env = TestEnv::new("/bin/sh");
        let Some(terminal) = Terminal::start(&env, 40, 10, &["-c", "echo ready; exec sleep 60"]) else {
            return;
        };
        terminal.wait_for_text(LIMIT, "ready");
        terminal.resize(50, 12);
        terminal.send(&["C-c"]);
        terminal.wait_for(LIMIT, |_| terminal.exit_code() == Some(130));
        assert!(terminal.capture().starts_with("ready"));
    }

    #[test]
    fn terminal_shows_what_the_program_writes_and_takes_keys() {
        let env = TestEnv::new("/bin/sh");
        let Some(terminal) = Terminal::start(&env, 60, 20, &["-c", SCRIPT]) else {
            assert!(env.command_of("tmux").output().is_err(), "tmux is there but gave no terminal");
            return;
        };
        let screen = terminal.wait_for_text(LIMIT, "red");
        assert!(screen.starts_with("20 60\nred\n"), "{screen}");
        assert!(terminal.capture_with_escapes().contains("\u{1b}[31m"));
        assert_eq!(terminal.exit_code(), None);
        terminal.type_text("a word");
        terminal.send(&["Enter"]);
        terminal.wait_for_text(LIMIT, "got a word");
        terminal.wait_for(LIMIT, |_| terminal.exit_code() == Some(4));
    }
}
