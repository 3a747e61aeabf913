//! Checks of Claude Code's directory and its sessions.

use std::{fs, io, path::PathBuf};

use subscope_collect::layout::{config_root, projects_folder};
use subscope_model::Millis;
use subscope_render::text;

use super::{Check, CheckState, survey::Survey};
use crate::environment::Environment;

/// Environment variable with the path of Claude Code's directory.
const HOME_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// Claude Code's directory.
#[derive(Debug)]
pub(super) struct ClaudeDirectory {
    pub(super) root: PathBuf,
    pub(super) projects: PathBuf,
    /// Whether the variable sets it.
    is_chosen: bool,
}

impl ClaudeDirectory {
    pub(super) fn find(environment: &Environment) -> Self {
        let variable = |name: &str| environment.get(name);
        Self {
            root: config_root(&variable),
            projects: projects_folder(&variable),
            is_chosen: environment.get(HOME_VARIABLE).is_some(),
        }
    }

    /// Checks whether the directory exists and is readable.
    pub(super) fn check(&self) -> Check {
        let root = self.root.display();
        let name = "claude";
        match fs::read_dir(&self.root) {
            Ok(_) => Check::new(name, CheckState::Ok, format!("Claude Code's folder {root}")),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_chosen => {
                Check::new(name, CheckState::Failure, format!("{root} does not exist"))
                    .hint(format!("{HOME_VARIABLE} names it: correct or unset it"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Check::new(name, CheckState::Warning, format!("no Claude Code folder at {root}"))
                    .hint(format!("set {HOME_VARIABLE} if it is elsewhere; paths as TARGET work without it"))
            }
            Err(error) => Check::new(name, CheckState::Failure, format!("cannot read {root}: {error}"))
                .hint("run subscope as the user who runs Claude Code"),
        }
    }
}

/// Reports the number of sessions and the age of the newest.
pub(super) fn sessions(survey: &Survey, now_ms: Millis) -> Check {
    let name = "sessions";
    if let Some(folder) = survey.unreadable.first() {
        let message = format!(
            "{} found, but {} of their folders cannot be read",
            survey.sessions,
            survey.unreadable.len()
        );
        return Check::new(name, CheckState::Failure, message)
            .hint(format!("the first is {}", folder.display()));
    }
    match survey.newest_ms {
        Some(newest_ms) => {
            let age = text::duration(Some(now_ms.saturating_sub(newest_ms)));
            Check::new(
                name,
                CheckState::Ok,
                format!("{} found, the newest written {age} ago", survey.sessions),
            )
        }
        None => Check::new(name, CheckState::Warning, "none found")
            .hint("try subscope demo, or give a path as TARGET"),
    }
}

/// Reports the number of sessions that `watch` would follow.
pub(super) fn watched(claude: &ClaudeDirectory, survey: &Survey) -> Check {
    let message = match survey.live {
        0 => "nothing is live; watch waits for sessions".to_owned(),
        1 => "1 live session".to_owned(),
        more => format!("{more} live sessions"),
    };
    Check::new("watch", CheckState::Ok, format!("{message} below {}", claude.projects.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn state(variables: &[(&str, &str)]) -> CheckState {
        ClaudeDirectory::find(&Environment::of(Path::new("/"), variables)).check().state
    }

    #[test]
    fn a_missing_folder_is_broken_only_where_it_was_chosen() {
        let home = tempfile::tempdir().unwrap();
        let text = home.path().to_str().unwrap();
        assert_eq!(state(&[("HOME", text)]), CheckState::Warning);
        assert_eq!(state(&[("CLAUDE_CONFIG_DIR", &format!("{text}/none"))]), CheckState::Failure);
        assert_eq!(state(&[("CLAUDE_CONFIG_DIR", text)]), CheckState::Ok);
        fs::write(home.path().join(".claude"), "").unwrap();
        assert_eq!(state(&[("HOME", text)]), CheckState::Failure);
    }

    #[test]
    fn sessions_tell_number_and_age() {
        let survey = Survey { sessions: 3, newest_ms: Some(1_000), ..Survey::default() };
        assert_eq!(sessions(&survey, 61_000).says, "3 found, the newest written 1m 0s ago");
        assert_eq!(sessions(&Survey::default(), 0).state, CheckState::Warning);
        let survey = Survey { unreadable: vec!["/x".into()], ..survey };
        assert_eq!(sessions(&survey, 0).state, CheckState::Failure);
    }
}
