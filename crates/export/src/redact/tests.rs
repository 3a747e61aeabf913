//! Redaction equals a slow, simple reference: each rule is applied to a whole text on its own.

use std::collections::HashSet;

use proptest::{prelude::*, sample::Index};
use serde_json::Value;
use subscope_testkit::{
    fixtures,
    secrets::{Sample, look_alikes, secrets},
};

use super::*;

/// Returns for each byte of a text whether it belongs to a secret.
fn marks(text: &str) -> Vec<bool> {
    let mut found = own_secrets(text);
    for view in DecodedText::views(text) {
        found.extend(own_secrets(&view.text).iter().map(|secret| view.original(secret)));
    }
    let mut marks = vec![false; text.len()];
    for secret in found {
        marks[secret].fill(true);
    }
    marks
}

/// Returns the secrets of a text, without those behind escapes.
fn own_secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    RULES.find_each(text, &mut found);
    let lower = text.to_ascii_lowercase();
    let parts = assignments::NAME_PARTS.iter();
    let mut parts: Vec<Range<usize>> =
        parts.flat_map(|part| lower.match_indices(part).map(|(at, part)| at..at + part.len())).collect();
    parts.sort_by_key(|part| part.end);
    let mut names = assignments::Names::new(text);
    parts.into_iter().for_each(|part| names.look_at(part, &mut found));
    let mut end = 0;
    for run in text.split(|character: char| !character.is_ascii_alphanumeric()) {
        let start = run.as_ptr() as usize - text.as_ptr() as usize;
        assert!(start >= end);
        end = start + run.len();
        if run.len() >= prefixed::MIN_RANDOM_BYTES && text[..start].ends_with(['_', '.']) {
            found.extend(prefixed::token(text, start..end));
        }
    }
    found
}

/// Replaces each run of marked bytes, extended to whole characters.
fn masked(text: &str, marks: &[bool]) -> String {
    let mut out = String::new();
    let mut is_inside = false;
    for (at, character) in text.char_indices() {
        let is_marked = marks[at..at + character.len_utf8()].contains(&true);
        match (is_inside, is_marked) {
            (_, false) => out.push(character),
            (false, true) => out.push_str(MASK),
            (true, true) => {}
        }
        is_inside = is_marked;
    }
    out
}

/// Checks a value with its key against the reference.
fn check(key: &str, text: &str) -> Result<(), TestCaseError> {
    let own = marks(text);
    prop_assert_eq!(redact(text), masked(text, &own), "{}", text);
    let expected = if assignments::is_secret_of(key, text) {
        MASK.to_owned()
    } else {
        let mut all = own;
        if text.len() <= MAX_VALUE_BYTES && RULES.has_keyword_in(key) {
            let assigned = format!("{key}=\"{text}\"");
            let with_key = marks(&assigned);
            let begin = key.len() + 2;
            all.iter_mut().zip(&with_key[begin..]).for_each(|(mark, more)| *mark |= more);
        }
        masked(text, &all)
    };
    prop_assert_eq!(redact_value(key, text), expected, "{} {}", key, text);
    Ok(())
}

/// Collects the strings of a value with their keys.
fn strings(key: &str, value: &Value, all: &mut HashSet<(String, String)>) {
    match value {
        Value::String(text) => {
            all.insert((key.to_owned(), text.clone()));
        }
        Value::Array(values) => values.iter().for_each(|value| strings(key, value, all)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| strings(key, value, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn texts_of_all_recordings_are_masked_as_by_each_rule_on_its_own() {
    let mut all = HashSet::new();
    for path in fixtures::files_below(&fixtures::root()) {
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            let lines = fixtures::bytes(&path);
            let lines = String::from_utf8_lossy(&lines);
            let values = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            values.for_each(|value| strings("", &value, &mut all));
        }
    }
    assert!(all.len() > 10_000, "{}", all.len());
    for (key, text) in &all {
        check(key, text).unwrap();
    }
}

#[test]
fn made_up_secrets_are_masked_as_by_each_rule_on_its_own() {
    for Sample { text, .. } in secrets(11).into_iter().flatten() {
        for placed in [text.clone(), format!("é{text}é"), format!("{text}\\n{text}"), format!("x={text}&y=1")]
        {
            check("content", &placed).unwrap();
            check("api_key", &placed).unwrap();
        }
    }
    for text in look_alikes(11).into_iter().flatten() {
        check("command", &text).unwrap();
    }
}

#[test]
fn secrets_are_masked_to_the_character_wherever_they_stand() {
    let random = |length: usize| "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8bC0dF".repeat(6)[..length].to_owned();
    let hex = |length: usize| "0a1b2c3d4e5f6789".repeat(12)[..length].to_owned();
    let azure = format!("abc8Q~{}", random(34));
    let tokens = [
        azure.clone(),
        format!("AKI{}", "AB2C3D4E5F6G7H2J3"),
        format!("sk_liv{}", format_args!("e_{}", random(24))),
        format!("key{}", format_args!("-{}", hex(32))),
        format!("dap{}", format_args!("i{}", hex(32))),
        format!("pu{}", format_args!("l-{}", hex(40))),
        format!("rubygem{}", format_args!("s_{}", hex(48))),
        format!("gh{}", format_args!("p_{}", random(36))),
        format!("ey{0}.ey{0}.{1}", format_args!("J{}", random(30)), random(43)),
    ];
    for token in &tokens {
        for (before, behind) in [
            ("", ""),
            ("a;", ";b"),
            ("+", ""),
            ("q=", "&y=2"),
            ("/home/me/", "/x"),
            ("鍵は", "です"),
            ("\u{200b}", "\u{feff}"),
        ] {
            let text = format!("{before}{token}{behind}");
            assert_eq!(redact(&text), format!("{before}{MASK}{behind}"), "{text}");
        }
        let colored = format!("{}\u{1b}[1m{}\u{1b}[0m", &token[..8], &token[8..]);
        assert_eq!(redact(&colored), format!("{MASK}\u{1b}[0m"), "{token}");
        let glued = redact(&format!("token_{token}_end")).into_owned();
        assert!(glued.contains(MASK) && !glued.contains(&token[8..token.len().min(24)]), "{glued}");
    }
    for (text, masked) in [
        ("see https://user:pass@example.com/x", "see https://user:[redacted]@example.com/x"),
        ("postgres://me:x!9@db:5432/a", "postgres://me:[redacted]@db:5432/a"),
        ("http://localhost:8080@x", "http://localhost:8080@x"),
        ("- name: DB_PASSWORD\n  value: hunter22!\n", "- name: DB_PASSWORD\n  value: [redacted]\n"),
        (
            "- name: \"DB_PASSWORD\"\n  value: \"correct horse\"\n",
            "- name: \"DB_PASSWORD\"\n  value: \"[redacted]\"\n",
        ),
        (
            r#"[{"name": "API_TOKEN", "value": "q8Zr2Xw9Lm4T"}]"#,
            r#"[{"name": "API_TOKEN", "value": "[redacted]"}]"#,
        ),
        ("name = \"db_password\"\nvalue = \"hunter22!\"", "name = \"db_password\"\nvalue = \"[redacted]\""),
        (
            "- name: DB_PASSWORD\n  valueFrom: secretKeyRef7",
            "- name: DB_PASSWORD\n  valueFrom: secretKeyRef7",
        ),
        ("- name: DB_HOST\n  value: hunter22!\n", "- name: DB_HOST\n  value: hunter22!\n"),
        ("CREATE USER 'a' IDENTIFIED BY 's3cr' ;", "CREATE USER 'a' IDENTIFIED BY '[redacted]' ;"),
        (
            "identified with caching_sha2_password by \"p w\"",
            "identified with caching_sha2_password by \"p w\"",
        ),
        ("keytool -list -storepass hunter22x -v", "keytool -list -storepass [redacted] -v"),
        ("htpasswd -b /etc/pw me hunter22x", "htpasswd -b /etc/pw me [redacted]"),
        ("htpasswd -nbB -C 10 me hunter22x > f", "htpasswd -nbB -C 10 me [redacted] > f"),
        ("htpasswd -c /etc/passwords someone", "htpasswd -c /etc/passwords someone"),
        ("a: Mutex<IssuedSecrets>,\n  by: HashMap<u8, B>", "a: Mutex<IssuedSecrets>,\n  by: HashMap<u8, B>"),
        ("<password>hunter22x</password>", "<password>[redacted]</password>"),
        ("AUTH=\"Bearer $TOKEN\" curl", "AUTH=\"Bearer $TOKEN\" curl"),
        (
            "curl -H \"Authorization: Bearer $GITHUB_TOKEN_V2\"",
            "curl -H \"Authorization: Bearer $GITHUB_TOKEN_V2\"",
        ),
    ] {
        assert_eq!(redact(text), masked);
    }
}

/// A piece of a text: a secret, what looks like one, or anything.
#[derive(Clone, Debug)]
enum Piece {
    Secret(Index),
    LookAlike(Index),
    Between(String),
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let between = prop_oneof![
        r#"[ \n\r\t"'=:,;{}\[\]<>()|&%\\/._-]{0,3}"#,
        r"(\\n|\\u001b\[32m|%3D|\\\\|é|日本){0,2}",
        "[A-Za-z0-9_ -]{0,12}",
        "(password|token|api_key|SECRET_KEY|auth|PWD|ghp_|AKIA|sk-){0,1}[=: ]{0,2}",
    ];
    let piece = prop_oneof![
        any::<Index>().prop_map(Piece::Secret),
        any::<Index>().prop_map(Piece::LookAlike),
        between.prop_map(Piece::Between),
    ];
    prop::collection::vec(piece, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn secrets_anywhere_are_masked_as_by_each_rule_on_its_own(
        pieces in pieces(), seed in 0..4_u64, key in "(content|text|token|apiKey|env|){1}",
    ) {
        let (secrets, look_alikes) = (secrets(seed).concat(), look_alikes(seed).concat());
        let text: String = pieces.iter().map(|piece| match piece {
            Piece::Secret(index) => index.get(&secrets).text.as_str(),
            Piece::LookAlike(index) => index.get(&look_alikes).as_str(),
            Piece::Between(text) => text.as_str(),
        }).collect();
        check(&key, &text)?;
    }
}
