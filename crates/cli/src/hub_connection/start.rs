//! Starts a hub in the background.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use subscope_platform::spawn_detached;

use super::{NoHub, log};
use crate::context::Context;

/// Starts background hubs and reaps them.
pub(super) struct HubStarter {
    arguments: Vec<OsString>,
    /// Says why a hub has failed.
    pub(super) log: PathBuf,
    /// Started hubs that have not been reaped: without `wait` they would stay zombies while this process lives.
    started: Vec<Child>,
}

impl HubStarter {
    pub(super) fn new(data: &Path, context: &Context) -> Self {
        // The hub runs in the root folder, outside any project's settings, since it serves all sessions of the user: paths must be
        // absolute.
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--background".into()];
        arguments.extend(["--store".into(), absolute(data).into()]);
        if let Some(chosen) = context.config.paths.chosen() {
            arguments.extend(["--config".into(), absolute(chosen).into()]);
        }
        Self { arguments, log: log::path(data, context), started: Vec::new() }
    }

    pub(super) fn start(&mut self) -> Result<(), NoHub> {
        let start = || -> io::Result<Child> {
            let log = log::open(&self.log)?;
            let mut command = Command::new(std::env::current_exe()?);
            command.args(&self.arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            spawn_detached(&mut command)
        };
        self.started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let child = start().map_err(|error| NoHub::Failed(format!("no hub can be started: {error}")))?;
        self.started.push(child);
        Ok(())
    }

    /// Whether a hub was started.
    pub(super) fn has_started(&self) -> bool {
        !self.started.is_empty()
    }

    /// How the last started hub exited; `None` while it runs.
    pub(super) fn exit(&mut self) -> Option<ExitStatus> {
        self.started.last_mut()?.try_wait().ok()?
    }
}
