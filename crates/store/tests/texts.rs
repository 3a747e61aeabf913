//! The full text: what is found, in which order, and what is forgotten.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use subscope_model::SessionId;
use subscope_store::{
    Access, FilePassages, Identity, Passage, PassageKind, Span, TextQuery, Texts, Vocabulary,
};

fn file(name: &str, session: &str, said: &[(i64, &str)]) -> FilePassages {
    let mut vocabulary = Vocabulary::default();
    let passages = said
        .iter()
        .enumerate()
        .map(|(number, (at, text))| {
            let span = Span { start: number as u64, bytes: text.len() as u64 };
            Passage::new("root".into(), PassageKind::Message, *at, span, text, &mut vocabulary)
        })
        .collect();
    let identity = Identity { inode: 1, bytes: 2, modified_ns: 3 };
    FilePassages { path: PathBuf::from(name), session: SessionId(session.into()), identity, passages }
}

fn found(texts: &Texts, query: &[&str], session: Option<&str>) -> Vec<(String, u64)> {
    let query = TextQuery {
        words: query.iter().map(|word| (*word).to_owned()).collect(),
        session: session.map(|id| SessionId(id.into())),
        limit: 10,
    };
    let hits = texts.find(&query).unwrap();
    hits.iter().map(|hit| (hit.path.display().to_string(), hit.span.start)).collect()
}

#[test]
fn words_are_found_newest_first_and_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = Texts::open(folder.path(), Access::Write).unwrap();
    texts
        .put(&[
            file("b", "two", &[(9_000, "Round half cents UP, please"), (5_000, "größe 東京 src/main.rs")]),
            file(
                "a",
                "one",
                &[(1_000, "round\nround"), (20_000, "rounding OR \"cents\" -x*"), (0, "no time cents")],
            ),
        ])
        .unwrap();
    let path = |name: &str, at: u64| (name.to_owned(), at);
    assert_eq!(found(&texts, &["round"], None), [path("b", 0), path("a", 0)]);
    assert_eq!(found(&texts, &["round*"], None), [path("a", 1), path("b", 0), path("a", 0)]);
    assert_eq!(found(&texts, &["CENTS", "half"], None), [path("b", 0)]);
    assert_eq!(found(&texts, &["cents"], Some("one")), [path("a", 1), path("a", 2)]);
    assert_eq!(found(&texts, &["Größe"], None), [path("b", 1)]);
    assert_eq!(found(&texts, &["東京", "main.rs"], None), [path("b", 1)]);
    // What the index's own language would act on is only text here.
    for word in ["OR", "\"", "NEAR(a b)", "cents*\" OR \"x", "body:round", "^round", "-", "*", ""] {
        let _ = found(&texts, &[word], None);
    }
    assert_eq!(found(&texts, &["*"], None), []);
    texts.put(&[file("b", "two", &[(9_000, "all other now")])]).unwrap();
    assert_eq!(found(&texts, &["half"], None), [], "a file is replaced whole");
    assert_eq!(found(&texts, &["other"], None), [path("b", 0)]);
    texts.forget(&[SessionId("one".into())]).unwrap();
    assert_eq!(found(&texts, &["cents"], None), []);
    assert_eq!(texts.files().unwrap().len(), 2, "and is not read again as long as it stays as it is");
}

#[test]
fn many_passages_of_one_second_all_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = Texts::open(folder.path(), Access::Write).unwrap();
    let said: Vec<(i64, &str)> = (0..500).map(|number| (1_000 + number % 3, "same")).collect();
    texts.put(&[file("a", "one", &said), file("b", "one", &said)]).unwrap();
    let query = TextQuery { words: vec!["same".into()], session: None, limit: 5_000 };
    assert_eq!(texts.find(&query).unwrap().len(), 1_000);
}
