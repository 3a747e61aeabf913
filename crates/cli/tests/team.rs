//! `subscope team` and `--team`, without a server.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio};

use subscope_testkit::env::{TestEnv, run};

const TOOL: &str = env!("CARGO_BIN_EXE_subscope");

/// Writes a program in place of the server's, which says what it was started with.
fn write_server(env: &TestEnv, folder: &str) {
    let script = format!("#!/bin/sh\necho {folder} $$ \"$@\"\nexit 7\n");
    let server = env.write(&format!("{folder}/subscope-team"), script);
    fs::set_permissions(server, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_command_of_the_server_becomes_the_program_beside_the_tool_else_the_one_in_path() {
    let env = TestEnv::new(TOOL);
    let tool = env.path("bin/subscope");
    fs::create_dir(env.path("bin")).unwrap();
    fs::hard_link(TOOL, &tool).or_else(|_| fs::copy(TOOL, &tool).map(drop)).unwrap();
    let started = |path: &Path| {
        let mut command = env.command_of(&tool);
        command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let words = ["-q", "team", "serve", "--clickhouse", "a  b", "--listen", ":0"];
        let child = command.args(words).spawn().unwrap();
        let (id, ended) = (child.id(), child.wait_with_output().unwrap());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (id, ended.status.code(), text(ended.stdout), text(ended.stderr))
    };
    let args = "-q serve --clickhouse a  b --listen :0";
    let (_, code, _, error) = started(&env.path("other"));
    assert_eq!(code, Some(1));
    assert!(error.contains("subscope-team") && error.contains("cargo install"), "{error}");
    // It has the process id of the tool: signals and the exit code are its own.
    write_server(&env, "other");
    let (id, code, said, _) = started(&env.path("other"));
    assert_eq!((code, said), (Some(7), format!("other {id} {args}\n")));
    write_server(&env, "bin");
    let (id, code, said, _) = started(&env.path("other"));
    assert_eq!((code, said), (Some(7), format!("bin {id} {args}\n")));
    // Usage is checked before, and the help needs no server.
    assert_eq!(env.run(&["team", "serve"]).code, Some(2));
    assert!(env.run(&["help", "team"]).success().contains("Serve a team"));
}

#[test]
fn commands_that_look_at_this_machine_only_refuse_a_team() {
    // Nothing is asked.
    let env = TestEnv::new(TOOL);
    for words in [
        "show x",
        "export --as otlp x",
        "forget x",
        "stop x",
        "watch",
        "index",
        "diff a b",
        "doctor",
        "forward --once",
    ] {
        let mut arguments = vec!["--team", "http://127.0.0.1:1"];
        arguments.extend(words.split(' '));
        let ran = env.run(&arguments);
        assert_eq!(ran.code, Some(2), "{words}: {ran:?}");
        assert!(ran.stderr.contains("takes no --team"), "{words}: {}", ran.stderr);
    }
    let nobody = env.run(&["--team", "http://127.0.0.1:1", "ls"]);
    assert_eq!(nobody.code, Some(2), "no token: {nobody:?}");
    env.write("token", "sst_x");
    let open =
        env.run(&["--team", "http://127.0.0.1:1", "--token-file", env.path("token").to_str().unwrap(), "ls"]);
    assert_eq!(open.code, Some(2), "{open:?}");
    assert!(open.stderr.contains("chmod 600"), "{}", open.stderr);
    let missing = env.run(&["--team", "settings", "ls"]);
    assert_eq!(missing.code, Some(2));
    let mut variable = env.command();
    variable.args(["index"]).env("SUBSCOPE_TEAM_URL", "http://127.0.0.1:1");
    assert_eq!(run(variable, b"").code, Some(0), "a variable is for commands that can ask");
}
