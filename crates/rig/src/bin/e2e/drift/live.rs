//! `e2e --harness NAME --live`: a hub sees agents and calls while the harness works, touches none of its files, and
//! `run` changes neither what the harness prints nor its exit code.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Stage, compare, harness::Harness, settled, stopping, watch::FileWatch};
use crate::{
    finding::Findings,
    heard::Listener,
    ran::copying,
    served::{Hub, obey},
    world::{Ended, Programs},
};

/// How long after the harness's own file a hub may show an agent or a call; a database is polled.
const FILE_LIMIT: Duration = Duration::from_secs(1);
const DATABASE_LIMIT: Duration = Duration::from_secs(2);
/// How long a hub is left alone with files that no longer change.
const ALONE: Duration = Duration::from_secs(2);

/// Plays all of it with one harness.
pub(super) fn play(harness: Harness, programs: &Programs, findings: &mut Findings) -> Result<()> {
    let plain = files_without_hub(harness, programs)?;
    served(harness, programs, Hooks::None, &plain, findings)?;
    if harness.hooks_file().is_some() {
        served(harness, programs, Hooks::Installed, &plain, findings)?;
    }
    for script in ["parallel", "refused"] {
        ran(harness, programs, script, findings)?;
    }
    if harness.can_stop_agents() {
        stopping::play(harness, programs, findings)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hooks {
    None,
    Installed,
}

/// Names of the files that the harness writes without subscope.
fn files_without_hub(harness: Harness, programs: &Programs) -> Result<BTreeSet<String>> {
    let stage = Stage::set(harness, programs, "parallel")?;
    stage.run(0)?;
    Ok(names(&stage, &contents(&stage)).into_iter().collect())
}

/// Names of files without the parts that differ between runs.
fn names(stage: &Stage, files: &Contents) -> Vec<String> {
    let root = stage.world.env().root().file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Folders may be named by the path of the working folder, with other signs in the place of some.
    let root = root.trim_start_matches(|character: char| !character.is_ascii_alphanumeric());
    files.keys().map(|path| general(Path::new(&path.to_string_lossy().replace(root, "root")))).collect()
}

/// The harness while a hub runs.
fn served(
    harness: Harness,
    programs: &Programs,
    hooks: Hooks,
    plain: &BTreeSet<String>,
    findings: &mut Findings,
) -> Result<()> {
    let what = if hooks == Hooks::None { "files" } else { "hooks" };
    let stage = Stage::set(harness, programs, "parallel")?;
    let world = &stage.world;
    let hub = Hub::start(world.subscope("serve --listen 127.0.0.1:0"))?;
    let settings = || harness.hooks_file().and_then(|file| fs::read(world.path(file)).ok());
    let before = settings();
    if hooks == Hooks::Installed {
        obey(world, &format!("hooks install --harness {}", harness.name()))?;
        findings.same("hooks install changes the settings", settings() != before, true);
    }
    let listener = Listener::start(hub.address)?;
    let watch = FileWatch::start(world.path(harness.sessions()));
    let ended = stage.run(0)?;
    check_end(&ended, findings);
    // The last write may still be in progress.
    thread::sleep(ALONE);
    let (heard, written) = (listener.end()?, watch.end()?);
    let left = contents(&stage);
    thread::sleep(ALONE);
    findings.same(
        format!("{what}: files that changed beside an idle hub"),
        changed(&left, &contents(&stage)),
        vec![],
    );
    hub.end()?;
    findings.same(
        format!("{what}: files that the end of the hub changed"),
        changed(&left, &contents(&stage)),
        vec![],
    );
    if hooks == Hooks::None {
        let more: Vec<String> =
            names(&stage, &left).into_iter().filter(|path| !plain.contains(path)).collect();
        findings.same("files that are there with a hub alone", more, vec![]);
    }
    let tree = settled(world)?;
    compare::compare(harness, &stage.script, &stage.played, &world.stand_in.log(), &tree, findings);
    let mut delays = Vec::new();
    for agent in &tree.agents {
        let calls = agent.tools.iter().filter_map(|call| call.id.as_ref()).map(|id| id.as_str());
        let own = (agent.id.as_str() != compare::ROOT).then_some(agent.id.as_str());
        for id in own.into_iter().chain(calls) {
            match (written.get(id), heard.first.get(id)) {
                (Some(written), Some(seen)) => delays.push(seen.saturating_duration_since(*written)),
                (None, _) => findings.fault(format!("{what}: {id} is in no file of the harness")),
                (_, None) => findings.fault(format!("{what}: the live feed never showed {id}")),
            }
        }
    }
    report(harness, what, &mut delays, findings);
    findings.losses(what, &heard.losses);
    findings.same(format!("{what}: events that the live feed left out"), heard.missed, 0);
    if hooks == Hooks::Installed {
        obey(world, &format!("hooks remove --harness {}", harness.name()))?;
        // These write their settings themselves, in their own form.
        if matches!(harness, Harness::Gemini | Harness::Qwen) {
            let text =
                settings().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
            findings.same("hooks remove leaves nothing", text.contains("subscope"), false);
        } else {
            findings.same("settings after hooks remove", settings(), before);
        }
        // The plugin for OpenCode sends little that its database does not have, and later. `stopping` needs it.
        if harness != Harness::OpenCode {
            findings.same("an event came by a hook first", heard.hooked > 0, true);
        }
        findings.note(format!("{} events first by hooks", heard.hooked));
    }
    Ok(())
}

fn report(harness: Harness, what: &str, delays: &mut [Duration], findings: &mut Findings) {
    delays.sort_unstable();
    let limit = if harness == Harness::OpenCode { DATABASE_LIMIT } else { FILE_LIMIT };
    let (Some(median), Some(most)) = (delays.get(delays.len() / 2), delays.last()) else {
        return findings.fault(format!("{what}: nothing was seen"));
    };
    if *most > limit {
        findings
            .fault(format!("{what}: seen {} ms after the file, and not within {limit:?}", most.as_millis()));
    }
    let (count, median, most) = (delays.len(), median.as_millis(), most.as_millis());
    findings.note(format!(
        "{what}: {count} agents and calls seen {median} ms (median), {most} ms (most) after the file"
    ));
}

/// The harness under `run`: with agents, and where its model refuses the first prompt.
fn ran(harness: Harness, programs: &Programs, script: &str, findings: &mut Findings) -> Result<()> {
    let stage = Stage::set(harness, programs, script)?;
    let world = &stage.world;
    let program =
        programs.harness.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let copied = copying(world, &programs.harness, &program)?;
    let mut command = world.subscope("run --");
    command.env_remove("SUBSCOPE_NO_AUTOSTART").arg(world.path(&format!("copying/{program}")));
    let ended = world.run({
        command.args(stage.arguments(0));
        command
    })?;
    let child = copied.read()?;
    findings.same(format!("run, {script}: exit code"), ended.status.code(), Some(child.code));
    if ended.stdout != child.stdout {
        let (own, childs) = (ended.stdout.len(), child.stdout.len());
        findings.fault(format!("run, {script}: stdout of {own} bytes is not the child's of {childs}"));
    }
    if script == "parallel" {
        let tree = settled(world)?;
        compare::compare(harness, &stage.script, &stage.played, &world.stand_in.log(), &tree, findings);
    }
    findings.note(format!("run, {script}: stdout as it was, exit code {}", child.code));
    world.run(world.subscope("serve --stop"))?;
    Ok(())
}

pub(super) fn check_end(ended: &Ended, findings: &mut Findings) {
    findings.same("exit code", ended.status.code(), Some(0));
    if !ended.status.success() {
        findings.fault(ended.stderr.lines().rev().take(5).collect::<Vec<_>>().join(" / "));
    }
}

/// The files of the harness with their lengths, times of change and bytes.
type Contents = BTreeMap<PathBuf, (u64, i64, Vec<u8>)>;

fn contents(stage: &Stage) -> Contents {
    let mut found = BTreeMap::new();
    let env = stage.world.env();
    for folder in ["home", "data"] {
        let mut open = vec![env.path(folder)];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (path, kind) = (entry.path(), entry.file_type());
                if entry.file_name() == "subscope" {
                    continue;
                }
                if kind.is_ok_and(|kind| kind.is_dir()) {
                    open.push(path);
                } else if let (Ok(about), Ok(bytes)) = (fs::metadata(&path), fs::read(&path)) {
                    let relative = path.strip_prefix(env.root()).unwrap_or(&path).to_owned();
                    found.insert(
                        relative,
                        (about.len(), about.mtime_nsec() + about.mtime() * 1_000_000_000, bytes),
                    );
                }
            }
        }
    }
    found
}

fn changed(before: &Contents, after: &Contents) -> Vec<PathBuf> {
    let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let all: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    all.into_iter().filter(differs).cloned().collect()
}

/// A path without the parts that differ between runs: numbers, ids, and the companion files of an open database.
fn general(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = ["-wal", "-shm"].iter().find_map(|end| text.strip_suffix(end)).unwrap_or(&text);
    let is_other = |word: &str| {
        let word = word.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
        word.bytes().any(|byte| byte.is_ascii_digit())
            || (word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let words = text.split_inclusive(|character: char| !character.is_ascii_alphanumeric());
    words.map(|word| if is_other(word) { "#" } else { word }).collect()
}

/// When each id was first seen.
pub(super) type FirstSeen = HashMap<String, Instant>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_two_runs_are_alike_without_ids_and_numbers() {
        let one = general(Path::new("home/.codex/sessions/2026/11/rollout-2026-11-25T08-01a2-9f.jsonl"));
        let other = general(Path::new("home/.codex/sessions/2027/12/rollout-2027-12-26T09-beef-8e.jsonl"));
        assert_eq!(one, other);
        assert_eq!(general(Path::new("data/x.db-wal")), general(Path::new("data/x.db")));
        assert_ne!(general(Path::new("home/.codex/a")), general(Path::new("home/.codex/b")));
    }
}
