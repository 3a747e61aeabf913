//! Checks for content: the harnesses' folders, their sessions, and the sessions that `watch` would follow.

use std::{fs, io};

use subscope_collect::{Skipped, not_understood as collect_not_understood, unread_databases};
use subscope_harness::{Harness, Home, Root, RunPlan, harnesses, homes as homes_of};
use subscope_model::Millis;
use subscope_render::text;

use super::{Check, survey::Survey};
use crate::{command::target::shown, environment::Environment};

/// Reports whether the folder of each harness exists and can be read. Unused harnesses are left out if another one is
/// used.
pub(super) fn homes(environment: &Environment) -> Vec<Check> {
    let variables = |name: &str| environment.get(name);
    let of = |harness| homes_of(harness, &variables).into_iter().map(move |home| (harness, home));
    let homes = harnesses().flat_map(of);
    let (mut used, mut missing) = (Vec::new(), Vec::new());
    for (harness, home) in homes {
        match home.is_chosen || home.folder.symlink_metadata().is_ok() {
            true => used.push(check(harness, &home)),
            false => missing.push((harness.title(), home.variable)),
        }
    }
    if used.is_empty() { vec![none_is_there(&missing)] } else { used }
}

/// Reports that no harness has a folder. Each has a title and the variable that names its folder.
fn none_is_there(harnesses: &[(&str, &str)]) -> Check {
    let titles: Vec<&str> = harnesses.iter().map(|(title, _)| *title).collect();
    let mut variables: Vec<&str> = harnesses.iter().map(|(_, variable)| *variable).collect();
    variables.sort_unstable();
    variables.dedup();
    Check::warning("harnesses", format!("no folder of {}", titles.join(", "))).hint(format!(
        "if one is elsewhere, set its variable: {}; paths as TARGET work without it",
        variables.join(", ")
    ))
}

fn check(harness: &dyn Harness, home: &Home) -> Check {
    let name = harness.run().map_or(harness.name(), RunPlan::program);
    let (title, folder, variable) = (harness.title(), home.folder.display(), home.variable);
    match fs::read_dir(&home.folder) {
        Ok(_) => match harness.gaps() {
            [] => Check::ok(name, format!("{title}'s folder {folder}")),
            gaps => {
                let gaps = gaps.join("; ").replace('`', "");
                Check::ok(name, format!("{title}'s folder {folder}"))
                    .hint(format!("what it leaves out: {gaps}"))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let broken = Check::failure(name, format!("{folder} does not exist"));
            match home.is_chosen {
                true => broken.hint(format!("{variable} names it: correct or unset it")),
                false => broken.hint(format!("{title} made it: it is a link to nothing")),
            }
        }
        Err(error) => Check::failure(name, format!("cannot read {folder}: {error}"))
            .hint(format!("run subscope as the user who runs {title}")),
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
        return Check::failure(name, message).hint(format!("the first is {}", folder.display()));
    }
    if let Some(link) = survey.links.first() {
        let message = format!(
            "{} found; {} to folders not followed, the first is {}",
            survey.sessions,
            text::plural(survey.links.len(), "symbolic link"),
            link.display()
        );
        return Check::warning(name, message).hint(
            "`subscope index FOLDER` reads the folder behind it; move the folder to have it followed live",
        );
    }
    match survey.newest_ms.filter(|_| survey.sessions > 0) {
        Some(newest_ms) => {
            let age = text::duration(Some(now_ms.saturating_sub(newest_ms)));
            Check::ok(name, format!("{} found, the newest written {age} ago", survey.sessions))
        }
        None => Check::warning(name, "none found").hint("try subscope demo, or give a path as TARGET"),
    }
}

/// Most files that are named one by one.
const MAX_NAMED: usize = 20;

/// Reports what is in the folders and is not read: their number, then each.
pub(super) fn not_understood(roots: &[Root]) -> Vec<Check> {
    let files = |root| collect_not_understood(root, usize::MAX, &|_| false);
    let found: Vec<Skipped> =
        roots.iter().flat_map(|root| unread_databases(root).into_iter().chain(files(root))).collect();
    let counted = format!("{} not read or not understood", text::plural(found.len(), "file"));
    let name = |skip: &Skipped| format!("{}: {}", skip.path.display(), skip.why);
    let mut says: Vec<String> = match found.as_slice() {
        [] => return Vec::new(),
        [only] => vec![format!("{counted}: {}", name(only))],
        all => std::iter::once(counted).chain(all.iter().take(MAX_NAMED).map(name)).collect(),
    };
    let rest = found.len().saturating_sub(MAX_NAMED);
    if rest > 0 {
        says.push(format!("and {} more", text::plural(rest, "file")));
    }
    let mut checks: Vec<Check> = says.into_iter().map(|says| Check::warning("sessions", says)).collect();
    // The hint is about all of them.
    let last = checks
        .pop()
        .map(|check| check.hint("`subscope tree FILE` says more; `subscope bug-report` helps to mend it"));
    checks.extend(last);
    checks
}

/// Reports the sessions that `watch` would follow.
pub(super) fn watched(roots: &[Root], survey: &Survey) -> Check {
    let says = match survey.recent {
        0 => "no session was written in the last 15 minutes; watch waits for one".to_owned(),
        some => format!("it follows {}, written in the last 15 minutes", text::plural(some, "session")),
    };
    Check::ok("watch", format!("{says} below {}", shown(roots)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{super::CheckState, *};

    fn state(variables: &[(&str, &str)]) -> CheckState {
        homes(&Environment::of(Path::new("/"), variables))[0].state
    }

    #[test]
    fn a_missing_folder_is_broken_only_where_it_was_chosen() {
        let home = tempfile::tempdir().unwrap();
        let text = home.path().to_str().unwrap();
        assert_eq!(state(&[("HOME", text)]), CheckState::Warning);
        let checks = homes(&Environment::of(Path::new("/"), &[("HOME", text)]));
        assert_eq!(checks.len(), 1, "one line for all: {checks:?}");
        assert!(checks[0].hint.as_ref().is_some_and(|hint| hint.contains("CLAUDE_CONFIG_DIR")), "{checks:?}");
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
        let linked = Survey { links: vec!["/l".into()], ..Survey::default() };
        assert_eq!(
            sessions(&linked, 0).says,
            "0 found; 1 symbolic link to folders not followed, the first is /l"
        );
        let survey = Survey { unreadable: vec!["/x".into()], ..survey };
        assert_eq!(sessions(&survey, 0).state, CheckState::Failure);
    }
}
