//! Sessions as people's disks have them, made up after public ones: `fixtures/wild/truth.json` says which files are one
//! home, and what is true of its session.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::json;

use super::{
    recordings::{HARNESSES, Recording},
    score::Answer,
};
use crate::step::{root, target_folder};

/// One session and its home.
#[derive(Deserialize)]
struct WildSession {
    name: String,
    harness: String,
    session: String,
    /// Files of the home, laid out as those of a recording, and the file below `fixtures/wild` that each is.
    files: BTreeMap<String, String>,
    truth: Answer,
}

/// Lays out each home below the target directory, and returns the sessions with their truth.
pub(super) fn all() -> Result<Vec<Recording>> {
    let fixtures = root().join("fixtures/wild");
    let text = fs::read_to_string(fixtures.join("truth.json"))?;
    let sessions: Vec<WildSession> = serde_json::from_str(&text).context("fixtures/wild/truth.json")?;
    let homes = target_folder()?.join("truth/wild");
    let lay_out = |session| lay_out(session, &fixtures, &homes);
    sessions.into_iter().map(lay_out).collect()
}

fn lay_out(session: WildSession, fixtures: &Path, homes: &Path) -> Result<Recording> {
    let WildSession { name, harness, session, files, truth } = session;
    let Some((harness, _)) = HARNESSES.iter().find(|(known, _)| *known == harness) else {
        bail!("fixtures/wild/truth.json: there is no harness {harness}");
    };
    let folder = homes.join(format!("{harness}-{session}"));
    let _ = fs::remove_dir_all(&folder);
    for (place, file) in files {
        let (from, to) = (fixtures.join(&file), folder.join(place));
        fs::create_dir_all(to.parent().unwrap_or(&folder))?;
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    // The script that asks other tools reads the id of the session from it.
    let id = json!({"session": {"id": session}});
    fs::write(folder.join("truth.json"), id.to_string())?;
    Ok(Recording {
        harness,
        name: format!("wild: {name}"),
        folder,
        session: Some(session),
        truth: Some(truth),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_its_own_home_and_a_root() {
        let all = all().unwrap();
        assert!(all.len() >= 20, "{}", all.len());
        for recording in &all {
            assert!(recording.truth().unwrap().agents.contains_key("root"), "{}", recording.name);
            assert!(recording.target().unwrap().exists(), "{}", recording.name);
        }
        let folders: std::collections::BTreeSet<_> = all.iter().map(|one| &one.folder).collect();
        assert_eq!(folders.len(), all.len());
    }
}
