//! Tests of checkpoints on disk.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use subscope_model::{ExecutionTrace, ExecutionUsage, ToolExecution};

use super::*;
use crate::sample;

fn metadata() -> CheckpointMetadata {
    CheckpointMetadata {
        session_id: "s1".into(),
        checkpoint_id: "c1".into(),
        timestamp: sample::START,
        step: 2,
        agent_id: "root".into(),
    }
}

fn checkpoint(subagent_traces: Vec<ExecutionTrace>) -> Checkpoint {
    Checkpoint { version: CHECKPOINT_VERSION.into(), subagent_traces }
}

fn sample_checkpoint() -> Checkpoint {
    checkpoint(crate::execution(&sample::session(), &sample::inline))
}

/// Writes `text` as a checkpoint and reads it back.
fn read_text(text: &str) -> Result<(Checkpoint, Option<CheckpointMetadata>), ImportError> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(CHECKPOINT_FILE), text).unwrap();
    read_checkpoint(folder.path())
}

#[test]
fn round_trip_of_a_session_is_identity_by_folder_and_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("new/folder");
    write_checkpoint(&made, &sample_checkpoint(), &metadata()).unwrap();
    let expected = (sample_checkpoint(), Some(metadata()));
    assert_eq!(read_checkpoint(&made).unwrap(), expected);
    assert_eq!(read_checkpoint(&made.join(CHECKPOINT_FILE)).unwrap(), expected);
    assert_eq!(expected.0.subagent_traces.len(), 3);
}

#[test]
fn write_again_replaces_both_files_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    write_checkpoint(folder.path(), &sample_checkpoint(), &metadata()).unwrap();
    let later = CheckpointMetadata { step: 0, ..metadata() };
    write_checkpoint(folder.path(), &checkpoint(vec![]), &later).unwrap();
    assert_eq!(read_checkpoint(folder.path()).unwrap(), (checkpoint(vec![]), Some(later)));
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [CHECKPOINT_FILE, METADATA_FILE]);
}

#[test]
fn write_that_fails_names_the_file_and_leaves_no_temporary_one() {
    let folder = tempfile::tempdir().unwrap();
    // A folder has the name of the file, so that the rename fails.
    fs::create_dir_all(folder.path().join(CHECKPOINT_FILE).join("in the way")).unwrap();
    let error = write_checkpoint(folder.path(), &sample_checkpoint(), &metadata()).unwrap_err();
    assert!(matches!(&error, SaveError::Write { path, .. } if path.ends_with(CHECKPOINT_FILE)), "{error}");
    let hidden = fs::read_dir(folder.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(hidden.count(), 0);
}

#[test]
fn write_below_a_file_names_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let inside = folder.path().join("file/folder");
    let error = write_checkpoint(&inside, &checkpoint(vec![]), &metadata()).unwrap_err();
    assert!(matches!(&error, SaveError::Folder { folder, .. } if *folder == inside), "{error}");
}

#[test]
fn no_traces_omit_the_key() {
    assert_eq!(serde_json::to_value(checkpoint(vec![])).unwrap(), json!({"version": "1.0.0"}));
    let (back, metadata) = read_text(r#"{"version":"1.0.0"}"#).unwrap();
    assert_eq!((back, metadata), (checkpoint(vec![]), None));
}

#[test]
fn fields_of_other_programs_are_passed_over() {
    let text = r#"{"version":"1.0.0","agentState":{"messages":[]},"subagentTraces":[{"subagentId":"a",
        "subagentType":"t","parentToolCallId":"p","prompt":"do","startTime":1,"endTime":2,"success":true,"x":1}]}"#;
    let (back, _) = read_text(text).unwrap();
    assert_eq!(back.subagent_traces[0].subagent_id, "a");
}

#[test]
fn another_version_is_refused_and_both_are_named() {
    let error = read_text(r#"{"version":"2.0.0","subagentTraces":"another shape"}"#).unwrap_err();
    assert!(
        error.to_string().ends_with(r#"version "2.0.0" is not supported; only "1.0.0" can be read"#),
        "{error}"
    );
    assert!(matches!(&error, ImportError::Version { found, .. } if found == "2.0.0"));
    let error = read_text(r#"{"version":1}"#).unwrap_err();
    assert!(matches!(&error, ImportError::Version { found, .. } if found == "1"), "{error}");
    let error = read_text(r#"{"subagentTraces":[]}"#).unwrap_err();
    assert!(matches!(error, ImportError::NoVersion { .. }), "{error}");
}

#[test]
fn damaged_file_is_refused_with_its_line() {
    let error = read_text("{\"version\":\"1.0.0\",\n\"subagentTraces\":[\n{\"subagentId\":7}]}").unwrap_err();
    assert!(matches!(error, ImportError::Invalid { line: 3, .. }), "{error}");
    assert!(error.to_string().ends_with("checkpoint.json:3: not a valid checkpoint"), "{error}");
    for text in ["", "not json", "7", "{\"version\":", "\u{0}"] {
        let error = read_text(text).unwrap_err();
        assert!(matches!(error, ImportError::Invalid { .. }), "{text:?}: {error}");
    }
}

#[test]
fn nesting_without_end_is_refused_without_overflow() {
    let deep = format!("{{\"version\":\"1.0.0\",\"subagentTraces\":{}", "[".repeat(1_000_000));
    assert!(matches!(read_text(&deep).unwrap_err(), ImportError::Invalid { .. }));
}

#[test]
fn damaged_metadata_is_not_taken_for_missing() {
    let folder = tempfile::tempdir().unwrap();
    write_checkpoint(folder.path(), &checkpoint(vec![]), &metadata()).unwrap();
    fs::write(folder.path().join(METADATA_FILE), "{}").unwrap();
    let error = read_checkpoint(folder.path()).unwrap_err();
    assert!(matches!(&error, ImportError::Invalid { path, .. } if path.ends_with(METADATA_FILE)), "{error}");
}

#[test]
fn metadata_beside_a_file_of_another_name_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("saved.json");
    fs::write(&file, r#"{"version":"1.0.0"}"#).unwrap();
    fs::write(folder.path().join(METADATA_FILE), "somebody else's").unwrap();
    assert_eq!(read_checkpoint(&file).unwrap(), (checkpoint(vec![]), None));
}

#[test]
fn missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = read_checkpoint(&folder.path().join("none.json")).unwrap_err();
    assert!(matches!(&error, ImportError::Read { path, .. } if path.ends_with("none.json")), "{error}");
}

/// Any JSON value that a file can hold; numbers are finite.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|pairs| Value::from(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_tool() -> impl Strategy<Value = ToolExecution> {
    let optional = (any::<Option<String>>(), any::<Option<bool>>(), any::<Option<i64>>());
    (any::<String>(), optional, any_value(), any_value()).prop_map(
        |(tool_name, (tool_call_id, is_error, duration), arguments, result)| ToolExecution {
            tool_name,
            tool_call_id,
            arguments,
            result,
            is_error,
            duration,
        },
    )
}

fn any_trace() -> impl Strategy<Value = ExecutionTrace> {
    let texts = (any::<String>(), any::<String>(), any::<String>(), any::<String>());
    let optional =
        (any::<Option<String>>(), any::<Option<String>>(), any::<Option<String>>(), any::<Option<String>>());
    let numbers = (any::<i64>(), any::<i64>(), any::<bool>(), any::<Option<u32>>(), any::<Option<i64>>());
    let usage = any::<Option<(u64, u64, u64)>>();
    (texts, optional, numbers, usage, prop::collection::vec(any_tool(), 0..3)).prop_map(
        |(texts, optional, numbers, usage, tool_executions)| ExecutionTrace {
            subagent_id: texts.0,
            subagent_type: texts.1,
            parent_tool_call_id: texts.2,
            prompt: texts.3,
            start_time: Some(numbers.0),
            end_time: Some(numbers.1),
            success: numbers.2,
            result: optional.0,
            error: optional.1,
            tool_executions,
            usage: usage.map(|(input_tokens, output_tokens, total_tokens)| ExecutionUsage {
                input_tokens,
                output_tokens,
                total_tokens,
            }),
            parent_subagent_id: optional.2,
            depth: numbers.3,
            model: optional.3,
            cost_micro_usd: numbers.4,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn round_trip_is_identity(traces in prop::collection::vec(any_trace(), 0..4), step in any::<u64>(), id in any::<String>()) {
        let folder = tempfile::tempdir().unwrap();
        let metadata = CheckpointMetadata { step, session_id: id, ..metadata() };
        write_checkpoint(folder.path(), &checkpoint(traces.clone()), &metadata).unwrap();
        prop_assert_eq!(read_checkpoint(folder.path()).unwrap(), (checkpoint(traces), Some(metadata)));
    }

    #[test]
    fn any_checkpoint_gives_a_line_for_each_trace(traces in prop::collection::vec(any_trace(), 0..6)) {
        let (lines, _) = crate::checkpoint_lines(checkpoint(traces.clone()), None).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let ids: Result<Vec<Value>, _> = lines.lines().skip(1).map(serde_json::from_str).collect();
        let mut ids: Vec<String> = ids.unwrap().iter().map(|line| line["subagentId"].to_string()).collect();
        ids.sort();
        ids.dedup();
        prop_assert_eq!(ids.len(), traces.len());
    }
}
