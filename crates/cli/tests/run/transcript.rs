//! Commands without machine-readable output, observed by their sessions' transcripts.

use super::*;

/// The session of the recording that these tests play.
const SESSION: &str = "b38a2c21-7166-4fa1-be6a-56009876bcbd";

/// Puts a recorded session's transcripts aside, as if it were to happen in some months, or as it was.
fn transcripts(env: &TestEnv, is_to_come: bool) -> PathBuf {
    let recording = recording("2.1.330", "b-parallel");
    let folder = env.path("aside");
    for file in recording.conversation() {
        let text = fixtures::text(&file);
        let text =
            if is_to_come { text.replace("\"timestamp\":\"2026-", "\"timestamp\":\"2036-") } else { text };
        let path = file.to_str().unwrap();
        let at = path.find("-home-user-shop").unwrap();
        env.write(&format!("aside/{}", &path[at..]), text);
    }
    folder
}

/// A program of the harness's name that notes its session, as the real one does, and writes transcripts. With a format
/// it prints words, otherwise nothing.
fn harness(env: &TestEnv, aside: &Path) -> PathBuf {
    let script = format!(
        "#!/bin/bash\n[ \"$1\" = --version ] && {{ echo '2.1.330 (Claude Code)'; exit; }}\n\
         mkdir -p $HOME/.claude/sessions $HOME/.claude/projects\n\
         note=$HOME/.claude/sessions/$$.json\n\
         echo \"{{\\\"pid\\\":$$,\\\"sessionId\\\":\\\"{SESSION}\\\",\\\"startedAt\\\":$(date +%s%3N),\\\"entrypoint\\\":\\\"sdk-cli\\\"}}\" >$note\n\
         sleep 0.3\ncp -r {aside}/* $HOME/.claude/projects/\nsleep 0.3\nrm $note\nprintf 'plain words'\nexit 3\n",
        aside = aside.display(),
    );
    let path = env.write("bin/claude", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// How the main thread's last words begin.
fn answer() -> String {
    let text = fixtures::text(&recording("2.1.330", "b-parallel").streams()[0]);
    let result = json_lines(&text).into_iter().rfind(|line| line["type"] == "result").unwrap();
    result["result"].as_str().unwrap().chars().take(40).collect()
}

fn is_told_of(ran: &Ran) -> bool {
    ["▶ Explore: Map the checkout flow", "✓ Plan: Plan guest-cart merging", "→ Bash ls -R"]
        .iter()
        .all(|words| ran.stderr.contains(words))
}

#[test]
fn a_command_that_prints_its_answer_alone_is_told_of_by_its_transcript() {
    let env = env();
    let program = harness(&env, &transcripts(&env, true));
    let program = program.to_str().unwrap();
    for format in ["text", "json"] {
        let ran = run(&env, "--no-store", &[program, "-p", "look", "--output-format", format]);
        assert_eq!((ran.stdout.as_str(), ran.code), ("plain words", Some(3)), "{}", ran.stderr);
        assert!(is_told_of(&ran), "{}", ran.stderr);
        // The command prints it.
        assert!(!ran.stderr.contains(&answer()), "{}", ran.stderr);
        fs::remove_dir_all(env.home().join(".claude")).unwrap();
    }
}

#[test]
fn sessions_of_what_a_script_starts_are_told_of() {
    let env = env();
    let program = harness(&env, &transcripts(&env, true));
    // In a process group of its own.
    let script = format!("set -m; ({} -p look) & wait $!; echo done", program.display());
    let ran = run(&env, "--no-store", &["bash", "-c", &script]);
    assert_eq!((ran.stdout.as_str(), ran.code), ("plain wordsdone\n", Some(0)), "{}", ran.stderr);
    assert!(is_told_of(&ran) && ran.stderr.contains(&answer()), "{}", ran.stderr);
}

#[test]
fn what_a_session_was_before_and_sessions_of_others_are_not_told() {
    let env = env();
    let program = harness(&env, &transcripts(&env, false));
    let ran = run(&env, "--no-store", &[program.to_str().unwrap(), "-p", "x", "--output-format", "text"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("plain words", ""));
    let aside = transcripts(&env, true);
    // A process that the command has not started, and one that has ended and left its note.
    let own = std::process::id();
    for (process, started) in [(own, 9_000_000_000_000_i64), (1, 9_000_000_000_000), (99_999_999, 1)] {
        let note = format!(
            "{{\"pid\":{process},\"sessionId\":\"{SESSION}\",\"startedAt\":{started},\"entrypoint\":\"cli\"}}"
        );
        env.write(&format!("home/.claude/sessions/{process}.json"), note);
    }
    let script = format!("cp -r {}/* $HOME/.claude/projects/; sleep 0.5; echo done", aside.display());
    let ran = run(&env, "--no-store", &["sh", "-c", &script]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("done\n", ""));
}

#[test]
fn record_of_a_command_that_prints_its_answer_has_the_trace_of_its_session() {
    let env = env();
    let program = harness(&env, &transcripts(&env, true));
    let command = [program.to_str().unwrap(), "-p", "look", "--output-format", "text"];
    run(&env, "--no-store --iterations 1", &command);
    let list = json(&env.run(&["ls", "--iterations", "--json"]).success());
    let row = &list["iterations"][0];
    assert_eq!(row["session_id"], SESSION, "{list}");
    let folder = PathBuf::from(row["folder"].as_str().unwrap());
    let trace = json(&fs::read_to_string(folder.join("trace.json")).unwrap());
    assert_eq!(trace["stats"]["totalSubagents"], 3);
    let tree = json(&env.run(&["tree", folder.to_str().unwrap(), "--json"]).success());
    assert_eq!(tree["summary"]["completed"], 3, "{tree}");
}
