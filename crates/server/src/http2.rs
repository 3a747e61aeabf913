//! Tells HTTP/2 from HTTP/1.1 by the first bytes of a connection.

use std::{io, time::Duration};

use tokio::{net::TcpStream, time::sleep};

/// Begin of each HTTP/2 connection (RFC 9113, section 3.4); no method of HTTP/1.1 begins so.
const PREFACE: &[u8; 4] = b"PRI ";

/// Interval of looking for the rest of a preface that arrives in parts.
const PEEK_INTERVAL: Duration = Duration::from_millis(5);

/// Waits for the first bytes, which stay unread; returns whether they begin an HTTP/2 connection.
///
/// # Errors
///
/// The connection failed.
pub(crate) async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut start).await?;
        if length == 0 || !PREFACE.starts_with(&start[..length]) {
            return Ok(false);
        }
        if length == PREFACE.len() {
            return Ok(true);
        }
        // The socket stays readable because of the bytes seen.
        sleep(PEEK_INTERVAL).await;
    }
}
