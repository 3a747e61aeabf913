//! Queue of requests on disk: waiting requests survive every end of the hub, including kills.
//!
//! ```text
//! otlp/<hash of the address>/since                        when forwarding to it began, milliseconds since 1970
//! otlp/<hash of the address>/queue/<number>-<spans>.pb    a request in protobuf; numbers order them
//! otlp/<hash of the address>/queue/<number>-<spans>.new   one that is being written
//! otlp/<hash of the address>/sent/<hash of the session>   ids of the spans that were queued, 8 bytes each
//! otlp/<hash of the address>/due/<hash of the session>    a session with news that is not queued yet: its id
//! ```
//!
//! A request is synced before its ids are noted, and removed after it was accepted. A hub that dies in between queues or
//! pushes the same spans again: their ids are the same.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use subscope_export::SpanId;
use subscope_model::{Millis, SessionId, event_id};
use subscope_platform::{OpenPolicy as _, create_private_folder};

/// Most bytes that wait: days of spans. Sessions are read again when there is room, so that nothing is lost above it.
const MAX_BYTES: u64 = 256 << 20;

/// A waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuedRequest {
    path: PathBuf,
    number: u64,
    bytes: u64,
    /// Number of its spans.
    pub(super) spans: u64,
}

impl QueuedRequest {
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        fs::read(&self.path)
    }
}

/// The queue of one receiver.
#[derive(Debug)]
pub(super) struct SpanQueue {
    folder: PathBuf,
    /// When forwarding to it began.
    pub(super) since: Millis,
    waiting: Mutex<VecDeque<QueuedRequest>>,
}

impl SpanQueue {
    /// Opens the queue of the receiver at an address below a data folder; the first time, forwarding begins `now`.
    pub(super) fn open(data: &Path, address: &str, now: Millis) -> io::Result<Self> {
        let folder = data.join("otlp").join(&*event_id("otlp", address));
        for folder in ["queue", "sent", "due"].map(|name| folder.join(name)) {
            create_private_folder(&folder)?;
        }
        let mark = folder.join("since");
        let since: Option<Millis> = match fs::read(&mark) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // A later time would leave out the spans before it for good.
            mark => str::from_utf8(&mark?).ok().and_then(|text| text.trim().parse().ok()),
        };
        if since.is_none() {
            write_synced(&mark, &folder.join("since.new"), now.to_string().as_bytes())?;
        }
        let mut waiting: Vec<QueuedRequest> = Vec::new();
        for entry in fs::read_dir(folder.join("queue"))? {
            let entry = entry?;
            match queued(entry.path(), entry.metadata()?.len()) {
                Some(request) => waiting.push(request),
                // A partial file of a hub that was killed while writing: its spans were not recorded.
                None => fs::remove_file(entry.path())?,
            }
        }
        waiting.sort_by_key(|request| request.number);
        Ok(Self { folder, since: since.unwrap_or(now), waiting: Mutex::new(waiting.into()) })
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<QueuedRequest>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns number and size of the waiting requests.
    pub(super) fn size(&self) -> (u64, u64) {
        let waiting = self.waiting();
        (waiting.len() as u64, waiting.iter().map(|request| request.bytes).sum())
    }

    /// Whether more requests may be queued.
    pub(super) fn has_room(&self) -> bool {
        self.size().1 < MAX_BYTES
    }

    pub(super) fn oldest(&self) -> Option<QueuedRequest> {
        self.waiting().front().cloned()
    }

    /// Queues a request with the ids of its spans, which are noted for its session.
    pub(super) fn push(&self, session: &SessionId, request: &[u8], ids: &[SpanId]) -> io::Result<()> {
        let number = self.waiting().back().map_or(0, |last| last.number + 1);
        let name = format!("{number:016x}-{}", ids.len());
        let path = self.folder.join("queue").join(format!("{name}.pb"));
        write_synced(&path, &path.with_extension("new"), request)?;
        let mut noted =
            OpenOptions::new().append(true).create(true).private().open(self.file("sent", session))?;
        noted.write_all(&ids.concat())?;
        let (bytes, spans) = (request.len() as u64, ids.len() as u64);
        self.waiting().push_back(QueuedRequest { path, number, bytes, spans });
        Ok(())
    }

    /// Removes a request that needs not be sent again.
    pub(super) fn remove(&self, request: &QueuedRequest) -> io::Result<()> {
        self.waiting().retain(|other| other.number != request.number);
        match fs::remove_file(&request.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Returns the ids of a session's spans that were queued before.
    pub(super) fn sent(&self, session: &SessionId) -> io::Result<HashSet<SpanId>> {
        let path = self.file("sent", session);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashSet::new()),
            read => read?,
        };
        let ids = bytes.chunks_exact(size_of::<SpanId>());
        if !ids.remainder().is_empty() {
            // A full disk: the next ids must begin at their place.
            let whole = bytes.len() - ids.remainder().len();
            OpenOptions::new().write(true).open(&path)?.set_len(whole as u64)?;
        }
        Ok(ids.filter_map(|id| id.try_into().ok()).collect())
    }

    /// Notes that a session has news.
    pub(super) fn note_due(&self, session: &SessionId) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).private();
        file.open(self.file("due", session))?.write_all(session.as_bytes())
    }

    /// Notes that all news of a session is queued.
    pub(super) fn note_done(&self, session: &SessionId) -> io::Result<()> {
        match fs::remove_file(self.file("due", session)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Returns the sessions whose news was not queued when the hub ended.
    pub(super) fn noted_due(&self) -> io::Result<Vec<SessionId>> {
        let files = fs::read_dir(self.folder.join("due"))?;
        files.map(|file| Ok(SessionId::from(fs::read_to_string(file?.path())?.as_str()))).collect()
    }

    /// Ids of sessions come from outside: they are hashed and never part of a path.
    fn file(&self, folder: &str, session: &SessionId) -> PathBuf {
        self.folder.join(folder).join(&*event_id(session, folder))
    }
}

/// Returns the request in a file of the queue; `None` if it is not whole.
fn queued(path: PathBuf, bytes: u64) -> Option<QueuedRequest> {
    let name = path.file_name()?.to_str()?.strip_suffix(".pb")?;
    let (number, spans) = name.split_once('-')?;
    let (number, spans) = (u64::from_str_radix(number, 16).ok()?, spans.parse().ok()?);
    Some(QueuedRequest { path, number, bytes, spans })
}

/// Writes a file as a whole, by another one that takes its name.
fn write_synced(path: &Path, unfinished: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file: File = options.write(true).create(true).truncate(true).private().open(unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_that_is_opened_again_has_what_was_not_removed_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let open = |now| SpanQueue::open(folder.path(), "http://a/v1/traces", now).unwrap();
        let (one, other) = (SessionId::from("../one"), SessionId::from("other"));
        let queue = open(5);
        for number in 0..12_u8 {
            queue.push(&one, &[number; 3], &[[number; 8], [number + 100; 8]]).unwrap();
        }
        queue.push(&other, b"x", &[[1; 8]]).unwrap();
        let first = queue.oldest().unwrap();
        assert_eq!((first.read().unwrap(), first.spans), (vec![0; 3], 2));
        queue.remove(&first).unwrap();
        assert_eq!(queue.size(), (12, 34));
        queue.note_due(&one).unwrap();
        queue.note_due(&other).unwrap();
        queue.note_done(&other).unwrap();
        drop(queue);
        fs::write(first.path.with_extension("new"), "half").unwrap();
        let again = open(9);
        assert_eq!((again.since, again.size()), (5, (12, 34)));
        assert_eq!(again.oldest().unwrap().read().unwrap(), [1; 3]);
        assert_eq!(again.noted_due().unwrap(), std::slice::from_ref(&one));
        let sent = again.sent(&one).unwrap();
        assert_eq!((sent.len(), sent.contains(&[111; 8]), again.sent(&other).unwrap().len()), (24, true, 1));
        // A number is not used again while others wait.
        again.push(&other, b"y", &[[2; 8]]).unwrap();
        let mut last = None;
        while let Some(request) = again.oldest() {
            last = Some(request.read().unwrap());
            again.remove(&request).unwrap();
        }
        assert_eq!(last.as_deref(), Some(&b"y"[..]));
        let elsewhere = SpanQueue::open(folder.path(), "http://b/v1/traces", 7).unwrap();
        assert_eq!(
            (elsewhere.since, elsewhere.sent(&one).unwrap().len()),
            (7, 0),
            "each receiver has its own"
        );
    }

    #[test]
    fn beginning_that_cannot_be_read_is_not_now() {
        let folder = tempfile::tempdir().unwrap();
        let open = |now| SpanQueue::open(folder.path(), "http://a", now);
        let mark = open(5).unwrap().folder.join("since");
        // Root may read every file; a folder is none.
        fs::remove_file(&mark).unwrap();
        fs::create_dir(&mark).unwrap();
        assert!(open(9).is_err());
        fs::remove_dir(&mark).unwrap();
        fs::write(&mark, "5").unwrap();
        assert_eq!(open(9).unwrap().since, 5);
    }

    #[test]
    fn ids_after_half_an_id_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let queue = SpanQueue::open(folder.path(), "http://a", 0).unwrap();
        let session = SessionId::from("s");
        queue.push(&session, b"", &[[1; 8]]).unwrap();
        OpenOptions::new()
            .append(true)
            .open(queue.file("sent", &session))
            .unwrap()
            .write_all(&[7; 3])
            .unwrap();
        assert_eq!(queue.sent(&session).unwrap(), HashSet::from([[1; 8]]));
        queue.push(&session, b"", &[[2; 8]]).unwrap();
        assert_eq!(queue.sent(&session).unwrap(), HashSet::from([[1; 8], [2; 8]]));
    }
}
