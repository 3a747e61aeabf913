//! Forwarding by a machine's hub and its reports: the hub's thread, `doctor`, the printed bytes, TLS, secrets.

use std::{
    fs,
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
    thread,
};

use serde_json::Value;
use subscope_testkit::{
    env::run,
    fixtures::recording,
    secrets::{left_in, secrets},
    skip,
};

use crate::{
    access::get,
    rig::{Machine, Running, Team, until},
};

/// Writes the settings of a machine that forwards to a server.
fn configure(machine: &Machine, url: &str, more: &str) {
    let text = format!("[team]\nurl = \"{url}\"\ntoken_file = \"{}\"\n{more}", machine.token.display());
    machine.env.write("config/subscope/config.toml", text);
}

/// Starts the hub of a machine.
fn hub(machine: &Machine) -> Running {
    let mut command = machine.env.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    Running::start(command)
}

/// Titles of the team's sessions by id; empty while the server is away.
fn titles(machine: &Machine, url: &str) -> Vec<(String, Option<String>)> {
    let listed = machine.ask(url, &["ls", "--json"]);
    if listed.code != Some(0) {
        return Vec::new();
    }
    let page: Value = serde_json::from_str(&listed.stdout).unwrap();
    let row =
        |row: &Value| (row["id"].as_str().unwrap().to_owned(), row["title"].as_str().map(str::to_owned));
    page["sessions"].as_array().unwrap().iter().map(row).collect()
}

/// The checks of `doctor` about the team, as state and sentence.
fn doctor(machine: &Machine) -> Vec<(String, String)> {
    let ran = machine.env.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "team");
    let word = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    checks.map(|check| (word(check, "state"), word(check, "says"))).collect()
}

#[test]
fn a_hub_forwards_by_itself_and_doctor_says_how_far_it_is() {
    let Some(team) = Team::start() else { return };
    let mut server = team.serve();
    let machine = team.machine("one", "ana");
    assert_eq!(doctor(&machine), [], "no team is set");
    configure(&machine, &server.url, "content = \"titles\"\nname = \"desk\"\n");
    machine.adopt("c-nested");
    let [level, known, behind] = doctor(&machine).try_into().unwrap();
    assert!(level.1.starts_with("titles of this machine's sessions go to http://127.0.0.1:"), "{level:?}");
    assert_eq!(
        known,
        ("ok".to_owned(), "the server knows this machine's user as ana of acme, writer".to_owned())
    );
    assert_eq!(behind.0, "warning");
    assert!(behind.1.contains("0 sessions, 1 newer here; no process forwards now"), "{behind:?}");
    let mut running = hub(&machine);
    until("the first session is there", || titles(&machine, &server.url).len() == 1);
    let (id, title) = titles(&machine, &server.url).remove(0);
    assert!(title.is_some(), "the level of the settings");
    let listed = machine.ask_json(&server.url, &["ls", "--json"]);
    assert_eq!(listed["sessions"][0]["machine"], "desk");
    // One forwarder; what would leave is printed all the same.
    let second = machine.forward(&server.url, &[]);
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.stderr.contains("another process forwards"), "{}", second.stderr);
    let dry = run(machine.forward_command(&server.url, &["--dry-run"]), b"");
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    until("doctor sees it", || {
        doctor(&machine)[2]
            == ("ok".to_owned(), "the server has 1 session, 0 newer here; a process forwards".to_owned())
    });
    // The hub may have changed the session's row meanwhile.
    until("the page sees it", || {
        let shown = get(&running, "/api/v1/sending", "").json();
        assert!(shown["last_sent_at_ms"].is_number(), "{shown}");
        (&shown["sent"], &shown["behind"], &shown["error"]) == (&1.into(), &0.into(), &Value::Null)
    });
    // The hub answers while the team's server is away, and goes on when it is back.
    server.kill();
    machine.env.adopt(&recording("2.1.330", "b-parallel"));
    until("the second session waits", || {
        let [_, known, behind] = doctor(&machine).try_into().unwrap();
        (known.0.as_str(), behind.0.as_str()) == ("failure", "ok")
            && behind.1.contains("1 session, 1 newer here")
    });
    assert_eq!(machine.sessions().len(), 2, "the hub answers");
    server.restart(&team);
    until("the second session is there", || titles(&machine, &server.url).len() == 2);
    running.kill();
    machine.env.run(&["forget", &id]).success();
    let mut running = hub(&machine);
    until("the first one is gone", || titles(&machine, &server.url).iter().all(|(other, _)| *other != id));
    until("nothing is newer", || doctor(&machine)[2].1.contains("1 session, 0 newer here"));
    running.kill();
    // The hub may have been killed before it had recorded the last answer: that is sent once more.
    assert_eq!(machine.forward(&server.url, &[]).code, Some(0));
    assert_eq!(titles(&machine, &server.url).len(), 1);
    // A revoked token.
    fs::write(team.env.path("tokens"), "# none\n").unwrap();
    until("the token is unknown", || {
        let (state, says) = doctor(&machine).swap_remove(1);
        state == "failure" && says.contains("the server does not know the token")
    });
    let refused = machine.forward(&server.url, &[]);
    assert_eq!(refused.code, Some(0), "nothing is due: {refused:?}");
    machine.adopt("k-big");
    let refused = machine.forward(&server.url, &[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("refuses this token"), "{}", refused.stderr);
}

#[test]
fn a_variable_alone_makes_no_hub_forward() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    machine.adopt("c-nested");
    let mut command = machine.env.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("SUBSCOPE_TEAM_URL", &server.url);
    command.env("SUBSCOPE_TEAM_TOKEN", machine.token());
    let _running = Running::start(command);
    assert_eq!(doctor(&machine), [], "the settings name no server");
    assert!(!machine.env.path("data/subscope/team.db").exists());
    assert_eq!(titles(&machine, &server.url), []);
}

/// Takes one request, answers it as a team's server, and returns its decompressed body.
fn capture(listener: &TcpListener) -> Vec<u8> {
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line).unwrap() > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let answer =
        "HTTP/1.1 200 OK\r\ncontent-length: 27\r\nconnection: close\r\n\r\n{\"accepted\":1,\"refused\":[]}";
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut text).unwrap();
    text
}

#[test]
fn the_printed_bytes_are_those_that_leave() {
    // The server here is a listener: no engine is needed.
    let machine = Machine::alone("one", "sst_x");
    machine.adopt("c-nested");
    // A title that plays with the terminal.
    let place = machine.main_transcript();
    let text = fs::read_to_string(&place).unwrap();
    let prompt = machine.sessions()[0]["title"].as_str().unwrap().to_owned();
    let hostile = text.replace(&prompt, "\u{202e}reversed \u{9b}31m and \u{1f600}");
    assert_ne!(text, hostile);
    fs::write(&place, hostile).unwrap();
    machine.env.run(&["index"]).success();
    for level in ["figures", "titles", "text"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let content = ["--content", level];
        let printed =
            run(machine.forward_command(&url, &[&content[..], &["--dry-run"]].concat()), b"").success();
        assert!(!printed.contains(['\u{202e}', '\u{9b}']), "{level}: safe on a terminal");
        assert_eq!(printed.contains("\\u202ereversed"), level != "figures", "{level}");
        let captured = thread::scope(|scope| {
            let captured = scope.spawn(|| capture(&listener));
            machine.forward(&url, &content).success();
            captured.join().unwrap()
        });
        assert_eq!(String::from_utf8(captured).unwrap(), printed, "{level}");
    }
}

#[test]
fn the_page_of_a_hub_says_what_its_machine_sends() {
    // Nothing listens at the server's address: no engine is needed.
    let machine = Machine::alone("one", "sst_x");
    machine.adopt("c-nested");
    let sending = |hub: &Running, query: &str| get(hub, &format!("/api/v1/sending{query}"), "").json();
    let example =
        |sending: &Value| -> Value { serde_json::from_str(sending["example"].as_str().unwrap()).unwrap() };
    let mut running = hub(&machine);
    let none = sending(&running, "");
    assert_eq!(
        (&none["url"], &none["is_on"], &none["level"]),
        (&Value::Null, &false.into(), &"figures".into())
    );
    assert!(!machine.env.path("data/subscope/team.db").exists(), "who looks leaves no record");
    for level in ["figures", "titles", "text"] {
        let shown = sending(&running, &format!("?level={level}"));
        assert_eq!((&shown["example_level"], &shown["level"]), (&level.into(), &"figures".into()));
        let mut line = example(&shown);
        let dry = machine.forward_command("http://127.0.0.1:1", &["--dry-run", "--content", level]);
        let printed: Value = serde_json::from_str(run(dry, b"").success().trim()).unwrap();
        line["rev"] = printed["rev"].clone();
        line["machine"] = printed["machine"].clone();
        assert_eq!(line, printed, "{level}: what would leave");
    }
    assert_eq!(get(&running, "/api/v1/sending?level=all", "").status, 400);
    running.kill();
    configure(
        &machine,
        "http://127.0.0.1:1/",
        "content = \"titles\"\nname = \"desk\"\nexclude = [\"~/private\"]\n",
    );
    let mut running = hub(&machine);
    until("the failure is shown", || sending(&running, "")["error"].is_string());
    let shown = sending(&running, "");
    assert_eq!(shown["url"], "http://127.0.0.1:1");
    assert_eq!((&shown["is_on"], &shown["is_forwarding"]), (&true.into(), &true.into()));
    assert_eq!((&shown["machine"], &shown["level"]), (&"desk".into(), &"titles".into()));
    assert_eq!(shown["exclude"], serde_json::json!(["~/private"]));
    assert_eq!((&shown["sent"], &shown["behind"]), (&0.into(), &1.into()));
    assert_eq!(shown["last_sent_at_ms"], Value::Null);
    assert!(example(&shown)["row"]["title"].is_string(), "the level of the settings");
    assert_eq!(get(&running, "/api/v1/setup", "").json()["team"], "http://127.0.0.1:1/");
    running.kill();
    configure(&machine, "http://127.0.0.1:1", "exclude = [\"/home/user\"]\nforward = false\n");
    let running = hub(&machine);
    let shown = sending(&running, "");
    assert_eq!((&shown["is_on"], &shown["example"]), (&false.into(), &Value::Null), "excluded");
}

#[test]
fn excluded_folders_and_refusing_projects_are_not_printed_or_sent() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    machine.adopt("c-nested");
    let cwd = machine.env.path("shop");
    fs::create_dir_all(cwd.join(".subscope")).unwrap();
    let place = machine.main_transcript();
    let text = fs::read_to_string(&place).unwrap();
    fs::write(&place, text.replace("/home/user/shop", cwd.to_str().unwrap())).unwrap();
    machine.env.run(&["index"]).success();
    let leaving = || run(machine.forward_command(&server.url, &["--dry-run"]), b"").success().lines().count();
    assert_eq!(leaving(), 1);
    let exclude = |pattern: &str| {
        machine.env.write("config/subscope/config.toml", format!("[team]\nexclude = [\"{pattern}\"]\n"));
    };
    exclude(&format!("{}/*", machine.env.root().display()));
    assert_eq!(leaving(), 0, "all below the folder");
    exclude(cwd.to_str().unwrap());
    assert_eq!(leaving(), 0, "the folder");
    exclude("/elsewhere/*");
    assert_eq!(leaving(), 1);
    machine.forward(&server.url, &[]).success();
    assert_eq!(titles(&machine, &server.url).len(), 1);
    fs::write(cwd.join(".subscope/config.toml"), "[team]\nforward = false\n").unwrap();
    machine.forward(&server.url, &[]).success();
    assert_eq!(titles(&machine, &server.url), [], "taken back");
}

#[test]
fn secrets_in_every_text_of_a_transcript_stay_on_the_machine() {
    let Some(team) = Team::start() else { return };
    let server = team.serve();
    let machine = team.machine("one", "ana");
    let samples = secrets(7).concat();
    machine.env.adopt(&recording("2.1.330", "k-big"));
    let place = machine.main_transcript();
    // Each text of the conversation ends with another secret.
    let mut next = samples.iter().cycle();
    let mut used = 0;
    let mut spoil = |value: &mut Value| {
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) if text.contains(' ') => {
                    *text += &format!("\n{}", next.next().unwrap().text);
                    used += 1;
                }
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => open.extend(fields.iter_mut().map(|(_, value)| value)),
                Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    };
    let lines = fs::read_to_string(&place).unwrap();
    let spoiled = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["message"].is_object() {
            spoil(&mut line["message"]["content"]);
        }
        format!("{line}\n")
    });
    let spoiled: String = spoiled.collect();
    fs::write(&place, &spoiled).unwrap();
    assert!(used > 20, "{used}");
    assert!(!left_in(&samples, &spoiled).is_empty(), "they are in the transcript");
    machine.env.run(&["index"]).success();
    for level in ["figures", "titles", "text"] {
        let content = ["--content", level];
        let printed =
            run(machine.forward_command(&server.url, &[&content[..], &["--dry-run"]].concat()), b"")
                .success();
        assert_eq!(left_in(&samples, &printed), [""; 0], "{level}");
    }
    machine.forward(&server.url, &["--content", "text"]).success();
    let id = machine.sessions()[0]["id"].as_str().unwrap().to_owned();
    let tree = machine.ask(&server.url, &["tree", &id, "--json"]).success();
    assert_eq!(left_in(&samples, &tree), [""; 0]);
}

#[test]
fn forwarding_over_tls_wants_a_certificate_that_the_machine_trusts() {
    let Some(team) = Team::start() else { return };
    let made = team.env.command_of("/usr/bin/openssl").args(["version"]).output();
    if !made.is_ok_and(|made| made.status.success()) {
        skip::missing_tool("openssl");
        return;
    }
    // An authority, and a certificate of it for the server.
    let openssl = |arguments: &[&str]| {
        let mut command: Command = team.env.command_of("/usr/bin/openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        command.args(["-days", "36500"]).args(arguments);
        run(command, b"").success();
    };
    openssl(&["-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem"]);
    openssl(&[
        "-subj",
        "/CN=team",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca-key.pem",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]);
    let file = |name: &str| team.env.work().join(name);
    let (authority, cert, key) = (file("ca.pem"), file("cert.pem"), file("key.pem"));
    let mut command = team.serve_command("127.0.0.1:0");
    command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
    let server = Running::start(command);
    let port = server.url.strip_prefix("https://127.0.0.1:").unwrap();
    let machine = team.machine("one", "ana");
    machine.adopt("c-nested");
    for url in [format!("https://127.0.0.1:{port}"), format!("https://localhost:{port}")] {
        let distrusted = machine.forward(&url, &[]);
        assert_eq!(distrusted.code, Some(1), "{distrusted:?}");
        let mut command = machine.forward_command(&url, &["--once"]);
        command.env("SSL_CERT_FILE", &authority);
        let trusted = run(command, b"");
        assert_eq!(trusted.code, Some(0), "{}", trusted.stderr);
    }
    let mut command = machine.ask_command(&server.url, &["ls", "--json"]);
    command.env("SSL_CERT_FILE", &authority);
    let page: Value = serde_json::from_str(&run(command, b"").success()).unwrap();
    assert_eq!(page["sessions"].as_array().unwrap().len(), 1);
    // Plain HTTP is refused at that port.
    assert_eq!(machine.ask(&format!("http://127.0.0.1:{port}"), &["ls"]).code, Some(1));
    // The certificate without its key, and a file that is none.
    let mut wrong = team.serve_command("127.0.0.1:0");
    wrong.arg("--tls-cert").arg(&key).arg("--tls-key").arg(&key);
    let wrong = wrong.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
}
