//! Whether there is something to show: Claude Code's folder, its sessions, what `watch` would follow.

use std::{fs, io, path::PathBuf};

use subscope_harness::{Harness, claude_code::ClaudeCode};
use subscope_model::Millis;
use subscope_render::text;

use super::{Check, State, survey::Survey};
use crate::environment::Environment;

/// The variable that moves Claude Code's folder.
const HOME_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// Where Claude Code keeps its files.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) root: PathBuf,
    pub(super) projects: PathBuf,
    /// Whether the variable names it.
    is_chosen: bool,
}

impl Home {
    pub(super) fn find(environment: &Environment) -> Self {
        let variable = |name: &str| environment.get(name);
        Self {
            root: ClaudeCode.home(&variable).folder,
            projects: ClaudeCode.roots(&variable).into_iter().next().unwrap_or_default(),
            is_chosen: environment.get(HOME_VARIABLE).is_some(),
        }
    }

    /// Says whether the folder is there and can be read.
    pub(super) fn check(&self) -> Check {
        let root = self.root.display();
        let name = "claude";
        match fs::read_dir(&self.root) {
            Ok(_) => Check::new(name, State::Ok, format!("Claude Code's folder {root}")),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_chosen => {
                Check::new(name, State::Failure, format!("{root} does not exist"))
                    .hint(format!("{HOME_VARIABLE} names it: correct or unset it"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Check::new(name, State::Warning, format!("no Claude Code folder at {root}"))
                    .hint(format!("set {HOME_VARIABLE} if it is elsewhere; paths as TARGET work without it"))
            }
            Err(error) => Check::new(name, State::Failure, format!("cannot read {root}: {error}"))
                .hint("run subscope as the user who runs Claude Code"),
        }
    }
}

/// Says how many sessions there are, and when the newest was written.
pub(super) fn sessions(survey: &Survey, now_ms: Millis) -> Check {
    let name = "sessions";
    if let Some(folder) = survey.unreadable.first() {
        let says = format!(
            "{} found, but {} of their folders cannot be read",
            survey.sessions,
            survey.unreadable.len()
        );
        return Check::new(name, State::Failure, says).hint(format!("the first is {}", folder.display()));
    }
    match survey.newest_ms {
        Some(newest_ms) => {
            let age = text::duration(Some(now_ms.saturating_sub(newest_ms)));
            Check::new(name, State::Ok, format!("{} found, the newest written {age} ago", survey.sessions))
        }
        None => {
            Check::new(name, State::Warning, "none found").hint("try subscope demo, or give a path as TARGET")
        }
    }
}

/// Says what `watch` would follow.
pub(super) fn watched(home: &Home, survey: &Survey) -> Check {
    let says = match survey.live {
        0 => "nothing is live; watch waits for sessions".to_owned(),
        1 => "1 live session".to_owned(),
        more => format!("{more} live sessions"),
    };
    Check::new("watch", State::Ok, format!("{says} below {}", home.projects.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn state(variables: &[(&str, &str)]) -> State {
        Home::find(&Environment::of(Path::new("/"), variables)).check().state
    }

    #[test]
    fn a_missing_folder_is_broken_only_where_it_was_chosen() {
        let home = tempfile::tempdir().unwrap();
        let text = home.path().to_str().unwrap();
        assert_eq!(state(&[("HOME", text)]), State::Warning);
        assert_eq!(state(&[("CLAUDE_CONFIG_DIR", &format!("{text}/none"))]), State::Failure);
        assert_eq!(state(&[("CLAUDE_CONFIG_DIR", text)]), State::Ok);
        fs::write(home.path().join(".claude"), "").unwrap();
        assert_eq!(state(&[("HOME", text)]), State::Failure);
    }

    #[test]
    fn sessions_tell_number_and_age() {
        let survey = Survey { sessions: 3, newest_ms: Some(1_000), ..Survey::default() };
        assert_eq!(sessions(&survey, 61_000).says, "3 found, the newest written 1m 0s ago");
        assert_eq!(sessions(&Survey::default(), 0).state, State::Warning);
        let survey = Survey { unreadable: vec!["/x".into()], ..survey };
        assert_eq!(sessions(&survey, 0).state, State::Failure);
    }
}
