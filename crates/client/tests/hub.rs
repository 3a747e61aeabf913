//! Tests of the client with a real hub, over Unix socket and TCP, and with fake servers.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{LIMIT, Running, VERSION, folder};
use subscope_client::{Address, Client, ClientError, Fit, ListQuery, LiveFeed, Queries, QueryError};
use subscope_hub::clock;
use subscope_model::{
    AgentId, EventKind, Feed, FeedItem, HubMode, LiveView, SearchQuery, SessionId, StatsQuery, Text, Update,
    Zone,
};
use subscope_server::Timeouts;

/// Ingests a tool call of the root agent.
fn call(client: &mut Client, session: &str, id: &str) {
    let body = format!(
        r#"{{"session_id":"{session}","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"{id}","tool_input":{{"file_path":"/x"}}}}"#
    );
    client.post("/hooks/claude", body.as_bytes()).unwrap();
}

fn begin_agent(client: &mut Client, run: &str) {
    let body = format!(
        r#"{{"subagentName":"w","subagentRunId":"{run}","sessionId":"s/ü","timestamp":{},"type":"subagent_start"}}"#,
        clock::now_ms()
    );
    client.post("/subagent-events", body.as_bytes()).unwrap();
}

#[test]
fn questions_are_answered_over_both_doors() {
    let folder = folder();
    let running = Running::start(folder.path(), Timeouts::default());
    for address in running.addresses() {
        let mut client = Client::connect(address).unwrap();
        let health = client.health().unwrap();
        assert_eq!((&*health.version, health.mode), (VERSION, HubMode::Background));
        assert_eq!((health.pid, &*health.url), (std::process::id(), &*format!("http://{}", running.tcp)));
        assert_eq!(Fit::of(VERSION, &health), Fit { is_older: false, can_talk: true });
        call(&mut client, "a-1", "t1");
        call(&mut client, "a-2", "t1");
        // Ids may contain characters that are special in a path.
        begin_agent(&mut client, "run 1");
        let strange = SessionId::from("s/ü");
        let tree = client.tree(&strange).unwrap().unwrap();
        assert_eq!(tree.session.id, strange);
        assert_eq!(client.tree(&SessionId::from("nobody")).unwrap(), None);
        let agent = tree.agents.iter().find(|row| !row.id.is_root()).unwrap();
        let found = client.agent(Some(&strange), &agent.id).unwrap().unwrap();
        assert_eq!((&found.session, &found.agent), (&tree.session, agent));
        assert_eq!(client.agent(None, &AgentId::from("nobody")).unwrap(), None);
        let ambiguous = client.agent(None, &AgentId::from(AgentId::ROOT));
        let Err(QueryError::Failed(error)) = ambiguous else { panic!("{ambiguous:?}") };
        let error = error.downcast_ref::<ClientError>();
        assert!(matches!(error, Some(ClientError::Refused { status: 409, .. })), "{error:?}");
        let names = client.names("a-", 5).unwrap();
        let mut sessions: Vec<&str> = names.sessions.iter().map(SessionId::as_str).collect();
        sessions.sort_unstable();
        assert_eq!(sessions, ["a-1", "a-2"]);
        assert_eq!(client.names("run", 5).unwrap().agents[0].session_id, strange);
        let first = client.sessions(&ListQuery::first(2)).unwrap();
        let after = first.next.as_deref().and_then(ListQuery::cursor);
        let rest = client.sessions(&ListQuery { after, ..ListQuery::first(usize::MAX) }).unwrap();
        assert_eq!((first.sessions.len(), rest.sessions.len(), rest.next), (2, 1, None));
        let live = client.sessions(&ListQuery::live(100)).unwrap();
        assert_eq!(live.sessions.len(), 3);
        let status = client.status(None, 0).unwrap();
        assert_eq!((status.sessions, status.running), (3, 1));
        assert_eq!(client.status(Some(&SessionId::from("a-1")), 0).unwrap().running, 0);
        assert_eq!(client.stats(&StatsQuery::default()).unwrap().total.sessions, 3);
        for name in ["UTC", "America/New_York", "XST+9:30", "<+02>-2"] {
            let time_zone = Zone::named(name);
            let stats = client.stats(&StatsQuery { time_zone, ..StatsQuery::default() }).unwrap();
            assert_eq!((stats.time_zone, stats.total.sessions), (name.into(), 3));
        }
        let query = SearchQuery { terms: vec!["x".to_owned()], limit: 5, ..SearchQuery::default() };
        assert!(matches!(client.search(&query), Err(QueryError::NoFullText)));
    }
}

#[test]
fn connection_that_the_hub_closed_is_opened_again() {
    let folder = folder();
    let head = Duration::from_millis(100);
    let running = Running::start(folder.path(), Timeouts { head, ..Timeouts::default() });
    let mut client = running.client();
    for _ in 0..3 {
        assert_eq!(&*client.health().unwrap().status, "ok");
        std::thread::sleep(head * 3);
    }
}

/// State of a feed reader.
#[derive(Default)]
struct Reader {
    view: LiveView,
    events: Vec<Text>,
    seqs: Vec<u64>,
    calls: Vec<String>,
    missed: u64,
    is_reset: bool,
    is_caught_up: bool,
}

impl Reader {
    /// Reads the feed until a condition holds.
    fn until(&mut self, feed: &mut dyn Feed, is_it: impl Fn(&Self) -> bool) {
        let began = clock::tick();
        while !is_it(self) {
            assert!(began.elapsed() < LIMIT, "{:?} {:?}", self.calls, self.seqs);
            match feed.next(Duration::from_millis(100)) {
                FeedItem::Update(update) => self.take(update),
                FeedItem::Idle => {}
                FeedItem::Closed => panic!("a feed that outlives hubs has ended"),
            }
        }
    }

    /// Number of rows of the test's session.
    fn rows(&self) -> usize {
        self.view.get(&"s/ü".into()).map_or(0, |tree| tree.agents.len())
    }

    fn take(&mut self, update: Update) {
        match update {
            Update::Snapshot(_) | Update::Change(_) => self.view.apply(update),
            Update::Event(event) => {
                assert_ne!(event.kind, EventKind::Heartbeat);
                if event.kind == EventKind::ToolPre {
                    self.calls.push(event.text("tool_use_id").unwrap().to_owned());
                }
                self.events.push(event.id.clone());
                self.seqs.push(event.seq);
            }
            Update::Missed(count) => self.missed += count,
            Update::Reset => self.is_reset = true,
            Update::CaughtUp => self.is_caught_up = true,
        }
    }
}

#[test]
fn feed_has_snapshots_then_changes_and_is_the_tree() {
    let folder = folder();
    let running = Running::start(folder.path(), Timeouts::default());
    let mut client = running.client();
    call(&mut client, "s/ü", "t0");
    let socket = Address::Socket(running.socket.clone());
    let mut feed = LiveFeed::open(Box::new(move || Client::connect(socket.clone()))).unwrap();
    let mut reader = Reader::default();
    reader.until(&mut feed, |reader| reader.is_caught_up);
    assert_eq!((reader.rows(), reader.events.len()), (1, 0), "what was before is rows");
    begin_agent(&mut client, "r");
    call(&mut client, "s/ü", "t1");
    reader.until(&mut feed, |reader| reader.calls == ["t1"] && reader.rows() == 2);
    let tree = feed.tree(&SessionId::from("s/ü")).unwrap();
    // Heartbeats arrive meanwhile; they are not events of a session.
    std::thread::sleep(Duration::from_millis(200));
    reader.until(&mut feed, |reader| reader.view.get(&tree.session.id) == Some(&tree));
    assert_eq!(feed.tree(&SessionId::from("nobody")), None);
}

#[test]
fn feed_goes_on_with_the_next_hub_without_gap_or_repeat() {
    let folder = folder();
    let path = folder.path().to_owned();
    let hub: Arc<Mutex<Option<Running>>> = Arc::default();
    let own = Arc::clone(&hub);
    let connect = move || {
        let mut hub = own.lock().unwrap();
        hub.get_or_insert_with(|| Running::start(&path, Timeouts::default())).client()
    };
    let again = connect.clone();
    let mut feed = LiveFeed::open(Box::new(move || Ok(again()))).unwrap();
    let mut reader = Reader::default();
    let mut wanted: Vec<String> = Vec::new();
    for round in 0..5 {
        let mut client = connect();
        for number in 0..7 {
            let id = format!("t{round}-{number}");
            call(&mut client, "s", &id);
            wanted.push(id);
        }
        drop(client);
        // The hub exits before it has sent all updates.
        let told = wanted.len() - 4;
        reader.until(&mut feed, |reader| reader.calls.len() >= told);
        drop(hub.lock().unwrap().take());
    }
    reader.until(&mut feed, |reader| reader.calls.len() >= wanted.len());
    assert_eq!(reader.calls, wanted);
    assert!(reader.seqs.is_sorted_by(|one, other| one < other), "{:?}", reader.seqs);
    assert_eq!((reader.missed, reader.is_reset), (0, false));
}

#[test]
fn feed_that_finds_another_log_is_told_that_something_is_missing() {
    let (one, other) = (folder(), folder());
    let hub: Arc<Mutex<Option<Running>>> =
        Arc::new(Mutex::new(Some(Running::start(one.path(), Timeouts::default()))));
    let (own, path) = (Arc::clone(&hub), other.path().to_owned());
    let connect = move || {
        let mut hub = own.lock().unwrap();
        let running = hub.get_or_insert_with(|| Running::start(&path, Timeouts::default()));
        Ok(running.client())
    };
    let mut feed = LiveFeed::open(Box::new(connect)).unwrap();
    let mut reader = Reader::default();
    let mut client = hub.lock().unwrap().as_ref().unwrap().client();
    for number in 0..5 {
        call(&mut client, "s", &format!("t{number}"));
    }
    reader.until(&mut feed, |reader| reader.calls.len() == 5);
    drop(client);
    drop(hub.lock().unwrap().take());
    reader.until(&mut feed, |reader| reader.is_reset);
    assert_eq!(reader.missed, 0, "nobody knows how many");
    let mut client = hub.lock().unwrap().as_ref().unwrap().client();
    call(&mut client, "s", "new");
    reader.until(&mut feed, |reader| reader.calls.last().is_some_and(|id| id == "new"));
}

#[test]
fn hub_that_is_asked_to_leave_leaves() {
    let folder = folder();
    let running = Running::start(folder.path(), Timeouts::default());
    let mut client = running.client();
    call(&mut client, "s", "t");
    client.drain().unwrap();
    let began = clock::tick();
    while Client::connect(Address::Socket(running.socket.clone())).is_ok() {
        assert!(began.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(running);
    // Ingested input is available to the next hub.
    let running = Running::start(folder.path(), Timeouts::default());
    assert!(running.client().tree(&SessionId::from("s")).unwrap().is_some());
}

#[test]
#[cfg(unix)]
fn nobody_somebody_else_and_nonsense_are_told_apart() {
    use std::{
        fs,
        io::{Read as _, Write as _},
        os::unix::{fs::PermissionsExt as _, net::UnixListener},
    };

    let folder = folder();
    let socket = folder.path().join("hub.sock");
    let connect = || Client::connect(Address::Socket(socket.clone()));
    assert!(matches!(connect(), Err(ClientError::Unreachable { .. })));
    let listener = UnixListener::bind(&socket).unwrap();
    // A request on a broken connection is repeated over a new one.
    let answers: [(&[u8], usize); 6] = [
        (b"", 2),
        (b"SSH-2.0-x\r\n\r\n", 2),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", 2),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\"x\"", 1),
        (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 16\r\n\r\n{\"error\":\"busy\"}", 1),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 1),
    ];
    let answering = std::thread::spawn(move || {
        for (answer, times) in answers {
            for _ in 0..times {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
                stream.write_all(answer).unwrap();
            }
        }
    });
    for _ in 0..3 {
        assert!(matches!(connect().unwrap().health(), Err(ClientError::Broken(_))));
    }
    assert!(matches!(connect().unwrap().health(), Err(ClientError::Garbled(_))));
    match connect().unwrap().health() {
        Err(ClientError::Refused { status: 503, message }) => assert_eq!(message, "busy"),
        other => panic!("{other:?}"),
    }
    // A hub without version and protocol counts as older than any, with no common protocol.
    let health = connect().unwrap().health().unwrap();
    assert_eq!(Fit::of("0.0.1", &health), Fit { is_older: true, can_talk: false });
    answering.join().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(connect(), Err(ClientError::Untrusted(..))));
}

#[test]
#[cfg(unix)]
fn feed_is_read_however_it_is_cut() {
    use std::{
        io::{Read as _, Write as _},
        os::unix::net::UnixListener,
    };

    let folder = folder();
    let socket = folder.path().join("hub.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let messages = [
        ": hi\n\n",
        "event: missed\ndata: {\"schema\":\"subscope.missed/1\",\"count\":7,\"after\":1}\n\n",
        "event: caught-up\ndata: {}\n\n",
    ];
    let serving = std::thread::spawn(move || {
        // One connection for queries, one for the feed.
        let (_questions, _) = listener.accept().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        let mut text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        for message in messages {
            text += &format!("{:x}\r\n{message}\r\n", message.len());
        }
        for byte in text.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        stream
    });
    let mut feed =
        LiveFeed::open(Box::new(move || Client::connect(Address::Socket(socket.clone())))).unwrap();
    let mut reader = Reader::default();
    reader.until(&mut feed, |reader| reader.is_caught_up);
    assert_eq!(reader.missed, 7);
    drop(serving.join().unwrap());
}
