//! Forwards connections to a hub and records what the clients sent. Only the address is replaced: a hub accepts its own
//! in `Host` and no other.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use anyhow::Result;
use subscope_rig::tick;

/// A recorder; its threads end with the process.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) address: SocketAddr,
    recorded: Arc<Mutex<Recorded>>,
}

#[derive(Debug, Default)]
struct Recorded {
    /// When the first request with the expected text arrived.
    first_spans: Option<Instant>,
    /// The bytes of each connection.
    connections: Vec<Vec<u8>>,
}

impl Recorder {
    /// Starts one in front of a hub. A request with the text `expected` is the first one with spans.
    pub(super) fn start(hub: SocketAddr, expected: String) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let recorded = Arc::new(Mutex::new(Recorded::default()));
        let shared = Arc::clone(&recorded);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that cannot be forwarded sees its connection closed.
                let _ = forward(client, hub, &expected, &shared);
            }
        });
        Ok(Self { address, recorded })
    }

    /// Time of the first request with spans.
    pub(super) fn first_spans(&self) -> Option<Instant> {
        hold(&self.recorded).first_spans
    }

    /// Writes the bytes of each connection to a file of the folder.
    pub(super) fn save(&self, folder: &Path) -> Result<()> {
        for (at, bytes) in hold(&self.recorded).connections.iter().enumerate() {
            fs::write(folder.join(format!("connection-{at}.http")), bytes)?;
        }
        Ok(())
    }
}

/// Connects a client with the hub, in both directions.
fn forward(
    mut client: TcpStream,
    hub: SocketAddr,
    expected: &str,
    recorded: &Arc<Mutex<Recorded>>,
) -> Result<()> {
    let expected = expected.as_bytes().to_vec();
    let mut server = TcpStream::connect(hub)?;
    let (mut answers, mut answered) = (server.try_clone()?, client.try_clone()?);
    let number = {
        let mut recorded = hold(recorded);
        recorded.connections.push(Vec::new());
        recorded.connections.len() - 1
    };
    let recorded = Arc::clone(recorded);
    let [ours, theirs] = [client.local_addr()?, hub].map(|address| address.to_string().into_bytes());
    thread::spawn(move || {
        copy(&mut client, &mut server, |bytes| {
            let mut recorded = hold(&recorded);
            if recorded.first_spans.is_none() && bytes.windows(expected.len()).any(|part| part == expected) {
                recorded.first_spans = Some(tick());
            }
            if let Some(connection) = recorded.connections.get_mut(number) {
                connection.extend_from_slice(bytes);
            }
            replaced(bytes, &ours, &theirs)
        });
        let _ = server.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        copy(&mut answers, &mut answered, <[u8]>::to_vec);
        let _ = answered.shutdown(Shutdown::Write);
    });
    Ok(())
}

/// Replaces a part of a text wherever it occurs.
fn replaced(text: &[u8], part: &[u8], by: &[u8]) -> Vec<u8> {
    let (mut done, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(part.len()).position(|it| it == part) {
        let (before, after) = rest.split_at(at);
        done.extend_from_slice(before);
        done.extend_from_slice(by);
        rest = after.get(part.len()..).unwrap_or_default();
    }
    done.extend_from_slice(rest);
    done
}

/// Copies until either side closes.
fn copy(from: &mut TcpStream, to: &mut TcpStream, mut passed: impl FnMut(&[u8]) -> Vec<u8>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = buffer.get(..count).unwrap_or_default();
        if to.write_all(&passed(bytes)).is_err() {
            return;
        }
    }
}

/// Ignores poisoning: the record stays usable after a panic of another thread.
fn hold(lock: &Mutex<Recorded>) -> MutexGuard<'_, Recorded> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_every_occurrence() {
        assert_eq!(replaced(b"a to b, a to c", b"a to", b"from"), b"from b, from c");
        assert_eq!(replaced(b"nothing", b"a to", b"from"), b"nothing");
    }
}
