//! Programs of harnesses whose processes note nowhere which session they are in: their sessions are found by the
//! working folder.

use serde_json::Value;

use super::*;

/// A harness's program that copies recorded transcripts to where it keeps its own.
struct StandIn {
    program: &'static str,
    /// Where it keeps its transcripts, below the user's home.
    keeps: &'static str,
    /// The recording's folder of them, and that of a session that is at work elsewhere at the same time.
    recorded: &'static str,
    elsewhere: &'static str,
    /// The working folder that the recordings name.
    folder: &'static str,
    /// Its words for an answer alone, and for machine-readable output.
    answering: &'static [&'static str],
    streaming: &'static [&'static str],
}

const STAND_INS: [StandIn; 2] = [
    StandIn {
        program: "codex",
        keeps: ".codex/sessions",
        recorded: "codex/0.169.0/v2_two_parallel/sessions",
        elsewhere: "codex/0.169.0/v1_nested/sessions",
        folder: "/home/user/ws/codex",
        answering: &["exec", "hi"],
        streaming: &["exec", "--json", "hi"],
    },
    StandIn {
        program: "copilot",
        keeps: ".copilot/session-state",
        recorded: "copilot/1.0.102/two_parallel/dot_copilot/session-state",
        elsewhere: "copilot/1.0.102/nested/dot_copilot/session-state",
        folder: "/home/user/ws/copilot",
        answering: &["-p", "hi"],
        streaming: &["-p", "hi", "--output-format", "json"],
    },
];

/// Output of the fake program: if it were decoded, the message would be shown twice.
const PRINTED: &str =
    "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"printed\"}}\n";

impl StandIn {
    /// Puts a recording aside, as if it were to happen in some years in this folder.
    fn put_aside(&self, env: &TestEnv, from: &str, folder: &Path) {
        let from = fixtures::root().join(from);
        for file in fixtures::files_below(&from) {
            let text = fixtures::text(&file).replace("\":\"2026-", "\":\"2036-");
            // Seconds and milliseconds since 1970.
            let text = text.replace("\":1795", "\":2111");
            let text = text.replace(self.folder, folder.to_str().unwrap());
            env.write(&format!("aside/{}", file.strip_prefix(&from).unwrap().display()), text);
        }
    }

    fn program(&self, env: &TestEnv) -> PathBuf {
        let script = format!(
            "#!/bin/sh\nsleep 0.3\nmkdir -p $HOME/{keeps}\ncp -r {aside}/. $HOME/{keeps}/\nprintf '%s' '{PRINTED}'\n\
             exit 3\n",
            keeps = self.keeps,
            aside = env.path("aside").display(),
        );
        let path = env.write(&format!("bin/{}", self.program), script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

fn trace(env: &TestEnv) -> Value {
    let record = fs::read_dir(env.path("records")).unwrap().next().unwrap().unwrap().path();
    json(&fs::read_to_string(record.join("trace.json")).unwrap())
}

#[test]
fn session_of_the_working_folder_is_shown_and_no_other() {
    for stand_in in &STAND_INS {
        for words in [stand_in.answering, stand_in.streaming] {
            let env = env();
            stand_in.put_aside(&env, stand_in.recorded, &env.work());
            stand_in.put_aside(&env, stand_in.elsewhere, Path::new("/elsewhere"));
            let program = stand_in.program(&env);
            let command: Vec<&str> =
                [program.to_str().unwrap()].into_iter().chain(words.iter().copied()).collect();
            let options = format!("--no-store --log-dir {}", env.path("records").display());
            let ran = run(&env, &options, &command);
            assert_eq!((ran.stdout.as_str(), ran.code), (PRINTED, Some(3)), "{command:?}\n{}", ran.stderr);
            assert_eq!(trace(&env)["stats"]["totalSubagents"], 2, "{command:?}\n{}", ran.stderr);
            assert!(ran.stderr.contains("✓ "), "{}", ran.stderr);
            assert!(!ran.stderr.contains("printed") && !ran.stderr.contains("warning"), "{}", ran.stderr);
        }
    }
}

#[test]
fn two_sessions_of_one_folder_are_said_not_to_be_told_apart() {
    for stand_in in &STAND_INS {
        let env = env();
        stand_in.put_aside(&env, stand_in.recorded, &env.work());
        stand_in.put_aside(&env, stand_in.elsewhere, &env.work());
        let program = stand_in.program(&env);
        let command: Vec<&str> =
            [program.to_str().unwrap()].into_iter().chain(stand_in.answering.iter().copied()).collect();
        let ran = run(&env, "--no-store", &command);
        assert!(ran.stderr.contains("warning: 2 sessions were at work in this folder"), "{}", ran.stderr);
    }
}

#[test]
fn session_that_began_earlier_is_another_programs_unless_the_command_resumes_one() {
    let stand_in = &STAND_INS[0];
    let env = env();
    stand_in.put_aside(&env, stand_in.recorded, &env.work());
    for file in fixtures::files_below(&env.path("aside")) {
        let text = fixtures::text(&file).replace("\":\"2036-", "\":\"2016-").replace("\":2111", "\":1479");
        fs::write(file, text).unwrap();
    }
    let program = stand_in.program(&env);
    for (words, agents) in [(["exec", "hi", "there"], None), (["exec", "resume", "--last"], Some(2))] {
        let folder = env.path("records");
        let options = format!("--no-store --log-dir {}", folder.display());
        let command: Vec<&str> = [program.to_str().unwrap()].into_iter().chain(words).collect();
        let ran = run(&env, &options, &command);
        assert_eq!((ran.stdout.as_str(), ran.code), (PRINTED, Some(3)), "{}", ran.stderr);
        let record = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let trace = fs::read_to_string(record.join("trace.json")).map(|text| json(&text));
        let found =
            trace.ok().and_then(|trace| trace["stats"]["totalSubagents"].as_u64()).filter(|all| *all > 0);
        assert_eq!(found, agents, "{words:?}");
        fs::remove_dir_all(folder).unwrap();
    }
}
