//! Texts of every kind that people have as settings.

use std::path::Path;

use proptest::prelude::*;

use super::*;

/// As Claude Code has it.
pub(super) const FORM: SettingsForm = SettingsForm {
    is_grouped: true,
    command: "command",
    powershell: None,
    timeout: "timeout",
    units_per_second: 1,
    waiting_events: &[],
    version: None,
    status_line: None,
    disabled: (&["disableAllHooks"], true),
    if_disabled: "has disableAllHooks",
    if_commented: Some("has comments"),
};
/// As Copilot CLI has it.
const FLAT: SettingsForm = SettingsForm {
    is_grouped: false,
    command: "bash",
    timeout: "timeoutSec",
    version: Some(1),
    if_commented: None,
    ..FORM
};

fn handler(program: &str) -> HookHandler {
    HookHandler::command(Path::new(program), &[])
}

fn wanted() -> Vec<(&'static str, HookHandler)> {
    ["SessionStart", "PreToolUse"].map(|event| (event, handler("/bin/subscope"))).to_vec()
}

fn installed(text: &str) -> String {
    let document = Document::parse(&FORM, text).unwrap();
    document.install(&wanted());
    document.text()
}

fn removed(text: &str) -> String {
    let document = Document::parse(&FORM, text).unwrap();
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
        let ours = Document::parse(&FORM, &once).unwrap().ours();
        assert_eq!(ours.len(), 2, "{once}");
    }
}

#[test]
fn remove_leaves_what_stood_there_before() {
    for text in TEXTS {
        let values = |text: &str| Document::parse(&FORM, text).unwrap().root.to_serde_value();
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
fn lists_without_groups_hold_the_hooks_themselves() {
    let theirs = "{\n  \"version\": 1,\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"type\": \"command\", \"bash\": \"lint\" }\n    ]\n  }\n}\n";
    for text in ["", "{}\n", theirs] {
        let document = Document::parse(&FLAT, text).unwrap();
        document.install(&wanted());
        let once = document.text();
        let again = Document::parse(&FLAT, &once).unwrap();
        let ours: Vec<String> = again.ours().into_iter().map(|(event, _)| event).collect();
        assert_eq!(ours.len(), 2, "{once}");
        again.install(&wanted());
        assert_eq!(again.text(), once);
        let written: Value = serde_json::from_str(&once).unwrap();
        assert_eq!(written["version"], 1, "{once}");
        let entry = json!({ "type": "command", "bash": "/bin/subscope hook", "timeoutSec": 5 });
        assert_eq!(written["hooks"]["SessionStart"], json!([entry]), "{once}");
        again.remove(None);
        let back: Value = serde_json::from_str(&again.text()).unwrap();
        let expected =
            if text == theirs { serde_json::from_str(theirs).unwrap() } else { json!({ "version": 1 }) };
        assert_eq!(back, expected, "{once}");
    }
}

#[test]
fn switch_that_disables_hooks_is_found_where_it_stands() {
    const NESTED: SettingsForm = SettingsForm { disabled: (&["config", "enabled"], false), ..FORM };
    for (form, text, is_disabled) in [
        (&FORM, r#"{"disableAllHooks": true}"#, true),
        (&FORM, r#"{"disableAllHooks": false}"#, false),
        (&FORM, r#"{"config": {"disableAllHooks": true}}"#, false),
        (&NESTED, r#"{"config": {"enabled": false}}"#, true),
        (&NESTED, r#"{"config": {"enabled": true}}"#, false),
        (&NESTED, r#"{"enabled": false}"#, false),
    ] {
        assert_eq!(Document::parse(form, text).unwrap().disables_hooks(), is_disabled, "{text}");
    }
}

#[test]
fn install_replaces_older_ones_of_ours_and_keeps_others() {
    let old = installed(TEXTS[8]).replace("/bin/subscope hook", "/old/subscope hook");
    let old = old.replace("\"SessionStart\"", "\"Stop\"");
    let new = installed(&old);
    let ours = Document::parse(&FORM, &new).unwrap().ours();
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
    assert_eq!(Document::parse(&FORM, &after).unwrap().ours().len(), 2, "{after} {narrow}");
    assert!(after.contains("\"lint\"") && after.matches("/bin/subscope hook").count() == 2, "{after}");
}

#[test]
fn outline_says_as_much_as_the_text_to_what_is_removed() {
    let had = ["{\"hooks\":{\"PreToolUse\":[],\"Other\":[]},\"env\":{\"KEY\":\"s3cr3t\"}}", "{\"env\":{}}"];
    for text in TEXTS.into_iter().chain(had) {
        let parsed = Document::parse(&FORM, text).unwrap();
        let outline = parsed.outline();
        assert!(!outline.contains("s3cr3t") && !outline.contains("opus"), "{outline}");
        for (others, more) in [(false, ""), (true, "\n// theirs")] {
            let ours = [("OTEL", "1".to_owned())];
            let after = |before: &str| {
                let document = Document::parse(&FORM, &(installed(text) + more)).unwrap();
                if others {
                    document.set_variables(&ours);
                }
                document.remove_variables(&ours, Some(before));
                document.remove(Some(before));
                document.text()
            };
            assert_eq!(after(&outline), after(text), "{outline}");
        }
    }
}

#[test]
fn outline_of_a_status_line_restores_it() {
    static WITH_LINE: SettingsForm = SettingsForm { status_line: Some("statusLine"), ..FORM };
    let old = "{\"model\":\"opus\",\"statusLine\":{\"type\":\"command\",\"command\":\"mine\",\"padding\":0}}";
    for text in [old, "{\"model\":\"opus\"}", ""] {
        let before = Document::parse(&WITH_LINE, text).unwrap();
        let outline = before.status_line_outline();
        assert!(!outline.contains("opus"), "{outline}");
        let document = Document::parse(&WITH_LINE, text).unwrap();
        document.set_status_line("subscope status");
        document.restore_status_line(Some(&outline));
        let values = |document: &Document| document.root.to_serde_value().unwrap_or_else(|| json!({}));
        assert_eq!(values(&document), values(&before), "{outline}");
    }
}

#[test]
fn remove_keeps_empty_lists_that_were_there_before_us() {
    let before = "{\n  \"hooks\": {\n    \"PreToolUse\": []\n  }\n}\n";
    let changed = installed(before).replace("{\n  \"hooks\"", "{\n  \"new\": 1,\n  \"hooks\"");
    let document = Document::parse(&FORM, &changed).unwrap();
    document.remove(Some(before));
    let value = Document::parse(&FORM, &document.text()).unwrap().root.to_serde_value().unwrap();
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
        ("{\n \"hooks\": []\n}", "2: hooks is not an object"),
        ("{\n \"hooks\": {\n  \"Stop\": {}\n }\n}", "3: hooks.Stop is not a list"),
        ("{\n \"hooks\": {},\n \"hooks\": {}\n}", "3: hooks occurs twice"),
        ("{\"hooks\": {\"Stop\": [],\n \"Stop\": []}}", "2: Stop occurs twice"),
        ("{} {}", "1: no JSON: text cannot contain more than one JSON value"),
    ] {
        let wrong = Document::parse(&FORM, text).unwrap_err().to_string();
        assert!(wrong.starts_with(told), "{text}: {wrong}");
    }
    assert!(Document::parse(&FORM, &"[".repeat(1 << 20)).is_err());
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
