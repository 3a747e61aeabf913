//! Commands that ask the team's server: what they print, what they refuse, and the terminal UI.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use subscope_testkit::env::{Terminal, TestEnv, run};

use crate::{
    access::post,
    rig::{Machine, Team, tool},
};

/// Far more than any wait of these tests takes: a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn commands_ask_the_server_by_option_variable_or_settings() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    machine.adopt("c-nested");
    machine.forward(&server.url, &["--content", "text"]).success();
    let id = machine.sessions()[0]["id"].as_str().unwrap().to_owned();
    // A machine with nothing of its own.
    let asking = team.machine("two", "bob");
    let page = asking.ask_json(&server.url, &["ls", "--json"]);
    assert_eq!(
        (&page["sessions"][0]["id"], &page["sessions"][0]["user"]),
        (&id.clone().into(), &"ana".into())
    );
    for target in [&id[..8], "last", &id] {
        let tree = asking.ask_json(&server.url, &["tree", target, "--json"]);
        assert_eq!(tree["session"]["id"].as_str(), Some(&*id), "{target}");
    }
    let tree = asking.ask(&server.url, &["tree", "last"]).success();
    assert!(tree.contains("Explore"), "{tree}");
    let stats = asking.ask_json(&server.url, &["stats", "--json"]);
    assert_eq!(stats["total"]["sessions"], 1);
    assert_eq!(stats["without"], serde_json::json!(["slowest", "top_sessions", "top_agents", "concurrency"]));
    let word = machine.sessions()[0]["title"].as_str().unwrap().split_whitespace().next().unwrap().to_owned();
    let hits = asking.ask_json(&server.url, &["search", &word, "--json"]);
    assert!(!hits["hits"].as_array().unwrap().is_empty());
    let status = asking.ask_json(&server.url, &["status", "--json"]);
    assert_eq!(status["schema"], "subscope.status/1");
    // By variables, and by the settings.
    let mut command = asking.env.command();
    command.args(["ls", "--json"]).env("SUBSCOPE_TEAM_URL", &server.url);
    command.env("SUBSCOPE_TEAM_TOKEN", asking.token());
    let listed: Value = serde_json::from_str(&run(command, b"").success()).unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    let text = format!("[team]\nurl = \"{}\"\ntoken_file = \"{}\"\n", server.url, asking.token.display());
    asking.env.write("config/subscope/config.toml", text);
    let listed: Value =
        serde_json::from_str(&asking.env.run(&["--team", "settings", "ls", "--json"]).success()).unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    // Without --team it is the machine's own store.
    assert_eq!(asking.sessions().len(), 0);
    // An agent asks too.
    let calls = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_sessions","arguments":{}}}"#,
    ];
    let asked = run(asking.ask_command(&server.url, &["mcp", "query"]), (calls.join("\n") + "\n").as_bytes());
    assert!(asked.stdout.contains(&id[..8]), "{asked:?}");
}

#[test]
fn the_terminal_ui_shows_sessions_of_the_team_and_says_what_is_elsewhere() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("laptop-7", "ana");
    machine.adopt("k-big");
    machine.adopt("c-nested");
    machine.forward(&server.url, &["--content", "titles"]).success();
    let asking = team.machine("two", "bob");
    let variables = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"];
    let folders = ["home", "config", "data", "state", "run"];
    let set = variables
        .iter()
        .zip(folders)
        .map(|(name, folder)| format!("{name}={}", asking.env.path(folder).display()));
    let shell = TestEnv::new("/bin/sh");
    let script = format!(
        "env {} {} --team {} --token-file {}",
        set.collect::<Vec<_>>().join(" "),
        tool().display(),
        server.url,
        asking.token.display()
    );
    let Some(terminal) = Terminal::start(&shell, 130, 40, &["-c", &script]) else { return };
    // Sessions of another machine, with trees; their events are there only, which is said.
    terminal.wait_for_text(LIMIT, "Agent Tree");
    let screen = terminal.wait_for(LIMIT, |screen| screen.contains("on laptop-7 only"));
    assert!(!screen.contains("no hub"), "{screen}");
    terminal.wait_for_text(LIMIT, "Release readiness");
    terminal.send(&["q"]);
}

#[test]
fn the_terminal_ui_follows_sessions_at_work_on_other_machines() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    machine.adopt("k-big");
    let printed =
        run(machine.forward_command(&server.url, &["--dry-run", "--content", "titles"]), b"").success();
    let ended: Value = serde_json::from_str(printed.trim()).unwrap();
    let mut live = ended.clone();
    live["row"]["status"] = "live".into();
    live["row"]["running"] = 1.into();
    live["tree"]["agents"][1]["status"] = "running".into();
    assert_eq!(post(&server, &machine.token(), format!("{live}\n").as_bytes()).status, 200);
    let mut command = machine.ask_command(&server.url, &["--plain"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    assert!(first.ends_with("1 session, 1 agent at work"), "{first}");
    let mut later = ended;
    later["rev"] = (later["rev"].as_u64().unwrap() + 1).into();
    assert_eq!(post(&server, &machine.token(), format!("{later}\n").as_bytes()).status, 200);
    let next = lines.next().unwrap();
    assert!(next.contains(" completed after "), "{next}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_token_of_the_settings_goes_to_the_server_of_the_settings_only() {
    let machine = Machine::alone("one", "sst_secret");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = format!("http://{}", listener.local_addr().unwrap());
    let text =
        format!("[team]\nurl = \"http://127.0.0.1:1\"\ntoken_file = \"{}\"\n", machine.token.display());
    machine.env.write("config/subscope/config.toml", text);
    for arguments in [&["--team", &other, "ls"][..], &["forward", "--once", "--to", &other]] {
        let ran = machine.env.run(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("for http://127.0.0.1:1 only"), "{}", ran.stderr);
    }
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nothing was sent");
}

#[test]
fn doctor_says_that_the_server_has_lost_its_clickhouse() {
    let Some(mut team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let text = format!("[team]\nurl = \"{}\"\ntoken_file = \"{}\"\n", server.url, machine.token.display());
    machine.env.write("config/subscope/config.toml", text);
    let says = || machine.env.run(&["doctor"]).stdout;
    assert!(says().contains("knows this machine's user as ana"), "{}", says());
    team.clickhouse.kill();
    assert!(says().contains("the server answers, its ClickHouse does not"), "{}", says());
}
