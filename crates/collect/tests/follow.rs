//! Following files live, with the real watcher. Waits are generous; nothing asserts on timing.
//!
//! The clock does not advance, so that no regular listing helps the watcher.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use subscope_collect::{
    Found,
    follow::{FileEvent, FileId, Follow, FollowOptions, Watching},
};
use subscope_harness::{Role, Root, claude_code::ClaudeCode, cline::Cline, codex::Codex};

const SESSION: &str = "59d3cea2-8628-4065-a429-a6583bbe765a";
const OTHER: &str = "69d3cea2-8628-4065-a429-a6583bbe765a";

fn roots(folder: &Path) -> Vec<Root> {
    vec![Root { harness: &ClaudeCode, folder: folder.to_owned() }]
}

/// State of a reader of the events.
#[derive(Debug, Default)]
struct Known {
    files: BTreeMap<FileId, (Found, Vec<u8>)>,
    /// Content of removed files.
    past: BTreeMap<FileId, Vec<u8>>,
    appeared: usize,
    restarted: usize,
    restored: usize,
    gone: usize,
    caught_up: usize,
    /// Sessions whose existing content was read, with the number of files known at that time.
    whole: Vec<(String, usize)>,
    problems: Vec<String>,
}

impl Known {
    fn take(&mut self, event: FileEvent<'_>) {
        match event {
            FileEvent::Appeared { file, found } => {
                let content = self.past.remove(&file).unwrap_or_default();
                assert!(self.files.insert(file, (found.clone(), content)).is_none());
                self.appeared += 1;
            }
            FileEvent::Bytes { file, offset, bytes } => {
                let content = &mut self.files.get_mut(&file).unwrap().1;
                assert_eq!((content.len() as u64, bytes.is_empty()), (offset, false));
                content.extend_from_slice(bytes);
            }
            FileEvent::Restarted { file } => {
                self.files.get_mut(&file).unwrap().1.clear();
                self.restarted += 1;
            }
            FileEvent::Restored { .. } => self.restored += 1,
            FileEvent::Gone { file } => {
                let (_, content) = self.files.remove(&file).unwrap();
                self.past.insert(file, content);
                self.gone += 1;
            }
            FileEvent::Failed { file, what } => {
                let (found, _) = &self.files[&file];
                self.problems.push(format!("{}: {what}", found.path.display()));
            }
            FileEvent::Recovered { .. } => {}
            FileEvent::Problem { path, what } => self.problems.push(format!("{}: {what}", path.display())),
            FileEvent::Whole { session } => self.whole.push((session.to_owned(), self.files.len())),
            FileEvent::CaughtUp => self.caught_up += 1,
        }
    }

    fn text(&self, path: &Path) -> Option<&str> {
        let path = fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?);
        let (_, content) = self.files.values().find(|(found, _)| found.path == path)?;
        std::str::from_utf8(content).ok()
    }
}

struct Reader {
    follow: Follow,
    known: Known,
}

impl Reader {
    fn targets(targets: &[&Path]) -> Self {
        let targets = targets.iter().map(|path| path.to_path_buf()).collect();
        Self::new(Follow::targets(targets, FollowOptions::new(|| 0)).unwrap())
    }

    fn projects(root: &Path) -> Self {
        Self::new(Follow::roots(roots(root), FollowOptions::new(clock(root))).unwrap())
    }

    /// Starts to follow and completes the first round.
    fn new(follow: Follow) -> Self {
        let mut reader = Self { follow, known: Known::default() };
        reader.round().unwrap();
        assert_eq!(reader.known.caught_up, 1);
        reader
    }

    fn round(&mut self) -> Result<(), subscope_collect::CollectError> {
        self.follow.poll(Duration::from_millis(20), &mut |event| self.known.take(event))
    }

    fn until(&mut self, what: impl Fn(&Known) -> bool) {
        for _ in 0..1_500 {
            if what(&self.known) {
                return;
            }
            self.round().unwrap();
        }
        panic!("never happened; known: {:#?}", self.known);
    }

    fn until_text(&mut self, path: &Path, text: &str) {
        self.until(|known| known.text(path) == Some(text));
    }

    /// Shows that nothing else comes, by waiting for a change that comes after it.
    fn settle(&mut self, project: &Path) {
        let path = project.join(format!("{OTHER}.jsonl"));
        append(&path, "settled");
        self.until(|known| known.text(&path).is_some_and(|text| text.ends_with("settled")));
    }
}

/// A fixed clock at the time when the folder was created.
fn clock(folder: &Path) -> impl Fn() -> i64 + Send + 'static {
    let above = folder.ancestors().find(|up| up.exists()).unwrap();
    let now = fs::metadata(above).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    let now_ms = i64::try_from(now.as_millis()).unwrap();
    move || now_ms
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Writes a file that was last written long ago.
fn write_old(path: &Path, text: &str) {
    write(path, text);
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
}

fn line(session: &str) -> String {
    format!("{{\"sessionId\":\"{session}\"}}\n")
}

fn main_in(folder: &Path) -> PathBuf {
    folder.join(format!("{SESSION}.jsonl"))
}

#[test]
fn follow_partial_line_then_rest_hands_over_all_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "{\"a\":1}\n{\"b\"");
    let mut reader = Reader::targets(&[&main]);
    assert_eq!(reader.known.text(&main), Some("{\"a\":1}\n{\"b\""));
    append(&main, ":2}\n");
    reader.until_text(&main, "{\"a\":1}\n{\"b\":2}\n");
    reader.until(|known| known.caught_up == 2);
    assert_eq!((reader.known.restarted, reader.known.gone), (0, 0));
}

/// A writer writes the log of its database, waits for the disk, and only then makes the commit visible, in memory that it
/// shares: no watcher reports that.
#[test]
fn commit_that_becomes_visible_after_its_log_was_written_is_read() {
    const ID: &str = "1795721277480_8ea7b";
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().canonicalize().unwrap().join("data");
    let database = data.join("db/sessions.db");
    fs::create_dir_all(database.parent().unwrap()).unwrap();
    write(&data.join(format!("sessions/{ID}/{ID}.messages.json")), "{}");
    let beside = |path: &Path, ending: &str| PathBuf::from(format!("{}{ending}", path.display()));
    let connect = |path: &Path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection
    };
    let writer = connect(&database);
    writer
        .execute_batch(
            "CREATE TABLE sessions (session_id, parent_session_id, parent_agent_id, agent_id, prompt, status,
               started_at, ended_at, model, cwd, metadata_json, updated_at)",
        )
        .unwrap();
    let add = |connection: &rusqlite::Connection, id: &str, parent: Option<&str>| {
        let row = "INSERT INTO sessions (session_id, parent_session_id, status, metadata_json, updated_at)
                   VALUES (?1, ?2, 'running', '{}', '2026-11-26T19:28:07.661Z')";
        connection.execute(row, (id, parent)).unwrap();
    };
    add(&writer, ID, None);
    // The same database one commit later: its log begins with the bytes of this one.
    let later = folder.path().join("later.db");
    for ending in ["", "-wal", "-shm"] {
        fs::copy(beside(&database, ending), beside(&later, ending)).unwrap();
    }
    let other = connect(&later);
    add(&other, &format!("{ID}__agent_1"), Some(ID));
    let [log, visible] = ["-wal", "-shm"].map(|ending| fs::read(beside(&later, ending)).unwrap());

    let root = Root { harness: &Cline, folder: data.clone() };
    let mut reader = Reader::new(Follow::roots(vec![root], FollowOptions::new(|| 0)).unwrap());
    let rows = database.join(ID);
    reader.until(|known| known.text(&rows).is_some_and(|text| text.contains(ID)));
    let overwrite = |ending: &str, bytes: &[u8]| {
        let mut file = OpenOptions::new().write(true).open(beside(&database, ending)).unwrap();
        file.write_all(bytes).unwrap();
    };
    let before = reader.known.text(&rows).map(str::to_owned);
    overwrite("-wal", &log);
    for _ in 0..10 {
        reader.round().unwrap();
    }
    assert_eq!(reader.known.text(&rows).map(str::to_owned), before, "it is not visible yet");
    overwrite("-shm", &visible);
    reader.until(|known| known.text(&rows).is_some_and(|text| text.contains("__agent_1")));
}

#[test]
fn follow_cut_file_is_read_again_from_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "first line\n");
    let mut reader = Reader::targets(&[&main]);
    File::options().write(true).open(&main).unwrap().set_len(0).unwrap();
    reader.until(|known| known.restarted == 1);
    append(&main, "new\n");
    reader.until_text(&main, "new\n");
    fs::write(&main, "first line\n").unwrap();
    reader.until_text(&main, "first line\n");
    assert_eq!(reader.known.restored, 0, "what was new is not in it");
}

#[test]
fn follow_cut_file_is_restored_once_it_begins_with_all_that_it_held() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "first line\nsecond\n");
    let mut reader = Reader::targets(&[&main]);
    File::options().write(true).open(&main).unwrap().set_len(8).unwrap();
    reader.until(|known| known.restarted == 1);
    append(&main, "ne\n");
    reader.until_text(&main, "first line\n");
    assert_eq!(reader.known.restored, 0);
    append(&main, "second\nthird\n");
    reader.until_text(&main, "first line\nsecond\nthird\n");
    assert_eq!((reader.known.restarted, reader.known.restored), (1, 1));
}

#[test]
fn follow_file_rewritten_longer_in_place_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "first line\n");
    let mut reader = Reader::targets(&[&main]);
    fs::write(&main, "another beginning and more\n").unwrap();
    reader.until_text(&main, "another beginning and more\n");
    assert!(reader.known.restarted >= 1);
}

#[test]
fn follow_file_replaced_by_rename_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "old\n");
    let mut reader = Reader::targets(&[&main]);
    write(&folder.path().join("new"), "older\nand new\n");
    fs::rename(folder.path().join("new"), &main).unwrap();
    reader.until_text(&main, "older\nand new\n");
    assert_eq!((reader.known.restarted, reader.known.gone), (1, 0));
}

#[test]
fn follow_file_replaced_by_one_that_begins_with_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "old\n");
    let mut reader = Reader::targets(&[&main]);
    write(&folder.path().join("new"), "old\nand new\n");
    fs::rename(folder.path().join("new"), &main).unwrap();
    reader.until_text(&main, "old\nand new\n");
    assert_eq!((reader.known.restarted, reader.known.gone), (0, 0));
}

#[test]
fn follow_file_rewritten_with_the_same_bytes_in_any_way_makes_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let (main, beside) = (main_in(folder.path()), folder.path().join("beside"));
    // Longer than a piece: the digest does not depend on where pieces end.
    let text = "a line of some length\n".repeat(30_000);
    write(&main, &text);
    let mut reader = Reader::targets(&[&main]);
    let caught_up = reader.known.caught_up;
    let mut round = |known: &dyn Fn(&Known) -> bool| {
        for _ in 0..10 {
            reader.round().unwrap();
        }
        reader.until(known);
        (reader.known.restarted, reader.known.caught_up)
    };
    fs::write(&main, &text).unwrap();
    assert_eq!(round(&|_| true), (0, caught_up), "in place");
    write(&beside, &text);
    fs::rename(&beside, &main).unwrap();
    assert_eq!(round(&|_| true), (0, caught_up), "renamed over");
    let mut file = File::create(&main).unwrap();
    file.write_all(&text.as_bytes()[..100_000]).unwrap();
    assert_eq!(round(&|_| true), (0, caught_up), "in the midst of being rewritten");
    file.write_all(&text.as_bytes()[100_000..]).unwrap();
    assert_eq!(round(&|_| true), (0, caught_up), "in parts");
    fs::remove_file(&main).unwrap();
    round(&|known| known.gone == 1);
    write(&main, &text);
    assert_eq!(round(&|known| known.files.len() == 1).0, 0, "made again");
    append(&main, "more\n");
    reader.until_text(&main, &format!("{text}more\n"));
    assert_eq!(reader.known.restarted, 0);
}

#[test]
fn follow_file_with_other_bytes_of_the_same_length_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    let end = "the same end of more than sixty-four bytes, by which files are recognized that grow\n";
    write(&main, &format!("one\n{end}"));
    let mut reader = Reader::targets(&[&main]);
    fs::write(&main, format!("two\n{end}")).unwrap();
    reader.until_text(&main, &format!("two\n{end}"));
    assert_eq!(reader.known.restarted, 1);
}

#[test]
fn follow_file_deleted_and_made_again_appears_again() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "one\n");
    let mut reader = Reader::targets(&[&main]);
    fs::remove_file(&main).unwrap();
    reader.until(|known| known.gone == 1);
    write(&main, "two\n");
    reader.until_text(&main, "two\n");
    assert_eq!((reader.known.appeared, reader.known.restarted), (2, 1));
}

#[test]
fn follow_missing_target_is_waited_for_with_its_folders() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("not/yet/there");
    let main = main_in(&project);
    let mut reader = Reader::targets(&[&main]);
    assert_eq!(reader.known.appeared, 0);
    write(&main, "hello\n");
    reader.until_text(&main, "hello\n");
    fs::remove_dir_all(folder.path().join("not")).unwrap();
    reader.until(|known| known.gone == 1);
    write(&main, "back\n");
    reader.until_text(&main, "back\n");
}

#[test]
fn follow_session_sees_subagents_and_workflows_made_later() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "main\n");
    let mut reader = Reader::targets(&[&main]);
    let subagents = folder.path().join(SESSION).join("subagents");
    let names = [
        "agent-a.jsonl",
        "agent-a.meta.json",
        "workflows/wf_1/agent-b.jsonl",
        "workflows/wf_1/journal.jsonl",
    ];
    for name in names {
        write(&subagents.join(name), name);
    }
    for name in names {
        reader.until_text(&subagents.join(name), name);
    }
    append(&subagents.join("agent-a.jsonl"), "+");
    reader.until_text(&subagents.join("agent-a.jsonl"), "agent-a.jsonl+");
    let workflow = reader.known.files.values().filter(|(found, _)| found.workflow.as_deref() == Some("wf_1"));
    assert_eq!(workflow.count(), 2);
    assert!(reader.known.files.values().all(|(found, _)| found.session.as_deref() == Some(SESSION)));
}

#[test]
fn follow_session_takes_only_its_own_subagents_from_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    let beside = |name: &str| folder.path().join(format!("agent-{name}.jsonl"));
    write(&main, "main\n");
    write(&beside("own"), &line(SESSION));
    write(&beside("foreign"), &line(OTHER));
    let mut reader = Reader::targets(&[&main]);
    assert_eq!(reader.known.appeared, 2);
    write(&beside("foreign2"), &line(OTHER));
    append(&beside("foreign"), "more\n");
    // Its first line comes in two parts.
    write(&beside("own2"), "{\"type\":\"user\",\"sess");
    reader.round().unwrap();
    write(&beside("own3"), &line(SESSION));
    reader.until_text(&beside("own3"), &line(SESSION));
    append(&beside("own2"), &format!("ionId\":\"{SESSION}\"}}\n"));
    reader.until_text(&beside("own2"), &format!("{{\"type\":\"user\",\"sessionId\":\"{SESSION}\"}}\n"));
    assert_eq!(reader.known.appeared, 4);
}

#[test]
fn follow_tree_and_single_files_take_what_belongs_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let stream = folder.path().join("stream.jsonl");
    fs::create_dir(&tree).unwrap();
    write(&stream, "{}\n");
    let mut reader = Reader::targets(&[&tree, &stream]);
    assert_eq!(reader.known.appeared, 1);
    let main = main_in(&tree.join("deep/down"));
    write(&main, "main\n");
    write(&folder.path().join("hooks.jsonl"), "{}\n");
    reader.until_text(&main, "main\n");
    append(&stream, "{}\n");
    reader.until_text(&stream, "{}\n{}\n");
    assert_eq!(reader.known.appeared, 2);
}

#[test]
fn follow_same_file_by_two_targets_appears_once() {
    let folder = tempfile::tempdir().unwrap();
    let main = main_in(folder.path());
    write(&main, "main\n");
    symlink(&main, folder.path().join("link.jsonl")).unwrap();
    let mut reader = Reader::targets(&[&main, folder.path(), &folder.path().join("link.jsonl")]);
    append(&main, "more\n");
    reader.until_text(&main, "main\nmore\n");
    assert_eq!(reader.known.appeared, 1);
}

#[test]
fn follow_projects_opens_live_and_new_sessions_only() {
    let folder = tempfile::tempdir().unwrap();
    let (live, idle) = (folder.path().join("-live"), folder.path().join("-idle"));
    write(&main_in(&live), "live\n");
    write_old(&live.join(SESSION).join("subagents/agent-a.jsonl"), "agent\n");
    write_old(&live.join("agent-b.jsonl"), &line(SESSION));
    write_old(&main_in(&idle), "idle\n");
    let mut reader = Reader::projects(folder.path());
    assert_eq!(reader.known.appeared, 3);
    assert_eq!(reader.known.whole, [(SESSION.to_owned(), 3)]);
    let new = folder.path().join("-new/anything.jsonl");
    write(&new, "new\n");
    reader.until_text(&new, "new\n");
    let agent = folder.path().join("-new/anything/subagents/workflows/wf_2/agent-c.jsonl");
    write(&agent, "c\n");
    reader.until_text(&agent, "c\n");
    assert_eq!(reader.known.appeared, 5);
}

#[test]
fn follow_projects_opens_the_whole_group_when_one_idle_file_of_2_000_changes() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("-p");
    for at in 0..2_000 {
        write_old(&project.join(format!("{at:08}-8628-4065-a429-a6583bbe765a.jsonl")), "idle\n");
    }
    let agent = project.join(SESSION).join("subagents/agent-a.jsonl");
    write_old(&main_in(&project), "main\n");
    write_old(&agent, "agent\n");
    write_old(&agent.with_extension("meta.json"), "{}");
    let mut reader = Reader::projects(folder.path());
    assert_eq!(reader.known.appeared, 0);
    append(&agent, "more\n");
    reader.until_text(&agent, "agent\nmore\n");
    reader.until_text(&main_in(&project), "main\n");
    reader.settle(&project);
    assert_eq!(reader.known.appeared, 4);
}

#[test]
fn follow_projects_opens_session_of_a_2_0_subagent_that_changes() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("-p");
    write_old(&main_in(&project), "main\n");
    write_old(&project.join("agent-a.jsonl"), &line(SESSION));
    write_old(&project.join("agent-b.jsonl"), &line(OTHER));
    let mut reader = Reader::projects(folder.path());
    append(&project.join("agent-a.jsonl"), "more\n");
    reader.until_text(&main_in(&project), "main\n");
    reader.until_text(&project.join("agent-a.jsonl"), &format!("{}more\n", line(SESSION)));
    assert_eq!(reader.known.appeared, 2);
}

#[test]
fn follow_projects_survives_renamed_and_removed_folders() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("-before"), folder.path().join("-after"));
    write(&main_in(&before), "main\n");
    let agent = PathBuf::from(SESSION).join("subagents/agent-a.jsonl");
    write(&before.join(&agent), "agent\n");
    let mut reader = Reader::projects(folder.path());
    assert_eq!(reader.known.appeared, 2);
    fs::rename(&before, &after).unwrap();
    reader.until_text(&after.join(&agent), "agent\n");
    reader.until(|known| (known.gone, known.appeared) == (2, 4));
    append(&after.join(&agent), "more\n");
    reader.until_text(&after.join(&agent), "agent\nmore\n");
    fs::remove_dir_all(&after).unwrap();
    reader.until(|known| known.files.is_empty());
    write(&main_in(&after), "again\n");
    reader.until_text(&main_in(&after), "again\n");
}

#[test]
fn follow_projects_waits_for_a_root_that_does_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join(".claude/projects");
    let mut reader = Reader::projects(&root);
    write(&main_in(&root.join("-p")), "main\n");
    reader.until_text(&main_in(&root.join("-p")), "main\n");
}

/// A folder above a root or TARGET was watched while that was missing, and its replacement voids all watches below it.
#[test]
fn follow_goes_on_when_a_folder_above_is_moved_or_replaced() {
    let begin: [fn(&Path) -> Reader; 2] = [Reader::projects, |root| Reader::targets(&[root])];
    for begin in begin {
        let folder = tempfile::tempdir().unwrap();
        let (above, elsewhere) = (folder.path().join(".claude"), folder.path().join("elsewhere"));
        let main = main_in(&above.join("projects/-p"));
        let mut reader = begin(&above.join("projects"));
        fs::create_dir(&above).unwrap();
        (0..10).for_each(|_| reader.round().unwrap());
        write(&main, "main\n");
        reader.until_text(&main, "main\n");
        fs::rename(&above, &elsewhere).unwrap();
        fs::rename(&elsewhere, &above).unwrap();
        (0..10).for_each(|_| reader.round().unwrap());
        append(&main, "moved\n");
        reader.until_text(&main, "main\nmoved\n");
        fs::rename(&above, &elsewhere).unwrap();
        write(&main, "main\nmoved\n");
        (0..10).for_each(|_| reader.round().unwrap());
        append(&main, "replaced\n");
        reader.until_text(&main, "main\nmoved\nreplaced\n");
        assert_eq!(reader.known.restarted, 0);
    }
}

#[test]
fn follow_goes_on_after_a_listing_when_a_folder_above_was_replaced_that_is_not_watched() {
    let begin: [fn(&Path) -> Reader; 2] = [Reader::projects, |root| Reader::targets(&[root])];
    for begin in begin {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().join(".claude");
        let main = main_in(&above.join("projects/-p"));
        write(&main, "main\n");
        let mut reader = begin(&above.join("projects"));
        fs::rename(&above, folder.path().join("elsewhere")).unwrap();
        write(&main, "main\n");
        let Reader { follow, known } = &mut reader;
        follow.read_all(&mut |event| known.take(event)).unwrap();
        append(&main, "more\n");
        reader.until_text(&main, "main\nmore\n");
    }
}

#[test]
fn follow_unreadable_things_are_problems_and_never_block() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("-p");
    fs::create_dir_all(project.join("x.jsonl")).unwrap();
    assert!(Command::new("mkfifo").arg(main_in(&project)).status().unwrap().success());
    symlink(folder.path(), project.join("loop")).unwrap();
    write(&project.join(SESSION).join("subagents/agent-a.jsonl"), "agent\n");
    let mut reader = Reader::projects(folder.path());
    assert_eq!((reader.known.appeared, reader.known.problems.len()), (1, 1), "{:?}", reader.known.problems);
    assert!(Command::new("mkfifo").arg(project.join("agent-p.jsonl")).status().unwrap().success());
    reader.settle(&project);
    assert_eq!(reader.known.appeared, 2);

    let mut follow = Follow::targets(vec![main_in(&project)], FollowOptions::new(|| 0)).unwrap();
    let refused = follow.poll(Duration::ZERO, &mut |_| {});
    assert!(matches!(refused, Err(subscope_collect::CollectError::NotRegular { .. })));
    assert!(follow.poll(Duration::ZERO, &mut |_| {}).is_ok());
}

#[test]
fn follow_by_polling_sees_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("-p");
    write(&main_in(&project), "main\n");
    let options = FollowOptions { watching: Watching::Polling, ..FollowOptions::new(clock(folder.path())) };
    let mut reader = Reader::new(Follow::roots(roots(folder.path()), options).unwrap());
    let agent = project.join(SESSION).join("subagents/agent-a.jsonl");
    write(&agent, "agent\n");
    append(&main_in(&project), "more\n");
    reader.until_text(&agent, "agent\n");
    reader.until_text(&main_in(&project), "main\nmore\n");
    fs::remove_file(&agent).unwrap();
    reader.until(|known| known.gone == 1);
    assert_eq!(reader.known.problems, [""; 0]);
}

#[test]
fn follow_many_writes_at_once_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("-p");
    write(&main_in(&project), "main\n");
    let mut reader = Reader::projects(folder.path());
    let subagents = project.join(SESSION).join("subagents");
    write(&subagents.join("agent-0.jsonl"), "one\n");
    reader.until(|known| known.files.len() == 2);
    // More changes than the queue holds, in a watched folder, while the follower is not polled.
    for at in 1..3_000 {
        append(&subagents.join(format!("agent-{at}.jsonl")), "one\n");
    }
    for at in 0..3_000 {
        append(&subagents.join(format!("agent-{at}.jsonl")), "two\n");
    }
    reader.until(|known| known.files.len() == 3_001);
    reader.until(|known| {
        let agents = known.files.values().filter(|(found, _)| found.role == Role::Agent);
        agents.filter(|(_, content)| content == b"one\ntwo\n").count() == 3_000
    });
}

/// A harness may compress an idle rollout, also while it is followed: the content is the same, under another name.
#[test]
fn follow_rollout_that_is_compressed_goes_on_in_the_compressed_one() {
    let folder = tempfile::tempdir().unwrap();
    let day = folder.path().join("sessions/2026/11/21");
    fs::create_dir_all(&day).unwrap();
    let root = "01a1ffd0-c11c-7d71-9e82-986856b9c6d4";
    let path = day.join(format!("rollout-2026-11-21T20-33-53-{root}.jsonl"));
    let opening = format!(
        "{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"{root}\",\"session_id\":\"{root}\"}}}}\n"
    );
    let packed = path.with_extension("jsonl.zst");
    let content = opening.clone() + "{\"type\":\"event_msg\"}\n";
    fs::write(&path, &opening).unwrap();
    let roots = vec![Root { harness: &Codex, folder: folder.path().join("sessions") }];
    let mut reader = Reader::new(Follow::roots(roots, FollowOptions::new(clock(folder.path()))).unwrap());
    reader.until_text(&path, &opening);
    append(&path, "{\"type\":\"event_msg\"}\n");
    reader.until_text(&path, &content);
    // First the part that a writer has flushed, then all of it.
    let bytes = zstd::bulk::compress(content.as_bytes(), 3).unwrap();
    fs::write(&packed, &bytes[..7]).unwrap();
    fs::write(&packed, &bytes).unwrap();
    fs::remove_file(&path).unwrap();
    reader.until_text(&packed, &content);
    reader.until(|known| known.gone == 1);
    let (found, _) = reader.known.files.values().next().unwrap();
    assert_eq!((found.what.session.as_deref(), found.what.role), (Some(root), Role::Main));
    assert_eq!(reader.known.problems, [""; 0]);
}
