//! Tests of the publisher with a real hub, and with servers that refuse, hang, close or die.

#![allow(clippy::unwrap_used)]

#[path = "../examples/agent.rs"]
#[allow(dead_code, reason = "its main is run by whoever tries it")]
mod agent;
mod common;

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::ffi::OsStrExt,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::Duration,
};

use common::{Running, folder};
use subscope_client::{
    Queries as _,
    publish::{ADDRESS_VARIABLE, Cause, Event, EventKind, PublishError, Published, Publisher},
};
use subscope_model::{AgentId, SessionId};
use subscope_server::Timeouts;
use subscope_testkit::address::RefusingAddress;

fn event(run: &str, kind: EventKind) -> Event {
    Event::new("worker", run, kind)
}

fn call(run: &str, id: &str) -> Event {
    event(run, EventKind::ToolCall).with_tool("Read", id).with_payload("{}")
}

fn to(address: SocketAddr) -> Publisher {
    Publisher::to(&format!("http://{address}")).unwrap()
}

fn cause(error: PublishError) -> Cause {
    let PublishError::Undelivered { cause, .. } = error else { panic!("{error}") };
    cause
}

/// Reads one request; returns its body, or `None` at the end of the connection.
fn request(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(String::from_utf8(body).unwrap())
}

/// Response behavior of a fake server.
#[derive(Clone, Copy, PartialEq)]
enum FakeResponse {
    Answers(&'static str),
    /// Answers and closes without `connection: close`.
    AnswersAndCloses(&'static str),
    /// Reads the request and closes.
    Closes,
    Hangs,
}

const YES: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// A fake server whose behavior depends on the number of the connection and of its request; it records request bodies.
struct FakeServer {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl FakeServer {
    fn start(does: impl Fn(usize, &str) -> FakeResponse + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (bodies, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (kept, count, does) = (Arc::clone(&bodies), Arc::clone(&connections), Arc::new(does));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (kept, does) = (Arc::clone(&kept), Arc::clone(&does));
                thread::spawn(move || {
                    let mut answers = stream.try_clone().unwrap();
                    let mut reader = BufReader::new(stream);
                    while let Some(body) = request(&mut reader) {
                        let does = does(number, &body);
                        kept.lock().unwrap().push(body);
                        match does {
                            FakeResponse::Answers(answer) => answers.write_all(answer.as_bytes()).unwrap(),
                            FakeResponse::AnswersAndCloses(answer) => {
                                answers.write_all(answer.as_bytes()).unwrap();
                                return;
                            }
                            FakeResponse::Closes => return,
                            FakeResponse::Hangs => thread::sleep(Duration::from_secs(60)),
                        }
                    }
                });
            }
        });
        Self { address, bodies, connections }
    }

    fn bodies(&self) -> Vec<Event> {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

#[test]
fn life_of_a_subagent_becomes_its_tree_on_one_connection() {
    let folder = folder();
    let running = Running::start(folder.path(), Timeouts::default());
    let publisher = to(running.tcp);
    let child = |kind| event("child", kind).with_parent_run_id("lead").with_depth(2);
    for event in [
        event("lead", EventKind::SubagentStart).with_payload("Do \"it\".\n"),
        child(EventKind::SubagentStart).with_payload("Find it."),
        child(EventKind::ToolCall).with_tool("grep", "t1").with_json(&serde_json::json!({"q": "x"})),
        child(EventKind::ToolResult).with_tool("grep", "t1").with_payload("none").with_is_error(true),
        child(EventKind::SubagentEnd).with_payload("nothing found"),
        event("lead", EventKind::SubagentEnd),
    ] {
        assert!(matches!(publisher.publish(&event), Ok(Published::Delivered)), "{event:?}");
        // An event posted twice is stored once.
        assert!(matches!(publisher.publish(&event), Ok(Published::Delivered)), "{event:?}");
    }
    let tree = running.client().tree(&"events:lead".into()).unwrap().unwrap();
    let rows: Vec<_> = tree
        .agents
        .iter()
        .map(|row| (row.id.as_str(), row.parent_id.as_ref().map(AgentId::as_str), row.status.as_str()))
        .collect();
    let expected =
        [("root", None, "running"), ("lead", Some("root"), "completed"), ("child", Some("lead"), "failed")];
    assert_eq!(rows[1..], expected[1..]);
    assert_eq!((tree.agents[2].tool_calls, tree.agents[2].tool_errors), (1, 1));
    assert_eq!(tree.agents[2].error.as_deref(), Some("nothing found"));
}

#[test]
fn connection_is_kept_and_connected_anew_where_the_server_closed_it() {
    // A second connection would be closed after each response: the assertion shows that none is opened.
    let server = FakeServer::start(|number, _| match number {
        0 => FakeResponse::Answers(YES),
        _ => FakeResponse::AnswersAndCloses(YES),
    });
    let publisher = to(server.address);
    for id in 0..20 {
        publisher.publish(&call("r", &id.to_string())).unwrap();
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    // Closed while the event is in flight: it is posted again under the same id.
    let server = FakeServer::start(|number, body| match number {
        0 if body.contains("\"1\"") => FakeResponse::Closes,
        _ => FakeResponse::Answers(YES),
    });
    let publisher = to(server.address);
    for id in 0..3 {
        publisher.publish(&call("r", &id.to_string())).unwrap();
    }
    let bodies = server.bodies();
    let calls: Vec<_> = bodies.iter().map(|event| event.tool_call_id.as_deref().unwrap()).collect();
    assert_eq!(calls, ["0", "1", "1", "2"]);
    assert_eq!(bodies[1].event_id, bodies[2].event_id);
    assert!(bodies[1].event_id.is_some() && bodies[0].event_id != bodies[1].event_id);
}

#[test]
fn every_status_of_success_is_one_and_every_other_names_itself() {
    let server = FakeServer::start(|_, body| {
        let status = |word: &str| body.contains(&format!("\"{word}\""));
        FakeResponse::Answers(match () {
            () if status("200") => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            () if status("201") => {
                "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
            }
            () if status("202") => {
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
            }
            () if status("400") => {
                "HTTP/1.1 400 Bad Request\r\ncontent-length: 25\r\n\r\n{\"error\":\"type\\nis  odd\"} "
            }
            () if status("302") => {
                "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n"
            }
            () => "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 8\r\n\r\non\nfire\n",
        })
    });
    let publisher = to(server.address);
    for status in ["200", "201", "202"] {
        assert!(matches!(publisher.publish(&call("good", status)), Ok(Published::Delivered)), "{status}");
    }
    for (status, message) in [
        ("400", "the answer is 400: type is odd"),
        ("500", "the answer is 500: on fire"),
        ("302", "the answer is 302"),
    ] {
        let error = publisher.publish(&call(status, status)).unwrap_err();
        let expected = format!(
            "tool_call Read ({status}) of run {status} (worker) could not be delivered to http://{}/subagent-events: {message}",
            server.address
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn dead_address_aborts_the_run_and_only_warns_at_its_end() {
    let nobody = RefusingAddress::default();
    let publisher = to(nobody.address());
    let error = publisher.publish(&call("r", "t")).unwrap_err();
    let name = error.event().unwrap();
    assert_eq!(
        (name.kind, name.subagent_run_id.as_str(), name.tool_name.as_deref()),
        (EventKind::ToolCall, "r", Some("Read"))
    );
    let first = error.to_string();
    assert!(matches!(cause(error), Cause::Connect(_)));
    let aborted = cause(publisher.publish(&event("r", EventKind::ThoughtTrace)).unwrap_err());
    assert!(matches!(&aborted, Cause::Aborted(why) if *why == first), "{aborted}");
    let ended = publisher.publish(&event("r", EventKind::SubagentEnd)).unwrap();
    let warning = ended.warning().unwrap().to_string();
    assert!(warning.starts_with("subagent_end of run r (worker) could not be delivered"), "{warning}");
    assert!(warning.contains("cannot connect"), "{warning}");
}

#[test]
fn server_that_hangs_is_given_up_and_who_waits_in_the_run_fails_with_it() {
    let server = FakeServer::start(|_, body| {
        if body.contains("slow") { FakeResponse::Hangs } else { FakeResponse::Answers(YES) }
    });
    let publisher = to(server.address);
    let (slow, other) = (publisher.clone(), publisher.clone());
    let (begun, has_begun) = sync_channel(2);
    let waiting: Vec<_> = (0..2)
        .map(|id| {
            let (publisher, begun) = (slow.clone(), begun.clone());
            thread::spawn(move || {
                begun.send(()).unwrap();
                cause(publisher.publish(&call("slow again", &id.to_string())).unwrap_err())
            })
        })
        .collect();
    has_begun.recv().unwrap();
    has_begun.recv().unwrap();
    // Another run continues meanwhile.
    for id in 0..50 {
        other.publish(&call("sibling", &id.to_string())).unwrap();
    }
    let causes: Vec<_> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
    let late = causes.iter().filter(|cause| matches!(cause, Cause::TimedOut(limit) if limit.as_secs() == 5));
    let aborted = causes.iter().filter(|cause| matches!(cause, Cause::Aborted(_)));
    assert_eq!((late.count(), aborted.count()), (1, 1), "{causes:?}");
}

#[test]
fn bytes_that_trickle_do_not_prolong_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Ends when the publisher disconnects; far more bytes than can be sent within the limit.
        while stream.write_all(b"H").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let error = to(address).publish(&call("r", "t")).unwrap_err();
    assert!(matches!(cause(error), Cause::TimedOut(_)));
}

#[test]
fn server_that_dies_ends_the_run_under_way_and_others_go_on_with_the_next() {
    let folder = folder();
    let running = Running::start(folder.path(), Timeouts::default());
    let publisher = to(running.tcp);
    publisher.publish(&event("first", EventKind::SubagentStart)).unwrap();
    publisher.publish(&event("second", EventKind::SubagentStart)).unwrap();
    let address = running.tcp;
    drop(running);
    let error = publisher.publish(&call("first", "t1")).unwrap_err();
    assert!(error.to_string().starts_with("tool_call Read (t1) of run first (worker)"), "{error}");
    assert!(matches!(cause(error), Cause::Connect(_)));
    // A new listener on the port gets the other run's events.
    let next = Running::start_at(folder.path(), Timeouts::default(), address);
    publisher.publish(&call("second", "t2")).unwrap();
    assert!(matches!(cause(publisher.publish(&call("first", "t3")).unwrap_err()), Cause::Aborted(_)));
    assert!(publisher.publish(&event("first", EventKind::SubagentEnd)).unwrap().warning().is_none());
    let tree = next.client().tree(&"events:second".into()).unwrap().unwrap();
    assert_eq!(tree.agents[1].tool_calls, 1);
}

#[test]
fn spooled_run_stays_spooled_in_order_and_what_cannot_be_spooled_aborts() {
    let server = FakeServer::start(|_, body| {
        if body.contains("\"bad\"") {
            FakeResponse::Answers("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n")
        } else {
            FakeResponse::Answers(YES)
        }
    });
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let publisher = to(server.address).with_spool(move |event| {
        keep.lock().unwrap().push(event.to_vec());
        Ok(())
    });
    publisher.publish(&call("r", "good")).unwrap();
    let first = publisher.publish(&call("r", "bad")).unwrap();
    assert!(first.warning().unwrap().to_string().contains("503"), "{first:?}");
    for id in ["later", "last"] {
        assert!(matches!(publisher.publish(&call("r", id)), Ok(Published::Spooled(None))));
    }
    assert!(matches!(publisher.publish(&event("r", EventKind::SubagentEnd)), Ok(Published::Spooled(None))));
    assert!(matches!(publisher.publish(&call("other", "good")), Ok(Published::Delivered)));
    let kept: Vec<Event> =
        kept.lock().unwrap().iter().map(|body| serde_json::from_slice(body).unwrap()).collect();
    let calls: Vec<_> = kept.iter().map(|event| event.tool_call_id.as_deref()).collect();
    assert_eq!(calls, [Some("bad"), Some("later"), Some("last"), None]);

    let nobody = RefusingAddress::default();
    let full = to(nobody.address()).with_spool(|_| Err(std::io::Error::other("the disk is full")));
    let error = full.publish(&call("r", "t")).unwrap_err().to_string();
    assert!(
        error.contains("cannot connect") && error.ends_with("it cannot be spooled: the disk is full"),
        "{error}"
    );
    assert!(matches!(full.publish(&event("r", EventKind::SubagentEnd)), Ok(Published::Undelivered(_))));
}

#[test]
fn nothing_is_published_where_no_address_is_set() {
    let publisher = Publisher::off();
    assert!(!publisher.is_on());
    assert!(matches!(publisher.publish(&call("r", "t")), Ok(Published::Off)));
    let error = Publisher::to("http://example.com:80").unwrap_err().to_string();
    assert!(
        error.starts_with("nothing can be posted to \"http://example.com:80\": its host is not this machine"),
        "{error}"
    );
}

#[test]
fn address_is_what_the_variable_says() {
    // In child processes, since environment variables are process-wide.
    const EXPECTED: &str = "SUBSCOPE_TEST_EXPECTED";
    if let Ok(expected) = std::env::var(EXPECTED) {
        let told = match Publisher::from_env() {
            Ok(publisher) => if publisher.is_on() { "on" } else { "off" }.to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(told.contains(&expected), "{told}, and not {expected}");
        return;
    }
    let odd = OsStr::from_bytes(b"http://127.0.0.1:1/\xff");
    for (address, expected) in [
        (None, "off"),
        (Some(OsStr::new("")), "off"),
        (Some(OsStr::new("http://127.0.0.1:1")), "on"),
        (Some(OsStr::new("http://10.0.0.1:1")), "its host is not this machine"),
        (Some(odd), "CPE_SUBAGENT_LOGGING_ADDRESS is not UTF-8 text"),
    ] {
        let mut itself = Command::new(std::env::current_exe().unwrap());
        itself.args(["--exact", "address_is_what_the_variable_says"]).env(EXPECTED, expected);
        itself.env_remove(ADDRESS_VARIABLE).envs(address.map(|address| (ADDRESS_VARIABLE, address)));
        let ran = itself.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{address:?} {said}");
    }
}

#[test]
fn events_of_one_run_come_in_the_order_in_which_they_are_published() {
    let server = FakeServer::start(|_, _| FakeResponse::Answers(YES));
    let publisher = to(server.address);
    thread::scope(|scope| {
        for run in 0..8 {
            let publisher = publisher.clone();
            scope.spawn(move || {
                for id in 0..40 {
                    publisher.publish(&call(&run.to_string(), &format!("{id:02}"))).unwrap();
                }
            });
        }
    });
    let events = server.bodies();
    assert_eq!(events.len(), 320);
    for run in 0..8 {
        let own = events.iter().filter(|event| event.subagent_run_id == run.to_string());
        assert!(own.map(|event| &event.tool_call_id).is_sorted());
    }
    assert!(server.connections.load(Ordering::SeqCst) <= 8);
}

#[test]
fn example_publishes_the_life_of_its_subagents() {
    let folder = folder();
    let running = Running::start(folder.path(), Timeouts::default());
    let publisher = to(running.tcp);
    let file = folder.path().join("three.txt");
    std::fs::write(&file, "1\n2\n3\n").unwrap();
    for path in [file.to_str().unwrap(), "not there"] {
        agent::count_lines(&publisher, path).unwrap();
        let session = SessionId::from_outside(&format!("events:counter-{}-{path}", std::process::id()));
        let tree = running.client().tree(&session).unwrap().unwrap();
        let row = &tree.agents[1];
        let expected = if path == "not there" { ("failed", 1, 1) } else { ("completed", 1, 0) };
        assert_eq!((row.status.as_str(), row.tool_calls, row.tool_errors), expected);
        assert_eq!((row.name.as_deref(), row.open_tools), (Some("counter"), 0));
    }
    let nobody = RefusingAddress::default();
    let error = agent::count_lines(&to(nobody.address()), "not there").unwrap_err();
    assert_eq!(error.event().unwrap().kind, EventKind::SubagentStart);
}
