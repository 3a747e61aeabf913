//! The peer of the posts: axum, and a writer that puts all bodies that wait into one commit. It does not parse them and
//! answers no queries.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::Command,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::server::Server;

/// The argument that makes this bench be that server.
pub(crate) const WORD: &str = "bare-server";

/// The argument that makes this bench post its stdin to the hub of `HOME`, and do nothing else.
pub(crate) const HOOK: &str = "bare-hook";

/// The most bodies of one commit, as many as the product takes.
const GROUP: usize = 256;

type Waiting = (Bytes, oneshot::Sender<()>);

/// Starts it in a process of its own.
pub(crate) fn start(folder: &Path) -> Server {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(WORD).arg(folder);
    Server::start(command)
}

/// Serves until it is killed.
pub(crate) fn serve(folder: &Path) {
    let (sender, bodies) = sync_channel(1024);
    let db = Connection::open(folder.join("bare.db")).expect("a database");
    db.pragma_update(None, "journal_mode", "WAL").expect("a log");
    db.pragma_update(None, "synchronous", "NORMAL").expect("a setting");
    db.execute("CREATE TABLE inbox(no INTEGER PRIMARY KEY, body BLOB NOT NULL)", []).expect("a table");
    thread::spawn(move || write(db, &bodies));
    let app = Router::new().route("/subagent-events", post(take)).with_state(sender);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        writeln!(std::io::stdout(), "http://{address}").expect("stdout");
        axum::serve(listener, app).await.expect("it serves");
    });
}

async fn take(State(writer): State<SyncSender<Waiting>>, body: Bytes) -> StatusCode {
    let (sender, kept) = oneshot::channel();
    if writer.try_send((body, sender)).is_err() || kept.await.is_err() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    StatusCode::OK
}

fn write(mut db: Connection, bodies: &Receiver<Waiting>) {
    while let Ok(first) = bodies.recv() {
        let mut group = vec![first];
        group.extend(bodies.try_iter().take(GROUP - 1));
        let commit = db.transaction().expect("a transaction");
        for (body, _) in &group {
            let mut add = commit.prepare_cached("INSERT INTO inbox(body) VALUES(?1)").expect("a statement");
            add.execute([&body[..]]).expect("a row");
        }
        commit.commit().expect("a commit");
        for (_, kept) in group {
            // The client may have disconnected.
            let _ = kept.send(());
        }
    }
}

/// Posts and reads the answer.
pub(crate) fn hook() {
    let home = std::env::var_os("HOME").expect("a home");
    let socket = Path::new(&home).join(".local/share/subscope/hub.sock");
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body).expect("stdin");
    let head = format!(
        "POST /hooks/claude HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = UnixStream::connect(socket).expect("a hub");
    stream.write_all(&[head.as_bytes(), &body].concat()).expect("a post");
    let mut answer = [0; 4096];
    let count = stream.read(&mut answer).expect("an answer");
    assert!(answer[..count].starts_with(b"HTTP/1.1 200"), "it was not taken");
}
