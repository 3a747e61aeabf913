//! Claude Code in a real terminal (tmux), as a person uses it.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use subscope_rig::tick;

use crate::world::{POLL, World};

/// How long the program may take to show what it was asked for: far more than it needs.
const LIMIT: Duration = Duration::from_secs(60);

/// Claude Code in a terminal of its own.
pub(crate) struct Terminal<'w> {
    world: &'w World,
    socket: PathBuf,
}

impl<'w> Terminal<'w> {
    /// Starts it with these arguments and the settings of an experienced user (no first-run dialogs); `None` if tmux is
    /// not installed.
    pub(crate) fn start(world: &'w World, arguments: &[&str]) -> Result<Option<Self>> {
        let work = world.path("work");
        Self::trust(world, std::slice::from_ref(&work));
        Self::start_in(world, &work, arguments)
    }

    /// Writes settings that skip the first-run dialogs in these folders.
    pub(crate) fn trust(world: &World, folders: &[PathBuf]) {
        let trusted =
            |folder: &PathBuf| (folder.display().to_string(), json!({ "hasTrustDialogAccepted": true }));
        let projects: Map<String, Value> = folders.iter().map(trusted).collect();
        let known = json!({
            "hasCompletedOnboarding": true, "theme": "dark",
            "customApiKeyResponses": { "approved": ["sk-ant-none"], "rejected": [] },
            "projects": projects,
        });
        world.write("home/.claude.json", &known.to_string());
    }

    /// Starts it in a folder that it trusts.
    pub(crate) fn start_in(world: &'w World, folder: &Path, arguments: &[&str]) -> Result<Option<Self>> {
        let terminal = Self { world, socket: folder.with_extension("sock") };
        let mut command =
            terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", "-c"]);
        command.arg(folder).arg("--").arg(world.path("bin/claude")).args(arguments);
        match world.run(command) {
            Ok(ended) if ended.status.success() => Ok(Some(terminal)),
            Ok(ended) => bail!("tmux: {}", ended.stderr),
            Err(_) => Ok(None),
        }
    }

    fn tmux(&self, words: &[&str]) -> Command {
        let mut command = self.world.other("tmux");
        command.arg("-S").arg(&self.socket).args(words);
        command
    }

    fn ask(&self, words: &[&str]) -> Result<String> {
        let output = self.tmux(words).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Types words and Enter, when the words are on the screen.
    pub(crate) fn enter(&self, words: &str) -> Result<()> {
        self.ask(&["send-keys", "-l", words])?;
        self.wait_for(words, |screen| screen.contains(words.trim_start_matches("! ")))?;
        self.ask(&["send-keys", "Enter"])?;
        Ok(())
    }

    /// Presses a key, by tmux's name of it.
    pub(crate) fn press(&self, key: &str) -> Result<()> {
        self.ask(&["send-keys", key]).map(drop)
    }

    /// Waits until the screen is as it should be.
    pub(crate) fn wait_for(&self, what: &str, ready: impl Fn(&str) -> bool) -> Result<()> {
        let began = tick();
        while began.elapsed() < LIMIT {
            if ready(&self.ask(&["capture-pane", "-p"])?) {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        bail!("{what}: not in {LIMIT:?}; the screen:\n{}", self.ask(&["capture-pane", "-p"])?)
    }

    /// Waits until the program has ended.
    pub(crate) fn wait_for_end(&self) -> Result<()> {
        let began = tick();
        while self.tmux(&["has-session"]).output()?.status.success() {
            if began.elapsed() > LIMIT {
                bail!("it does not end; the screen:\n{}", self.ask(&["capture-pane", "-p"])?);
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // One that has ended has no server any more.
        let _ = self.tmux(&["kill-server"]).output();
    }
}
