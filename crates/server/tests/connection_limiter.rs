//! Any number of idle connections that send or read nothing must not block other clients.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};

use common::{Running, call, exchange, start_patient};

/// More than the connection limit.
const MANY: usize = 450;

/// Queries, posts and sends hooks several times, as another client.
fn is_served(server: &Running) {
    for number in 0..5 {
        assert_eq!(server.get("/healthz").status, 200);
        assert_eq!(server.post("/hooks/claude", call("s", &format!("t{number}"))).status, 200);
        let request = "GET /api/v1/sessions HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n";
        assert_eq!(exchange(server.connect_socket(), request.as_bytes()).status, 200);
    }
}

#[test]
fn heads_that_never_end_keep_nobody_out() {
    let server = start_patient();
    let slow: Vec<_> = (0..MANY)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").unwrap();
            stream
        })
        .collect();
    is_served(&server);
    drop(slow);
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let server = start_patient();
    let by_tcp: Vec<_> = (0..MANY / 2).map(|_| server.connect()).collect();
    let by_socket: Vec<_> = (0..MANY / 2).map(|_| server.connect_socket()).collect();
    is_served(&server);
    drop((by_tcp, by_socket));
}

#[test]
fn bodies_that_stop_keep_nobody_out_and_are_told_so() {
    let server = start_patient();
    let head = format!(
        "POST /hooks/claude HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        server.address
    );
    let mut slow: Vec<_> = (0..MANY)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    is_served(&server);
    // Evicted connections, longest idle first, get an error response.
    let told = slow.iter_mut().filter_map(|stream| {
        stream.set_nonblocking(true).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).ok().map(|()| answer)
    });
    let told: Vec<_> = told.collect();
    assert!(told.len() >= MANY - 384 && told.iter().all(|answer| answer == b"HTTP/1.1 408"), "{told:?}");
}

#[test]
fn readers_that_do_not_read_keep_nobody_out() {
    let server = start_patient();
    let address = server.address;
    let stuck: Vec<_> = (0..MANY)
        .map(|_| {
            let mut stream = server.connect();
            write!(stream, "GET /api/v1/live HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
            stream
        })
        .collect();
    is_served(&server);
    // An active connection is not evicted.
    let mut kept = server.connect();
    for _ in 0..3 {
        write!(kept, "GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        kept.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        // The remaining bytes are read with the next response.
        let mut rest = [0; 4096];
        assert!(kept.read(&mut rest).unwrap() > 0);
    }
    drop(stuck);
}
