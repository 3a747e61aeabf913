//! Starts a hub in the background.

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{NoHub, log};
use crate::context::Context;

/// How a started hub has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HubExit {
    /// Another process holds the store.
    Locked,
    /// It failed; the log says why.
    Failed,
}

/// Starts background hubs and reaps them.
pub(super) struct HubStarter {
    arguments: Vec<OsString>,
    log: PathBuf,
    /// Started hubs that have not been reaped: without `wait` they would stay zombies while this process lives.
    started: Vec<Child>,
}

impl HubStarter {
    pub(super) fn new(data: &Path, context: &Context) -> Self {
        // The hub runs in `/`, outside any project's settings, since it serves all sessions of the user: paths must be
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
            let errors: File = log.try_clone()?;
            Command::new(std::env::current_exe()?)
                .args(&self.arguments)
                .current_dir("/")
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(errors)
                .spawn()
        };
        self.started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        match start() {
            Ok(child) => {
                self.started.push(child);
                Ok(())
            }
            Err(error) => Err(NoHub::Failed(format!("no hub can be started: {error}"))),
        }
    }

    /// How the last started hub exited; `None` while it runs.
    pub(super) fn exit(&mut self) -> Option<HubExit> {
        let status = self.started.last_mut()?.try_wait().ok()??;
        Some(if status.success() { HubExit::Locked } else { HubExit::Failed })
    }

    /// Tells people where to find the reason of a failure.
    pub(super) fn see_log(&self) -> String {
        format!("see {}", self.log.display())
    }
}
