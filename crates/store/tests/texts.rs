//! Full-text search: hits, their order, and forgetting.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use subscope_model::SessionId;
use subscope_store::{
    Access, ByteSpan, FileIdentity, OpenError, Passage, PassageBatch, PassageKind, TextFile, TextIndex,
    TextQuery,
};

fn add(batch: &mut PassageBatch, name: &str, session: &str, said: &[(i64, &str)]) {
    let identity = FileIdentity { inode: 1, bytes: 2, modified_ns: 3 };
    batch.begin(TextFile { path: PathBuf::from(name), session: SessionId(session.into()), identity });
    for (number, (at, text)) in said.iter().enumerate() {
        let span = ByteSpan { start: number as u64, bytes: text.len() as u64 };
        batch.add(&passage(PassageKind::Message, *at, span), text);
    }
    batch.end();
}

fn passage(kind: PassageKind, at_ms: i64, span: ByteSpan) -> Passage<'static> {
    Passage { session: None, agent: "root", kind, tool: "", failed: false, at_ms, span }
}

fn batch_of(name: &str, session: &str, said: &[(i64, &str)]) -> PassageBatch {
    let mut batch = PassageBatch::default();
    add(&mut batch, name, session, said);
    batch.take()
}

fn found(texts: &TextIndex, query: &[&str], session: Option<&str>) -> Vec<(String, u64)> {
    let query = TextQuery {
        words: query.iter().map(|word| (*word).to_owned()).collect(),
        session: session.map(|id| SessionId(id.into())),
        limit: 10,
        ..TextQuery::default()
    };
    let hits = texts.find(&query).unwrap();
    hits.iter().map(|hit| (hit.path.display().to_string(), hit.span.start)).collect()
}

#[test]
fn words_are_found_newest_first_and_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    let mut batch = PassageBatch::default();
    add(&mut batch, "b", "two", &[(9_000, "Round half cents UP, please"), (5_000, "größe 東京 src/main.rs")]);
    let one = [(1_000, "round\nround"), (20_000, "rounding OR \"cents\" -x*"), (0, "no time cents")];
    add(&mut batch, "a", "one", &one);
    texts.put(&batch.take()).unwrap();
    let path = |name: &str, at: u64| (name.to_owned(), at);
    assert_eq!(found(&texts, &["round"], None), [path("b", 0), path("a", 0)]);
    assert_eq!(found(&texts, &["round*"], None), [path("a", 1), path("b", 0), path("a", 0)]);
    assert_eq!(found(&texts, &["CENTS", "half"], None), [path("b", 0)]);
    assert_eq!(found(&texts, &["cents"], Some("one")), [path("a", 1), path("a", 2)]);
    assert_eq!(found(&texts, &["Größe"], None), [path("b", 1)]);
    assert_eq!(found(&texts, &["東京", "main.rs"], None), [path("b", 1)]);
    // There is no query syntax besides the final `*`.
    for word in ["OR", "\"", "NEAR(a b)", "cents*\" OR \"x", "body:round", "^round", "-", "*", ""] {
        let _ = found(&texts, &[word], None);
    }
    assert_eq!(found(&texts, &["*"], None), []);
    texts.put(&batch_of("b", "two", &[(9_000, "all other now")])).unwrap();
    let former: Vec<String> = found(&texts, &["half"], None).into_iter().map(|(path, _)| path).collect();
    assert!(
        former.iter().all(|path| path.starts_with("b~")) && former.len() == 1,
        "{former:?}: what it no longer has"
    );
    assert_eq!(found(&texts, &["other"], None), [path("b", 0)]);
    texts.forget(&[SessionId("one".into())]).unwrap();
    assert_eq!(found(&texts, &["cents"], None), [(former[0].clone(), 0)], "of the other session");
    assert_eq!(texts.files().unwrap().len(), 3, "and is not read again as long as it stays as it is");
}

#[test]
fn hits_are_filtered_and_counted_by_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    let mut batch = PassageBatch::default();
    let kinds = [
        (PassageKind::Prompt, "", false),
        (PassageKind::ToolInput, "Bash", false),
        (PassageKind::ToolResult, "Bash", true),
        (PassageKind::ToolResult, "Read", false),
    ];
    for (name, session, first) in [("a", "one", 10), ("b", "two", 20)] {
        let file = TextFile {
            path: name.into(),
            session: SessionId(session.into()),
            identity: FileIdentity::default(),
        };
        batch.begin(file);
        for (number, (kind, tool, failed)) in (0..).zip(kinds) {
            let span = ByteSpan { start: number, bytes: 4 };
            let at_ms = (first + number.cast_signed()) * 1000;
            batch.add(&Passage { session: None, agent: "root", kind, tool, failed, at_ms, span }, "same");
        }
        batch.end();
    }
    texts.put(&batch.take()).unwrap();
    let all = TextQuery { words: vec!["same".into()], limit: 100, ..TextQuery::default() };
    let times = |query: &TextQuery| {
        let hits = texts.find(query).unwrap();
        assert_eq!(texts.count(query).unwrap().total, hits.len() as u64);
        hits.iter().map(|hit| hit.at_ms / 1000).collect::<Vec<_>>()
    };
    assert_eq!(times(&all), [23, 22, 21, 20, 13, 12, 11, 10]);
    assert_eq!(times(&TextQuery { kind: Some(PassageKind::Prompt), ..all.clone() }), [20, 10]);
    assert_eq!(times(&TextQuery { tool: Some("Bash".into()), ..all.clone() }), [22, 21, 12, 11]);
    assert_eq!(times(&TextQuery { only_failed: true, ..all.clone() }), [22, 12]);
    assert_eq!(times(&TextQuery { since: Some(13_000), until: Some(22_000), ..all.clone() }), [21, 20, 13]);
    assert_eq!(times(&TextQuery { sessions: Some(vec!["two".into()]), ..all.clone() }), [23, 22, 21, 20]);
    assert!(times(&TextQuery { sessions: Some(Vec::new()), ..all.clone() }).is_empty());
    let counts = texts.count(&all).unwrap();
    let mut kinds = counts.kinds.clone();
    kinds.sort_by_key(|(kind, _)| kind.as_str());
    assert_eq!(kinds, [(PassageKind::Prompt, 2), (PassageKind::ToolInput, 2), (PassageKind::ToolResult, 4)]);
    let mut tools = counts.tools.clone();
    tools.sort();
    assert_eq!(tools, [("Bash".into(), 4), ("Read".into(), 2)]);
    assert_eq!((counts.failed, counts.is_floor, counts.sessions.len()), (2, false, 2));
    let shown = texts.find(&TextQuery { only_failed: true, ..all }).unwrap();
    assert!(shown.iter().all(|hit| hit.failed && &*hit.tool == "Bash"));
}

#[test]
fn passages_of_the_same_second_are_all_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    let said: Vec<(i64, &str)> = (0..500).map(|number| (1_000 + number % 3, "same")).collect();
    texts.put(&batch_of("a", "one", &said)).unwrap();
    texts.put(&batch_of("b", "one", &said)).unwrap();
    let query = TextQuery { words: vec!["same".into()], limit: 5_000, ..TextQuery::default() };
    let hits = texts.find(&query).unwrap();
    assert_eq!(hits.len(), 1_000);
    assert!(hits.is_sorted_by_key(|hit| std::cmp::Reverse(hit.at_ms)));
}

#[test]
fn any_number_of_batches_may_have_passages_of_one_second() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    let said: Vec<(i64, &str)> = (0..50).map(|_| (9_000, "same")).collect();
    // More than a row number has bits: each batch must not double the distance of the last one.
    for batch in 0..100 {
        texts.put(&batch_of(&format!("{batch}"), "one", &said)).unwrap();
    }
    texts.put(&batch_of("newer", "one", &[(11_000, "same")])).unwrap();
    texts.put(&batch_of("older", "one", &[(8_000, "same")])).unwrap();
    let query = |limit| TextQuery { words: vec!["same".into()], limit, ..TextQuery::default() };
    let hits = texts.find(&query(10_000)).unwrap();
    assert_eq!(hits.len(), 5_002);
    assert_eq!(hits.last().unwrap().path, PathBuf::from("older"));
    assert_eq!(texts.find(&query(1)).unwrap()[0].path, PathBuf::from("newer"));
}

/// Text with words at different distances, so that cursors of several blocks overtake each other.
fn numbered(number: usize) -> String {
    let mut text = format!("all w{number}");
    for step in [2, 3, 7, 50, 997] {
        if number.is_multiple_of(step) {
            text += &format!(" by{step}");
        }
    }
    text
}

fn hits(texts: &TextIndex, words: &[&str], session: Option<&str>, limit: usize) -> Vec<i64> {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    let query = TextQuery { words, session: session.map(SessionId::from), limit, ..TextQuery::default() };
    texts.find(&query).unwrap().iter().map(|hit| hit.at_ms / 1000).collect()
}

#[test]
fn search_equals_a_full_scan() {
    const COUNT: usize = 30_000;
    let folder = tempfile::tempdir().unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    // Three batches whose passages interleave in time.
    for part in 0..3 {
        let said: Vec<(usize, String)> =
            (0..COUNT).filter(|number| number % 3 == part).map(|number| (number, numbered(number))).collect();
        let said: Vec<(i64, &str)> =
            said.iter().map(|(at, text)| (*at as i64 * 1000, text.as_str())).collect();
        texts.put(&batch_of(&format!("f{part}"), &format!("s{part}"), &said)).unwrap();
    }
    let scan = |is_one: &dyn Fn(usize) -> bool, limit: usize| -> Vec<i64> {
        (0..COUNT).rev().filter(|number| is_one(*number)).map(|number| number as i64).take(limit).collect()
    };
    let all = usize::MAX;
    assert_eq!(hits(&texts, &["all"], None, 50), scan(&|_| true, 50));
    assert_eq!(hits(&texts, &["all"], None, all), scan(&|_| true, all));
    assert_eq!(hits(&texts, &["by7", "all", "by2"], None, all), scan(&|number| number % 14 == 0, all));
    assert_eq!(hits(&texts, &["by50", "by997"], None, all), scan(&|number| number % 49_850 == 0, all));
    assert_eq!(hits(&texts, &["by997", "by3"], None, all), scan(&|number| number % 2991 == 0, all));
    let of_one = |number: usize| number % 3 == 1 && number.is_multiple_of(50);
    assert_eq!(hits(&texts, &["by50"], Some("s1"), 20), scan(&of_one, 20));
    let begins = |number: usize| number.to_string().starts_with("123");
    assert_eq!(hits(&texts, &["w123*"], None, all), scan(&begins, all));
    assert_eq!(hits(&texts, &["w123*", "by2"], None, all), scan(&|it| begins(it) && it % 2 == 0, all));
    for number in [0, 1, COUNT / 2, COUNT - 1] {
        assert_eq!(hits(&texts, &[&format!("w{number}")], None, all), [number as i64]);
    }
    assert_eq!(hits(&texts, &["by5"], None, all), [0; 0]);
    assert_eq!(hits(&texts, &["zzz"], None, all), [0; 0]);
    assert_eq!(hits(&texts, &["a"], None, all), [0; 0]);
}

#[test]
fn files_that_are_indexed_again_and_again_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    // Files that are indexed again and again while they grow, like those of a live session.
    for round in 0..400i64 {
        let name = format!("f{}", round % 10);
        let said: Vec<(i64, String)> =
            (0..=round / 10).map(|at| (at * 1000, format!("grown w{at}"))).collect();
        let said: Vec<(i64, &str)> = said.iter().map(|(at, text)| (*at, text.as_str())).collect();
        texts.put(&batch_of(&name, &name, &said)).unwrap();
    }
    assert_eq!(hits(&texts, &["grown"], None, usize::MAX).len(), 400);
    assert_eq!(hits(&texts, &["w3"], None, usize::MAX), [3; 10]);
    texts.forget(&[SessionId::from("f3"), SessionId::from("f4")]).unwrap();
    assert_eq!(hits(&texts, &["grown"], None, usize::MAX).len(), 320);
    assert_eq!(texts.files().unwrap().len(), 10);
}

#[test]
fn a_file_in_several_batches_counts_as_indexed_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    let identity = FileIdentity { inode: 1, bytes: 2, modified_ns: 3 };
    let mut batch = PassageBatch::default();
    batch.begin(TextFile { path: "big".into(), session: SessionId::from("one"), identity });
    let span = ByteSpan { start: 0, bytes: 1 };
    batch.add(&passage(PassageKind::Prompt, 1_000, span), "first part");
    texts.put(&batch.take()).unwrap();
    assert_ne!(texts.files().unwrap()[0].1, identity);
    batch.add(&passage(PassageKind::Prompt, 2_000, span), "second part");
    batch.end();
    texts.put(&batch.take()).unwrap();
    assert!(batch.is_empty());
    assert_eq!(texts.files().unwrap(), [(PathBuf::from("big"), identity)]);
    assert_eq!(hits(&texts, &["part"], None, 10), [2, 1]);
    texts.put(&batch_of("big", "one", &[(3_000, "part")])).unwrap();
    assert_eq!(hits(&texts, &["part"], None, 10), [3, 2, 1], "what the file no longer has stays found");
    texts.put(&batch_of("big", "one", &[(3_000, "part")])).unwrap();
    assert_eq!(hits(&texts, &["part"], None, 10), [3, 2, 1], "what it has again counts once");
}

#[test]
fn forgotten_words_are_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    texts.put(&batch_of("a", "one", &[(1_000, "xyzzyplugh stays nowhere")])).unwrap();
    texts.put(&batch_of("b", "two", &[(1_000, "plover stays")])).unwrap();
    let has = |word: &str| {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| std::fs::read(file.unwrap().path()));
        let is_in = |bytes: Vec<u8>| bytes.windows(word.len()).any(|part| part == word.as_bytes());
        files.map(Result::unwrap).any(is_in)
    };
    assert!(has("xyzzyplugh") && has("plover"));
    texts.forget(&[SessionId::from("one")]).unwrap();
    assert!(!has("xyzzyplugh"));
    assert_eq!(found(&texts, &["stays"], None), [("b".to_owned(), 0)]);
}

#[test]
fn readers_of_other_processes_see_commits_and_damage_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(TextIndex::open(folder.path(), Access::Read), Err(OpenError::Missing(_))));
    let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
    let reader = TextIndex::open(folder.path(), Access::Read).unwrap();
    texts.put(&batch_of("a", "one", &[(1_000, "word")])).unwrap();
    assert_eq!(found(&reader, &["word"], None), [("a".to_owned(), 0)]);
    drop((reader, texts));
    let path = folder.path().join("search.db");
    for damage in [&b"this is no database, and long enough to be one"[..], b""] {
        std::fs::write(&path, damage).unwrap();
        let read = TextIndex::open(folder.path(), Access::Read);
        assert!(matches!(read, Err(OpenError::Missing(_))), "{:?}", read.err());
        let mut texts = TextIndex::open(folder.path(), Access::Write).unwrap();
        assert_eq!(texts.files().unwrap(), []);
        texts.put(&batch_of("a", "one", &[(1_000, "word")])).unwrap();
        assert_eq!(found(&texts, &["word"], None), [("a".to_owned(), 0)]);
    }
}
