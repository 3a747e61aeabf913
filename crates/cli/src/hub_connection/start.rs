//! Starting a hub in the background.

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{NoHub, log};
use crate::context::Context;

/// How a hub that was started has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Somebody else has the store.
    Locked,
    /// Something is wrong: the log says what.
    Failed,
}

/// Starts hubs and looks after them.
pub(super) struct Starter {
    arguments: Vec<OsString>,
    log: PathBuf,
    /// Those that were started and are not known to have ended: a process that nobody waits for stays in the system's
    /// list as long as this one lives.
    started: Vec<Child>,
}

impl Starter {
    pub(super) fn new(data: &Path, context: &Context) -> Self {
        // It works in another folder, where no project's settings are: it is for all of this user's sessions.
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--background".into()];
        arguments.extend(["--store".into(), absolute(data).into()]);
        if let Some(chosen) = context.config.places.chosen() {
            arguments.extend(["--config".into(), absolute(chosen).into()]);
        }
        Self { arguments, log: log::file(data, context), started: Vec::new() }
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

    /// How the last one has ended; `None` while it runs.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        let status = self.started.last_mut()?.try_wait().ok()??;
        Some(if status.success() { Ended::Locked } else { Ended::Failed })
    }

    /// Where people find what went wrong.
    pub(super) fn why(&self) -> String {
        format!("see {}", self.log.display())
    }
}
