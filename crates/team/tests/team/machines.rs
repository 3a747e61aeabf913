//! Machines that forward: the team's servers have the same sessions as the machines, even if processes are killed in
//! between.

use std::{collections::BTreeMap, fs};

use rustix::process::Signal;
use serde_json::Value;
use subscope_testkit::{
    env::run,
    fixtures::{recording, recordings},
};

use crate::rig::{Machine, Running, Team, until};

/// Figures of a session that every store has, by its id.
fn figures(rows: &[Value]) -> BTreeMap<String, Value> {
    let keys = [
        "harness",
        "status",
        "started_at_ms",
        "last_event_at_ms",
        "runs",
        "agents",
        "failed",
        "tool_calls",
        "usage",
        "cost_micro_usd",
    ];
    let row = |row: &Value| keys.iter().map(|key| ((*key).to_owned(), row[*key].clone())).collect();
    rows.iter().map(|one| (one["id"].as_str().unwrap().to_owned(), row(one))).collect()
}

/// Asserts that a server has the sessions of these machines, each once, with equal figures and trees.
fn assert_equal(machines: &[&Machine], url: &str) {
    let mut own = BTreeMap::new();
    for machine in machines {
        own.extend(figures(&machine.sessions()));
    }
    let asking = machines[0];
    let page = asking.ask_json(url, &["ls", "-n", "100000", "--json"]);
    let rows = page["sessions"].as_array().unwrap();
    let found = figures(rows);
    assert_eq!(rows.len(), own.len(), "each session once");
    assert_eq!(found, own);
    let stats = asking.ask_json(url, &["stats", "--json"]);
    let sum = |key: &str| own.values().filter_map(|row| row[key].as_u64()).sum::<u64>();
    assert_eq!(stats["total"]["tool_calls"].as_u64(), Some(sum("tool_calls")));
    assert_eq!(stats["total"]["cost_micro_usd"].as_u64(), Some(sum("cost_micro_usd")));
    for machine in machines {
        for row in machine.sessions() {
            let id = row["id"].as_str().unwrap();
            let mut expected: Value =
                serde_json::from_str(&machine.env.run(&["tree", id, "--json"]).success()).unwrap();
            let mut found = asking.ask_json(url, &["tree", id, "--json"]);
            for tree in [&mut expected, &mut found] {
                assert_eq!(tree["session"]["id"].as_str(), Some(id));
                strip(tree);
            }
            assert_eq!(found, expected, "{id}");
        }
    }
}

/// Leaves out what does not leave a machine as figures.
fn strip(tree: &mut Value) {
    tree["session"]["cwd"].take();
    tree["session"]["title"].take();
    tree["session"]["rev"].take();
    tree["problems"].take();
    tree["summary"].as_object_mut().unwrap().remove("need");
    for agent in tree["agents"].as_array_mut().unwrap() {
        for key in ["name", "description", "evidence", "prompt", "result", "error", "rev"] {
            agent[key].take();
        }
        for call in agent["tools"].as_array_mut().unwrap() {
            call["detail"].take();
            call.as_object_mut().unwrap().remove("writes");
        }
    }
}

fn three(team: &Team) -> [Machine; 3] {
    let machines = [team.machine("one", "ana"), team.machine("two", "bob"), team.machine("three", "cem")];
    let mut shares: [Vec<_>; 3] = Default::default();
    // No session on two machines.
    for (place, recording) in recordings().into_iter().enumerate() {
        shares[place % 3].push(recording);
    }
    for (machine, share) in machines.iter().zip(&shares) {
        machine.adopt_all(share);
    }
    machines
}

#[test]
fn three_machines_and_two_servers_have_the_same_sessions() {
    let Some(team) = Team::start() else { return };
    let (one, other) = (team.serve(), team.serve());
    let machines = three(&team);
    let refs = machines.each_ref();
    assert!(machines.iter().map(|machine| machine.sessions().len()).sum::<usize>() > 20);
    for (place, machine) in machines.iter().enumerate() {
        machine.forward([&one.url, &other.url][place % 2], &[]).success();
    }
    assert_equal(&refs, &one.url);
    assert_equal(&refs, &other.url);
    // Again: nothing is due, and what is sent nevertheless is the same.
    let again = machines[0].forward(&one.url, &[]);
    assert_eq!(again.code, Some(0));
    assert!(again.stderr.contains("0 sessions sent"), "{}", again.stderr);
    std::fs::remove_file(machines[0].env.path("data/subscope/team.db")).unwrap();
    machines[0].forward(&one.url, &[]).success();
    assert_equal(&refs, &one.url);
    // One is forgotten on its machine, and with its next forwarding for the team.
    let gone = machines[1].sessions()[0]["id"].as_str().unwrap().to_owned();
    machines[1].env.run(&["forget", &gone]).success();
    machines[1].forward(&other.url, &[]).success();
    assert_equal(&refs, &one.url);
    assert_eq!(machines[0].ask(&one.url, &["tree", &gone]).code, Some(1));
    let status = machines[0].ask_json(&one.url, &["status", "--json"]);
    assert_eq!(status["schema"], "subscope.status/1");
}

#[test]
fn kills_of_forwarder_server_and_engine_lose_nothing_and_count_nothing_twice() {
    let Some(mut team) = Team::start() else { return };
    let mut servers = [team.serve(), team.serve()];
    let machines = three(&team);
    for round in 0..3 {
        for (place, machine) in machines.iter().enumerate() {
            let at = (place + round) % 2;
            // While the engine is stopped, what the forwarder sends is on its way.
            team.signal_engine(Signal::STOP);
            let mut forwarder = Running::spawn(machine.forward_command(&servers[at].url, &[]));
            until("the forwarder forwards", || machine.env.path("data/subscope/team.db").exists());
            // It makes its batch, and the server reads and gathers it.
            std::thread::sleep(std::time::Duration::from_secs(2));
            match (place + round) % 3 {
                // The server inserts rows whose sender no longer waits.
                0 => forwarder.kill(),
                // The forwarder does not know whether the insert was made.
                1 => servers[at].kill(),
                // The server does not know it.
                _ => team.clickhouse.kill(),
            }
            match (place + round) % 3 {
                0 => team.signal_engine(Signal::CONT),
                1 => {
                    team.signal_engine(Signal::CONT);
                    servers[at].restart(&team);
                }
                _ => team.clickhouse.restart(),
            }
            forwarder.kill();
        }
    }
    for machine in &machines {
        machine.forward(&servers[0].url, &[]).success();
    }
    assert_equal(&machines.each_ref(), &servers[1].url);
}

/// Half of the lines of a recording's main transcript, then all of them.
fn grows(machine: &Machine, scenario: &str, mut between: impl FnMut()) {
    let recording = recording("2.1.330", scenario);
    let main = recording.mains().remove(0);
    let place = format!(
        "home/.claude/projects/{}",
        main.strip_prefix(recording.projects()).unwrap().to_str().unwrap()
    );
    let whole = std::fs::read(&main).unwrap();
    let newlines = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    let newlines: Vec<usize> = newlines.collect();
    machine.env.write(&place, &whole[..=newlines[newlines.len() / 2]]);
    machine.env.run(&["index"]).success();
    between();
    machine.adopt(scenario);
}

#[test]
fn a_session_that_grows_replaces_itself_also_when_it_was_sent_before() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let mut calls = 0;
    grows(&machine, "k-big", || {
        machine.forward(&server.url, &[]).success();
        assert_equal(&[&machine], &server.url);
        calls = machine.sessions()[0]["tool_calls"].as_u64().unwrap();
    });
    assert!(machine.sessions()[0]["tool_calls"].as_u64().unwrap() > calls, "it has grown");
    machine.forward(&server.url, &[]).success();
    assert_equal(&[&machine], &server.url);
}

#[test]
fn a_machine_that_was_offline_sends_all_once_the_server_is_there() {
    let Some(team) = Team::start() else { return };
    let mut server = team.serve();
    let machine = team.machine("one", "ana");
    server.kill();
    machine.adopt("c-nested");
    assert_eq!(machine.forward(&server.url, &[]).code, Some(1), "nothing answers");
    // It reads new transcripts by itself.
    let mut forwarder = Running::spawn(machine.forward_command(&server.url, &[]));
    machine.env.adopt(&recording("2.1.330", "k-big"));
    server.restart(&team);
    let listed = |count: usize| {
        let page = machine.ask(&server.url, &["ls", "--json"]);
        page.code == Some(0)
            && serde_json::from_str::<Value>(&page.stdout).unwrap()["sessions"].as_array().unwrap().len()
                == count
    };
    until("both sessions are there", || listed(2));
    machine.env.adopt(&recording("2.1.330", "b-parallel"));
    until("the third is there", || listed(3));
    forwarder.kill();
    assert_equal(&[&machine], &server.url);
}

/// A machine with one session, and that session's id and title.
fn with_one_session(team: &Team) -> (Machine, String, String) {
    let machine = team.machine("one", "ana");
    machine.adopt("c-nested");
    let row = machine.sessions().swap_remove(0);
    let text = |key: &str| row[key].as_str().unwrap().to_owned();
    let (id, title) = (text("id"), text("title"));
    (machine, id, title)
}

#[test]
fn levels_say_what_leaves_and_a_lower_one_takes_it_back() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let (machine, id, title) = with_one_session(&team);
    let dry = |level: &str| {
        let command = machine.forward_command(&server.url, &["--dry-run", "--content", level]);
        subscope_testkit::env::run(command, b"").success()
    };
    let figures = dry("figures");
    let line: Value = serde_json::from_str(figures.trim()).unwrap();
    assert_eq!((line["schema"].as_str(), line["level"].as_str()), (Some("subscope.team/1"), Some("figures")));
    assert!(!figures.contains(&title) && !figures.contains("/home/user"), "{figures}");
    assert!(dry("titles").contains(&title) && !dry("titles").contains("\"text\":\""));
    assert!(dry("text").contains("\"kind\":\"prompt\""));
    machine.forward(&server.url, &["--content", "text"]).success();
    let found = machine.ask_json(&server.url, &["tree", &id, "--json"]);
    assert_eq!(found["session"]["title"].as_str(), Some(&*title));
    let word = title.split_whitespace().next().unwrap().to_owned();
    let hits = machine.ask_json(&server.url, &["search", &word, "--json"]);
    assert!(!hits["hits"].as_array().unwrap().is_empty(), "{word}");
    machine.forward(&server.url, &[]).success();
    let found = machine.ask_json(&server.url, &["tree", &id, "--json"]);
    assert_eq!(found["session"]["title"], Value::Null, "replaced");
    let hits = machine.ask_json(&server.url, &["search", &word, "--json"]);
    assert!(hits["hits"].as_array().unwrap().is_empty(), "{hits}");
    machine.env.write("config/subscope/config.toml", "[team]\nexclude = [\"/home/user/*\"]\n");
    machine.forward(&server.url, &[]).success();
    assert_eq!(machine.ask(&server.url, &["tree", &id]).code, Some(1), "excluded: removed");
}

#[test]
fn without_the_record_of_what_was_sent_the_newest_snapshot_still_counts() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let (machine, id, title) = with_one_session(&team);
    let word = title.split_whitespace().next().unwrap().to_owned();
    // Whether the team sees the title, and finds a word of the prompt; `None` if it has no such session.
    let seen = || {
        let tree = machine.ask(&server.url, &["tree", &id, "--json"]);
        let hits = machine.ask_json(&server.url, &["search", &word, "--json"]);
        let is_found = !hits["hits"].as_array().unwrap().is_empty();
        if tree.code != Some(0) {
            assert!(!is_found, "{hits}");
            return None;
        }
        let tree: Value = serde_json::from_str(&tree.stdout).unwrap();
        Some((tree["session"]["title"].as_str() == Some(&*title), is_found))
    };
    let lose_record = || machine.lose_record();
    let send = |level: &str| drop(machine.forward(&server.url, &["--content", level]).success());
    let exclude = |folders: &str| {
        let text = format!("[team]\nexclude = [{folders}]\n");
        machine.env.write("config/subscope/config.toml", text);
    };
    send("text");
    assert_eq!(seen(), Some((true, true)));
    send("figures");
    assert_eq!(seen(), Some((false, false)));
    lose_record();
    send("text");
    assert_eq!(seen(), Some((true, true)), "raised without a record");
    lose_record();
    send("figures");
    assert_eq!(seen(), Some((false, false)), "lowered without a record");
    machine.forward(&server.url, &["--content", "text"]).success();
    assert_eq!(seen(), Some((false, false)), "a higher level is for sessions that change");
    let printed =
        run(machine.forward_command(&server.url, &["--dry-run", "--all", "--content", "text"]), b"");
    assert!(printed.success().contains(&title));
    machine.forward(&server.url, &["--all", "--content", "text"]).success();
    assert_eq!(seen(), Some((true, true)), "sent again");
    exclude("\"/home/user/*\"");
    send("text");
    assert_eq!(seen(), None, "excluded");
    exclude("");
    lose_record();
    send("text");
    assert_eq!(seen(), Some((true, true)), "back");
    exclude("\"/home/user/*\"");
    send("text");
    assert_eq!(seen(), None, "excluded again");
    exclude("");
    send("text");
    machine.env.run(&["forget", &id]).success();
    send("text");
    assert_eq!(seen(), None, "forgotten");
}

/// Returns the numbers of sessions, trees and passages that the engine has, deleted and replaced rows left out.
fn stored(team: &Team) -> Vec<String> {
    let count = |table: &str| team.sql(&format!("SELECT count() FROM subscope.{table} FINAL"));
    ["sessions", "trees", "texts"].map(count).to_vec()
}

#[test]
fn forgetting_reaches_the_team_without_the_record_of_what_was_sent() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let (machine, id, _) = with_one_session(&team);
    machine.adopt("b-parallel");
    machine.forward(&server.url, &["--content", "text"]).success();
    let (_, other) = (&id, machine.sessions().iter().find(|row| row["id"] != *id).unwrap()["id"].clone());
    machine.lose_record();
    machine.env.run(&["forget", &id]).success();
    machine.forward(&server.url, &["--content", "text"]).success();
    assert_eq!(machine.ask(&server.url, &["tree", &id]).code, Some(1));
    assert_eq!(stored(&team)[..2], ["1", "1"]);
    machine.lose_record();
    machine.env.run(&["forget", other.as_str().unwrap()]).success();
    machine.forward(&server.url, &["--content", "text"]).success();
    assert_eq!(stored(&team), ["0", "0", "0"], "no passage is left either");
    let again = machine.forward(&server.url, &[]);
    assert!(again.stderr.contains("0 sessions sent"), "{}", again.stderr);
}

#[test]
fn forgetting_beats_a_rev_that_is_stored_whatever_it_is() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let (machine, id, title) = with_one_session(&team);
    let word = title.split_whitespace().next().unwrap();
    let send = || machine.forward(&server.url, &["--all", "--content", "text"]).success();
    // As a server did that took any rev.
    let pin = |rev: &str| {
        for table in ["sessions", "trees", "texts"] {
            team.sql(&format!(
                "INSERT INTO subscope.{table} SELECT * REPLACE(toUInt64({rev}) AS rev) FROM subscope.{table} FINAL"
            ));
        }
    };
    // Its transcript grows: the session is there again, for the team as well.
    let grow = || {
        let main = machine.main_transcript();
        let lines = fs::read_to_string(&main).unwrap();
        let more = r#"{"type":"summary","summary":"more","leafUuid":"x"}"#;
        fs::write(&main, format!("{lines}{more}\n")).unwrap();
        machine.env.run(&["index"]).success();
    };
    for rev in ["18446744073709551615", "4611686018427387904"] {
        send();
        pin(rev);
        machine.env.run(&["forget", &id]).success();
        send();
        assert_eq!(machine.ask(&server.url, &["tree", &id]).code, Some(1), "{rev}");
        assert_eq!(stored(&team), ["0", "0", "0"], "{rev}");
        let hits = machine.ask_json(&server.url, &["search", word, "--json"]);
        assert!(hits["hits"].as_array().unwrap().is_empty(), "{hits}");
        grow();
        send();
        assert_eq!(machine.ask(&server.url, &["tree", &id]).code, Some(0), "{rev}");
    }
    pin("18446744073709551615");
    let admin = Machine::alone("desk", &team.token("acme", "root", "admin"));
    admin.ask(&server.url, &["team", "forget", "--user", "ana"]).success();
    assert_eq!(stored(&team), ["0", "0", "0"]);
    grow();
    send();
    assert_eq!(machine.ask(&server.url, &["tree", &id]).code, Some(0), "what is sent later counts");
}

#[test]
fn what_a_clock_that_was_ahead_has_sent_is_lowered_and_forgotten_once_it_is_right() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let (machine, id, title) = with_one_session(&team);
    machine.forward(&server.url, &["--content", "text"]).success();
    // As after sending by a clock that was 400 days ahead to a server that took it: store, record and server have that rev.
    let ahead = "toUInt64(toUnixTimestamp(now() + INTERVAL 400 DAY) * 1000000)";
    for table in ["sessions", "trees", "texts"] {
        team.sql(&format!(
            "INSERT INTO subscope.{table} SELECT * REPLACE({ahead} AS rev) FROM subscope.{table} FINAL"
        ));
    }
    let ahead: i64 = team.sql(&format!("SELECT {ahead}")).parse().unwrap();
    let data = machine.env.path("data/subscope");
    for (file, sql) in [
        ("team.db", "UPDATE forwarded SET sent_rev = ?1, rev = ?1"),
        ("store.db", "UPDATE sessions SET rev = ?1"),
    ] {
        rusqlite::Connection::open(data.join(file)).unwrap().execute(sql, [ahead]).unwrap();
    }
    machine.forward(&server.url, &["--content", "figures"]).success();
    let found = machine.ask_json(&server.url, &["tree", &id, "--json"]);
    assert_eq!(found["session"]["title"], Value::Null, "lowered: {title}");
    assert_eq!(stored(&team), ["1", "1", "0"]);
    machine.env.run(&["forget", &id]).success();
    machine.forward(&server.url, &[]).success();
    assert_eq!(machine.ask(&server.url, &["tree", &id]).code, Some(1), "forgotten");
    assert_eq!(stored(&team), ["0", "0", "0"]);
}
