//! The hub's side of a loopback socket.
#![cfg_attr(test, allow(unreachable_pub, reason = "other systems than Windows have it for its tests alone"))]

use std::{fs, sync::Arc, thread};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net, time,
};

use super::*;
use crate::OpenPolicy as _;

/// How long a client may take to send its secret.
const GREETING_LIMIT: Duration = Duration::from_secs(2);

/// Attempts to take the lock, and the time between two: a client that looks whether somebody listens holds it for a moment.
const LOCK_ATTEMPTS: usize = 10;
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// A bound local socket; dropping it removes its file.
pub struct LocalListener {
    listener: net::TcpListener,
    known: Arc<LoopbackFile>,
    path: PathBuf,
    _lock: File,
}

/// An accepted connection, whose client has not shown yet whose it is.
pub struct LocalConnection {
    stream: net::TcpStream,
    known: Arc<LoopbackFile>,
}

impl LocalListener {
    /// Listens at a path in a private folder, in place of what a killed hub has left there.
    ///
    /// # Errors
    /// Errors of the operating system; [`io::ErrorKind::AddrInUse`] if another process listens there.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        let lock = take_lock(&lock_file(path))?;
        let listener = net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let known = LoopbackFile { port, client: secret()?, hub: secret()? };
        let new = with_ending(path, ".new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).private().open(&new)?;
        file.write_all(format!("{port} {} {}\n", known.client, known.hub).as_bytes())?;
        drop(file);
        fs::rename(&new, path)?;
        Ok(Self { listener, known: known.into(), path: path.to_owned(), _lock: lock })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub async fn accept(&self) -> io::Result<LocalConnection> {
        let (stream, _) = self.listener.accept().await?;
        Ok(LocalConnection { stream, known: Arc::clone(&self.known) })
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        // The lock is still held: the file is ours. The next hub replaces one that is left over.
        let _ = fs::remove_file(&self.path);
    }
}

impl LocalConnection {
    /// Returns the connection if its client is this user's.
    ///
    /// # Errors
    /// The connection if it is another's, or sent nothing in time.
    pub async fn of_this_user(self) -> Result<net::TcpStream, net::TcpStream> {
        let Self { mut stream, known } = self;
        let greeting = async {
            stream.set_nodelay(true)?;
            let mut sent = [0; SECRET_DIGITS];
            stream.read_exact(&mut sent).await?;
            if !is_equal(&sent, known.client.as_bytes()) {
                return Ok(false);
            }
            stream.write_all(known.hub.as_bytes()).await.map(|()| true)
        };
        let is_known: io::Result<bool> =
            time::timeout(GREETING_LIMIT, greeting).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
        if matches!(is_known, Ok(true)) { Ok(stream) } else { Err(stream) }
    }
}

fn take_lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).private().open(path)?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

fn secret() -> io::Result<String> {
    let mut bytes = [0; SECRET_DIGITS / 2];
    crate::random_bytes(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use tokio::{runtime::Runtime, task};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// Accepts one connection, and answers one byte where it is this user's.
    async fn serve_one(listener: LocalListener) -> (LocalListener, bool) {
        let accepted = listener.accept().await.unwrap().of_this_user().await;
        let is_ours = accepted.is_ok();
        let (Ok(mut stream) | Err(mut stream)) = accepted;
        stream.write_all(if is_ours { b"y" } else { b"n" }).await.unwrap();
        (listener, is_ours)
    }

    #[test]
    fn client_that_knows_the_file_is_served_and_another_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.sock");
        runtime().block_on(async {
            let serving = task::spawn(serve_one(LocalListener::bind(&path).await.unwrap()));
            let own = path.clone();
            let answer = task::spawn_blocking(move || {
                let mut stream = connect(&own, || Some(LIMIT)).unwrap();
                let mut answer = [0];
                stream.read_exact(&mut answer).map(|()| answer)
            });
            assert_eq!(answer.await.unwrap().unwrap(), *b"y");
            let (listener, is_ours) = serving.await.unwrap();
            assert!(is_ours);
            let port = listener.known.port;
            let serving = task::spawn(serve_one(listener));
            let answer = task::spawn_blocking(move || {
                let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
                stream.write_all(&[b'0'; SECRET_DIGITS]).unwrap();
                let mut answer = [0];
                stream.read_exact(&mut answer).map(|()| answer)
            });
            assert_eq!(answer.await.unwrap().unwrap(), *b"n");
            let (listener, is_ours) = serving.await.unwrap();
            assert!(!is_ours && path.exists());
            drop(listener);
            assert!(!path.exists());
        });
    }

    #[test]
    fn path_has_one_listener_and_what_a_killed_one_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.sock");
        let refused = |expected: io::ErrorKind| {
            assert_eq!(connect(&path, || Some(LIMIT)).unwrap_err().kind(), expected);
        };
        refused(io::ErrorKind::NotFound);
        runtime().block_on(async {
            let listener = LocalListener::bind(&path).await.unwrap();
            let second = LocalListener::bind(&path).await.err().map(|error| error.kind());
            assert_eq!(second, Some(io::ErrorKind::AddrInUse));
            let left_over = fs::read(&path).unwrap();
            drop(listener);
            fs::write(&path, left_over).unwrap();
        });
        refused(io::ErrorKind::ConnectionRefused);
        runtime().block_on(async {
            let listener = LocalListener::bind(&path).await.unwrap();
            assert_eq!(LoopbackFile::read(&path).unwrap().port, listener.known.port);
        });
    }

    #[test]
    fn client_tells_nothing_to_a_program_that_does_not_know_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.sock");
        let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        let _lock = take_lock(&lock_file(&path)).unwrap();
        let secret = "0".repeat(SECRET_DIGITS);
        fs::write(&path, format!("{port} {secret} {}", secret.replace('0', "1"))).unwrap();
        let stranger = thread::spawn(move || {
            let (mut stream, _) = other.accept().unwrap();
            stream.write_all(&[b'0'; SECRET_DIGITS]).unwrap();
            let mut sent = Vec::new();
            // A reset where the client closed with the answer unread.
            let _ = stream.read_to_end(&mut sent);
            let (silent, _) = other.accept().unwrap();
            (sent, silent, other)
        });
        assert_eq!(connect(&path, || Some(LIMIT)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        // The second one answers nothing.
        let limit = Duration::from_millis(50);
        assert_eq!(connect(&path, || Some(limit)).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(connect(&path, || None).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let (sent, ..) = stranger.join().unwrap();
        assert_eq!(String::from_utf8(sent).unwrap(), secret);
    }

    #[test]
    fn file_that_is_none_of_ours_names_no_socket() {
        let secret = "a".repeat(SECRET_DIGITS);
        assert!(LoopbackFile::parse(&format!("7 {secret} {secret}\n")).is_some());
        let short = &secret[1..];
        for text in [
            "",
            "7",
            &format!("7 {secret}"),
            &format!("65536 {secret} {secret}"),
            &format!("7 {secret} {short}"),
        ] {
            assert!(LoopbackFile::parse(text).is_none(), "{text}");
        }
    }
}
