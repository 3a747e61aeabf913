//! What a TARGET expands to: real recordings of each layout, and hostile folders.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use subscope_collect::{CollectError, Expanded, Found, expand};
use subscope_harness::Role;

const SESSION: &str = "59d3cea2-8628-4065-a429-a6583bbe765a";
const OTHER: &str = "69d3cea2-8628-4065-a429-a6583bbe765a";

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-code").join(name)
}

/// The one main transcript of a recording.
fn main_of(name: &str) -> PathBuf {
    let all = expand(&recording(name)).unwrap();
    let mut mains = all.groups.iter().flat_map(|group| &group.files).filter(|found| found.role == Role::Main);
    let main = mains.next().unwrap().path.clone();
    assert!(mains.next().is_none());
    main
}

fn files(expanded: &Expanded) -> Vec<&Found> {
    expanded.groups.iter().flat_map(|group| &group.files).collect()
}

fn count(expanded: &Expanded, role: Role) -> usize {
    files(expanded).iter().filter(|found| found.role == role).count()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn line(session: &str) -> String {
    format!("{{\"isSidechain\":true,\"sessionId\":\"{session}\"}}\n")
}

#[test]
fn expand_main_of_2_1_reads_its_subagents_with_it() {
    let main = main_of("2.1.330/b-parallel");
    let expanded = expand(&main).unwrap();
    assert_eq!((expanded.groups.len(), &expanded.skipped[..]), (1, &[][..]));
    assert_eq!((count(&expanded, Role::Agent), count(&expanded, Role::Note)), (3, 3));
    let group = &expanded.groups[0];
    assert_eq!(group.files[0].path, fs::canonicalize(&main).unwrap());
    assert_eq!(group.files[0].len, fs::metadata(&main).unwrap().len());
    assert!(group.files.iter().all(|found| found.session == group.session && found.modified_ms.is_some()));
    assert!(group.files[1..].iter().all(|found| found.agent.is_some()));
}

#[test]
fn expand_main_of_2_0_reads_the_subagents_beside_it() {
    let expanded = expand(&main_of("2.0.76/b-parallel")).unwrap();
    assert_eq!((expanded.groups.len(), count(&expanded, Role::Agent)), (1, 5));
}

#[test]
fn expand_folder_main_and_session_folder_agree() {
    let main = main_of("2.1.330/c-nested");
    let by_main = expand(&main).unwrap();
    assert_eq!(by_main, expand(&main.with_extension("")).unwrap());
    assert_eq!(by_main, expand(main.parent().unwrap()).unwrap());
    assert_eq!(by_main, expand(&recording("2.1.330/c-nested")).unwrap());
    let merged = expand(&main).unwrap().merge(expand(&main.with_extension("")).unwrap());
    assert_eq!(merged, by_main);
}

#[test]
fn expand_all_recordings_gives_each_file_once_in_a_stable_order() {
    let expanded = expand(&recording("")).unwrap();
    assert_eq!(expanded, expand(&recording("")).unwrap());
    let mut paths: Vec<_> = files(&expanded).iter().map(|found| &found.path).collect();
    let before = paths.len();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), before);
    assert!(expanded.groups.iter().all(|group| group.files[0].role == Role::Main));
}

#[test]
fn expand_stream_or_hook_log_is_that_file_alone() {
    for name in ["stream.jsonl", "hooks.jsonl"] {
        let expanded = expand(&recording("2.1.330/a-single").join(name)).unwrap();
        assert_eq!((files(&expanded).len(), count(&expanded, Role::Other)), (1, 1));
        assert_eq!(expanded.groups[0].session, None);
    }
}

#[test]
fn expand_main_leaves_out_subagents_of_other_sessions_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join(format!("{SESSION}.jsonl"));
    write(&main, "{}\n");
    for at in 0..2_000 {
        let session = if at % 100 == 0 { SESSION } else { OTHER };
        write(&folder.path().join(format!("agent-{at:04}.jsonl")), &line(session));
    }
    write(&folder.path().join("agent-broken.jsonl"), "no json");
    let expanded = expand(&main).unwrap();
    assert_eq!((expanded.groups.len(), count(&expanded, Role::Agent)), (1, 20));
    let all = expand(folder.path()).unwrap();
    let sessions: Vec<_> =
        all.groups.iter().map(|group| (group.session.as_deref(), group.files.len())).collect();
    assert_eq!(sessions, [(Some(SESSION), 21), (Some(OTHER), 1_980), (None, 1)]);
}

#[test]
fn expand_orphaned_subagents_and_workflows_without_main() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join(SESSION);
    let agent = session.join("subagents/agent-a1.jsonl");
    write(&agent, &line(SESSION));
    write(&session.join("subagents/agent-a1.meta.json"), "{}");
    write(&session.join("subagents/workflows/wf_1/agent-b.jsonl"), &line(SESSION));
    write(&session.join("subagents/workflows/wf_1/journal.jsonl"), "{}\n");
    write(&session.join("tool-results/agent-x.jsonl"), "{}\n");
    for target in [&session, folder.path(), &session.join("subagents")] {
        let expanded = expand(target).unwrap();
        assert_eq!((expanded.groups.len(), files(&expanded).len()), (1, 4), "{}", target.display());
        assert_eq!(expanded.groups[0].session.as_deref(), Some(SESSION));
        assert_eq!(
            files(&expanded).iter().filter(|found| found.workflow.as_deref() == Some("wf_1")).count(),
            2
        );
    }
    let alone = expand(&agent).unwrap();
    assert_eq!((count(&alone, Role::Agent), count(&alone, Role::Note), files(&alone).len()), (1, 1, 2));
    assert_eq!(alone.groups[0].session.as_deref(), Some(SESSION));
}

#[test]
fn expand_main_under_another_name_is_known_by_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("copy.jsonl"), "{}\n");
    write(&folder.path().join("copy/subagents/agent-a.jsonl"), "{}\n");
    let by_file = expand(&folder.path().join("copy.jsonl")).unwrap();
    assert_eq!((count(&by_file, Role::Main), count(&by_file, Role::Agent)), (1, 1));
    assert_eq!(by_file, expand(folder.path()).unwrap());
}

#[test]
fn expand_folder_of_recordings_only_gives_them_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("stream.jsonl"), "{}\n");
    write(&folder.path().join("hooks.jsonl"), "{}\n");
    write(&folder.path().join("note.txt"), "x");
    let expanded = expand(folder.path()).unwrap();
    assert_eq!((expanded.groups.len(), count(&expanded, Role::Other)), (2, 2));
}

#[test]
fn expand_follows_links_to_files_and_skips_pipes_endless_links_and_folders_in_disguise() {
    let outside = tempfile::tempdir().unwrap();
    write(&outside.path().join(format!("{OTHER}.jsonl")), "{}\n");
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("projects/-p");
    write(&project.join(format!("{SESSION}.jsonl")), "{}\n");
    fs::create_dir(project.join("x.jsonl")).unwrap();
    symlink(folder.path(), project.join("loop")).unwrap();
    symlink(outside.path(), project.join("out")).unwrap();
    symlink(outside.path().join(format!("{OTHER}.jsonl")), project.join(format!("{OTHER}.jsonl"))).unwrap();
    assert!(Command::new("mkfifo").arg(project.join("agent-pipe.jsonl")).status().unwrap().success());
    symlink(project.join("agent-endless.jsonl"), project.join("agent-endless.jsonl")).unwrap();
    symlink(project.join("none"), project.join("agent-gone.jsonl")).unwrap();
    symlink("/dev/null", project.join("agent-device.jsonl")).unwrap();
    // A real file is listed once.
    fs::create_dir(folder.path().join("projects/-q")).unwrap();
    let twice = folder.path().join(format!("projects/-q/{SESSION}.jsonl"));
    symlink(project.join(format!("{SESSION}.jsonl")), twice).unwrap();
    let expanded = expand(folder.path()).unwrap();
    let project = fs::canonicalize(&project).unwrap();
    let link = project.join(format!("{OTHER}.jsonl"));
    let paths: Vec<_> = files(&expanded).iter().map(|found| found.path.clone()).collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert!(paths.contains(&link));
    let skipped: Vec<_> = expanded.skipped.iter().map(|skip| skip.path.file_name().unwrap()).collect();
    let names =
        ["agent-device.jsonl", "agent-endless.jsonl", "agent-gone.jsonl", "agent-pipe.jsonl", "x.jsonl"];
    assert_eq!(skipped, names);
    // A link that the user names is followed; its folder says what belongs to it.
    let named = expand(&link).unwrap();
    assert_eq!(files(&named)[0].path, link);
}

#[test]
fn expand_missing_empty_or_special_target_is_an_error_with_path_and_hint() {
    let folder = tempfile::tempdir().unwrap();
    let missing = expand(&folder.path().join("none.jsonl")).unwrap_err();
    assert!(matches!(missing, CollectError::Missing { .. }));
    assert!(missing.to_string().contains("none.jsonl") && missing.hint().is_some());
    assert!(matches!(expand(folder.path()).unwrap_err(), CollectError::Empty { .. }));
    let pipe = folder.path().join("pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(matches!(expand(&pipe).unwrap_err(), CollectError::NotRegular { .. }));
}

#[test]
fn folder_of_recordings_gives_the_json_of_harnesses_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let hook = r#"{"session_id":"s","hook_event_name":"Stop","transcript_path":"/t/s.jsonl","cwd":"/w"}"#;
    write("stop.json", &format!("[\n  {hook}\n]\n"));
    write("hooks.ndjson", &format!("{hook}\n"));
    write("package.json", r#"{"name":"app","version":"1.0.0"}"#);
    write("broken.json", "[{");
    let found = expand(folder.path()).unwrap();
    let names: Vec<_> =
        files(&found).iter().map(|found| found.path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["hooks.ndjson", "stop.json"]);
}
