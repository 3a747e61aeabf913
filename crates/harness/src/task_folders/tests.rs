//! Paths and texts of tasks.

use std::{ffi::OsString, path::Path};

use serde_json::{Value, json};
use subscope_model::Outcome;

use super::{CLINE_TASKS, KILO_TASKS, ROO, family::MEMBERS, layout::EDITORS, tools};
use crate::{Harness, bundle, classify, homes, target};

#[test]
fn a_folder_of_tasks_is_that_of_its_extension_in_every_editor() {
    let task = "1770000100000";
    for member in MEMBERS {
        for editor in EDITORS {
            let tasks = Path::new("/h").join(editor).join(member.extension).join("tasks");
            assert!(bundle(&tasks).is_some(), "{}", tasks.display());
            let place = classify(&tasks.join(task));
            assert_eq!(place.dialect, member.dialect());
            assert_eq!(place.session.as_deref(), Some(task));
            for path in [tasks.join(task), tasks.join(task).join("ui_messages.json")] {
                let files = target(&path).unwrap();
                assert_eq!(
                    (files.main, files.session.as_str()),
                    (tasks.join(task), task),
                    "{}",
                    path.display()
                );
            }
            assert!(classify(&tasks.join("_index.json")).session.is_none());
        }
    }
    assert!(bundle(Path::new("/h/.cline/data/tasks")).is_some());
    assert!(ROO.bundle(Path::new("/h/.cline/data/tasks")).is_none());
    assert!(bundle(Path::new("/h/x/tasks")).is_none());
}

#[test]
fn homes_are_those_of_all_editors_that_exist() {
    let user = tempfile::tempdir().unwrap();
    let home = |name: &str| (name == "HOME").then(|| user.path().as_os_str().to_owned());
    let server = user.path().join(".vscode-server/data/User/globalStorage").join(ROO.extension);
    std::fs::create_dir_all(&server).unwrap();
    let found: Vec<_> = homes(&ROO, &home).into_iter().map(|home| home.folder).collect();
    assert_eq!(found, [user.path().join(EDITORS[0]).join(ROO.extension), server]);
    let own = user.path().join(".cline/data");
    std::fs::create_dir_all(&own).unwrap();
    assert!(homes(&CLINE_TASKS, &home).iter().any(|home| home.folder == own));
    let portable = |name: &str| (name == "VSCODE_PORTABLE").then(|| OsString::from("/p/data"));
    let expected = Path::new("/p/data/user-data/User/globalStorage").join(KILO_TASKS.extension);
    assert_eq!(KILO_TASKS.home(&portable).folder, expected);
}

#[test]
fn calls_are_elements_that_are_closed() {
    let text = "I write.\n<write_to_file>\n<path>a.html</path>\n<content>\n<p>a</p>\n</content>\n</write_to_file>\n\
        <ask_followup_question><question>Which <b>one</b>?</question></ask_followup_question><read_file><path>cut";
    let calls: Vec<(&str, Value)> = tools::element_calls(text)
        .into_iter()
        .map(|(name, arguments)| (name, serde_json::from_str(&arguments).unwrap()))
        .collect();
    let expected = [
        ("write_to_file", json!({"path": "a.html", "content": "<p>a</p>"})),
        ("ask_followup_question", json!({"question": "Which <b>one</b>?"})),
    ];
    assert_eq!(calls, expected);
    for none in ["", "<", "<read_file>", "</read_file>", "<read_file></read_files>", "<unknown>x</unknown>"] {
        assert!(tools::element_calls(none).is_empty(), "{none}");
    }
    assert_eq!(tools::element_calls(&"<read_file></read_file>".repeat(1_000)).len(), 64);
}

#[test]
fn results_say_how_a_call_ended_and_what_it_started() {
    let cases = [
        ("", false, Outcome::Ok),
        ("The user denied this operation.", false, Outcome::Denied),
        (r#"{"status":"denied","feedback":"no"}"#, false, Outcome::Denied),
        (r#"{"status":"error","error":"x"}"#, false, Outcome::Error),
        (r#"{"status":"approved"}"#, false, Outcome::Ok),
        ("The tool execution failed with the following error:\n<error>x</error>", false, Outcome::Error),
        ("The file says: The user denied this operation.", false, Outcome::Ok),
        ("x", true, Outcome::Error),
    ];
    for (text, is_error, expected) in cases {
        assert_eq!(tools::outcome(text, is_error), expected, "{text}");
    }
    assert_eq!(tools::announced("[read_file for 'a.rs'] Result:\n\nx"), Some(("read_file", "x")));
    assert_eq!(tools::announced("[attempt_completion] Result:"), Some(("attempt_completion", "")));
    assert_eq!(tools::announced("see [1] Result: x\n"), None);
    assert_eq!(tools::started_task("Delegated to child task 019c-1"), Some(("019c-1", None)));
    assert_eq!(tools::started_task("Subtask 7 completed.\n\nResult:\nTwo"), Some(("7", Some("Two"))));
    assert_eq!(tools::started_task("Delegated to child task a b"), None);
}
