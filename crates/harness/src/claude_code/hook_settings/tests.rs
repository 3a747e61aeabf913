//! Texts of every kind that people have as settings.

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn handler(program: &str) -> HookHandler {
    HookHandler::command(Path::new(program), None)
}

fn wanted() -> Vec<(&'static str, HookHandler)> {
    ["SessionStart", "PreToolUse"].map(|event| (event, handler("/bin/subscope"))).to_vec()
}

fn installed(text: &str) -> String {
    let document = Document::parse(text).unwrap();
    document.install(&wanted());
    document.text()
}

fn removed(text: &str) -> String {
    let document = Document::parse(text).unwrap();
    document.remove(None);
    document.text()
}

/// Settings as people have them: comments, tabs, CRLF, one line, no final newline, hooks of others.
const TEXTS: [&str; 12] = [
    "{}",
    "{}\n",
    "{\"model\":\"opus\"}",
    "{\n  \"model\": \"opus\"\n}\n",
    "{\n\t\"env\": {\n\t\t\"A\": \"b\"\n\t}\n}",
    "{\r\n    \"model\": \"opus\", // mine\r\n    /* kept */\r\n    \"x\": [1,  2]\r\n}\r\n",
    "// top\n{\n  \"a\": 1,\n}\n// bottom\n",
    "\u{feff}{\n  \"a\": 1\n}\n",
    "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"Bash\",\n        \"hooks\": [{ \"type\": \"command\", \"command\": \"lint\" }] // mine\n      }\n    ]\n  },\n  \"z\": null\n}\n",
    "{ \"hooks\": { \"Stop\": [{\"hooks\":[{\"type\":\"command\",\"command\":\"say done\"}]}] } }",
    "{\n  \"a\": \"caf\u{e9} \u{1f389} \\u00e9 \\\"q\\\"\"\n}",
    "{\n  \"hooks\": {\n    \"WorktreeCreate\": []\n  }\n}\n",
];

#[test]
fn install_twice_is_install_once() {
    for text in TEXTS.into_iter().chain(["", "\n", "// only a comment"]) {
        let once = installed(text);
        assert_eq!(installed(&once), once, "{text}");
        let ours = Document::parse(&once).unwrap().ours();
        assert_eq!(ours.len(), 2, "{once}");
    }
}

#[test]
fn remove_leaves_what_stood_there_before() {
    for text in TEXTS {
        let values = |text: &str| Document::parse(text).unwrap().root.to_serde_value();
        let back = removed(&installed(text));
        assert_eq!(values(&back), values(text), "{text}");
        for comment in ["// mine", "/* kept */", "// top", "// bottom"] {
            assert_eq!(back.contains(comment), text.contains(comment), "{back}");
        }
        assert_eq!(back.contains('\r'), text.contains('\r'), "{back}");
        assert_eq!(removed(text), text, "nothing of ours: nothing changes");
    }
}

#[test]
fn install_keeps_every_byte_of_lines_that_stood_there() {
    for text in TEXTS.into_iter().filter(|text| text.lines().count() > 3) {
        let after = installed(text);
        for line in text.lines().map(|line| line.trim_end_matches([',', '\r'])) {
            assert!(after.contains(line), "{line:?} in {after}");
        }
    }
}

#[test]
fn install_writes_in_the_style_of_the_file() {
    insta::assert_snapshot!(installed(TEXTS[4]).replace('\t', "→"));
    insta::assert_snapshot!(installed("// only a comment"));
    insta::assert_snapshot!(installed(TEXTS[8]));
    let crlf = installed(TEXTS[5]);
    assert_eq!(crlf.matches('\n').count(), crlf.matches("\r\n").count(), "{crlf:?}");
    assert!(installed(TEXTS[7]).starts_with("\u{feff}{"));
}

#[test]
fn install_replaces_older_ones_of_ours_and_keeps_others() {
    let old = installed(TEXTS[8]).replace("/bin/subscope hook", "/old/subscope hook");
    let old = old.replace("\"SessionStart\"", "\"Stop\"");
    let new = installed(&old);
    let ours = Document::parse(&new).unwrap().ours();
    let expected: Vec<_> =
        ["PreToolUse", "SessionStart"].map(|e| (e.to_owned(), handler("/bin/subscope"))).to_vec();
    assert_eq!(ours, expected, "{new}");
    assert!(new.contains("\"lint\" }] // mine") && !new.contains("/old/") && !new.contains("Stop"), "{new}");
}

#[test]
fn a_hook_of_ours_behind_a_matcher_does_not_count() {
    let narrow =
        installed("{}").replace("\"hooks\": [\n        {", "\"matcher\": \"Bash\", \"hooks\": [\n        {");
    let text = r#"{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[
        {"type":"command","command":"/bin/subscope hook","timeout":5},{"type":"command","command":"lint"}]}]}}"#;
    let after = installed(text);
    assert_eq!(Document::parse(&after).unwrap().ours().len(), 2, "{after} {narrow}");
    assert!(after.contains("\"lint\"") && after.matches("/bin/subscope hook").count() == 2, "{after}");
}

#[test]
fn remove_keeps_empty_lists_that_were_there_before_us() {
    let before = "{\n  \"hooks\": {\n    \"PreToolUse\": []\n  }\n}\n";
    let changed = installed(before).replace("{\n  \"hooks\"", "{\n  \"new\": 1,\n  \"hooks\"");
    let document = Document::parse(&changed).unwrap();
    document.remove(Some(before));
    let value = Document::parse(&document.text()).unwrap().root.to_serde_value().unwrap();
    assert_eq!(value, json!({ "new": 1, "hooks": { "PreToolUse": [] } }));
}

#[test]
fn texts_of_another_form_are_told_with_their_line() {
    for (text, told) in [
        ("[]", "1: no JSON object"),
        ("// x\n\nnull", "3: no JSON object"),
        ("{\n\"a\": 1\n\"b\": 2}", "2: no JSON: expected comma"),
        ("{\n'a': 1}", "2: no JSON: single-quoted strings are not allowed"),
        ("{\"a\":", "1: no JSON: "),
        ("{\n \"hooks\": []\n}", "2: hooks is no object"),
        ("{\n \"hooks\": {\n  \"Stop\": {}\n }\n}", "3: hooks.Stop is no list"),
        ("{\n \"hooks\": {},\n \"hooks\": {}\n}", "3: hooks stands twice"),
        ("{\"hooks\": {\"Stop\": [],\n \"Stop\": []}}", "2: Stop stands twice"),
        ("{} {}", "1: no JSON: text cannot contain more than one JSON value"),
    ] {
        let wrong = Document::parse(text).unwrap_err().to_string();
        assert!(wrong.starts_with(told), "{text}: {wrong}");
    }
    assert!(Document::parse(&"[".repeat(1 << 20)).is_err());
}

fn settings() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    });
    proptest::collection::btree_map("[a-gi-z]{1,6}", value, 0..5)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn install_and_remove_keep_any_settings(value in settings(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let after = installed(&text);
        let back: Value = serde_json::from_str(&removed(&after)).unwrap();
        prop_assert_eq!(back, value);
        prop_assert_eq!(installed(&after), after);
    }
}
