//! Which sessions a command selects: a wrong name is an error, and no empty answer.

use std::path::Path;

use subscope_harness::harnesses;
use subscope_model::{SessionRow, Text};

use crate::{config::did_you_mean, prelude::*, team_server};

/// What the options `--harness` and `--project` name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SelectedSessions<'a> {
    pub(super) harness: Option<&'a str>,
    pub(super) project: Option<&'a Path>,
}

impl SelectedSessions<'_> {
    /// Checks the names behind an empty answer.
    ///
    /// # Errors
    /// No harness and no session has that name, or there is no such folder and no session ran there.
    pub(super) fn check(&self, backend: &mut Backend<'_>, context: &Context) -> Result<(), CliError> {
        let known: Vec<&str> = harnesses().map(|harness| harness.name()).collect();
        if let Some(name) = self.harness.filter(|name| !known.contains(name)) {
            let query = format!("{}{name} {}", SessionRow::HARNESS, SessionRow::WITH_OWN);
            if backend.sessions(1, false, &query)?.sessions.is_empty() {
                let meant = did_you_mean(name, known.iter().copied());
                let error = CliError::failed(format!("no session is of a harness {name:?}{meant}"));
                return Err(error.hint(format!("harnesses: {}", known.join(", "))));
            }
        }
        // A team's projects have names.
        if let Some(folder) = self.project.filter(|_| !matches!(team_server::asked(context), Ok(Some(_)))) {
            let project = context.project_folder(folder);
            let is_below = |known: &Text| Path::new(&**known).starts_with(&*project);
            if !Path::new(&*project).exists() && !backend.projects()?.iter().any(is_below) {
                let folder = folder.display();
                return Err(CliError::failed(format!("{folder} does not exist, and no session ran there")));
            }
        }
        Ok(())
    }
}
