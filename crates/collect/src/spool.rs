//! The spool: payloads of hooks, publishing programs and runs that no hub accepted, one file each, until the next hub
//! ingests them, exactly once.
//!
//! ```text
//! spool/<received ns>-<process>-<random>-<length>.json    payload of a hook; hexadecimal of fixed width: names sort by time
//! spool/<received ns>-<process>-<random>-<length>.event   event that a program publishes, named in the same way
//! spool/<received ns>-<process>-<random>-<length>.lines   lines that are ingested together, after a header line
//! spool/<received ns>-<process>-<random>-<length>.unknown payload of a hook of an unknown harness, after its name
//! spool/.<received ns>-<process>-<random>                 a payload that is being written
//! spool/dropped                                           numbers of payloads dropped for lack of space, one per line
//! ```
//!
//! Flow: [`write()`] writes a payload under a temporary name and renames it; the consumer opens the [`Spool`], commits
//! each payload together with its [`Delivery`], and then removes it. A consumer that dies in between reads the same
//! delivery again and recognizes it by its id: the same id went to a hub that stored the payload and did not answer in
//! time.
//!
//! Nothing is synced: an observed agent must not wait for a disk. What a power cut leaves is recognized by the length
//! in the name. The folder is its owner's alone, and so is each file.

mod reader;
mod room;

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    str::FromStr,
};

use subscope_harness::hooks_of;
use subscope_model::Millis;
use subscope_platform::{OpenPolicy as _, create_private_folder};

pub use reader::{Spool, SpoolError, Spooled};

/// The greatest payload: what a hub takes as one body, too.
pub const PAYLOAD_LIMIT_BYTES: usize = 16 << 20;
/// What the name of one begins with that is being written.
const UNFINISHED: char = '.';

/// Returns the spool's folder below the folder for data.
pub fn folder(data: &Path) -> PathBuf {
    data.join("spool")
}

/// Kind of a payload, by its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A hook's of the harness of this name.
    Hook(&'static str),
    /// A program's that publishes what its subagents do: one event.
    Event,
    /// Lines that a run forwards.
    Lines,
    /// A hook's whose harness is not known: a line of [`unknown_head`], then the payload. No hub takes it.
    Unknown,
}

impl Kind {
    /// Takes the kind off the end of a payload's name. A hub that does not know it leaves the payload where it is.
    fn split(name: &str) -> Option<(&str, Self)> {
        let (name, ending) = name.rsplit_once('.')?;
        match ending {
            "event" => Some((name, Self::Event)),
            "lines" => Some((name, Self::Lines)),
            "hook" => {
                let (name, harness) = name.rsplit_once('.')?;
                Some((name, Self::Hook(hooks_of(harness)?.0.name())))
            }
            "unknown" => Some((name, Self::Unknown)),
            _ => None,
        }
    }
}

/// Most characters of an unknown harness's name that are kept.
const MAX_NAME: usize = 64;

/// Returns the first line of a payload of an unknown harness: its name.
pub fn unknown_head(harness: &str) -> Vec<u8> {
    let name: String =
        harness.chars().take(MAX_NAME).map(|it| if it.is_control() { ' ' } else { it }).collect();
    format!("{name}\n").into_bytes()
}

/// What a waiting payload's name ends with.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hook(harness) => write!(f, ".{harness}.hook"),
            Self::Event => f.write_str(".event"),
            Self::Lines => f.write_str(".lines"),
            Self::Unknown => f.write_str(".unknown"),
        }
    }
}

/// Unique id of one payload: made once, when its hook begins, and the same on every route that the payload takes.
///
/// As text it is three hexadecimal numbers of fixed width, joined by `-`. They order by the time of receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delivery {
    received_ns: u64,
    process: u32,
    random: u64,
}

impl Delivery {
    /// Returns the name of a payload that came at a time (nanoseconds since 1970) to a process.
    ///
    /// `random` must come from a good source: process ids are used again, and clocks step.
    pub fn new(received_ns: u64, process: u32, random: u64) -> Self {
        Self { received_ns, process, random }
    }

    /// When the payload came: milliseconds since 1970, by the clock of the hook.
    pub fn received_ms(self) -> Millis {
        Millis::try_from(self.received_ns / 1_000_000).unwrap_or(Millis::MAX)
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { received_ns, process, random } = self;
        write!(f, "{received_ns:016x}-{process:08x}-{random:016x}")
    }
}

/// The text is not the name of a delivery.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a delivery")]
pub struct NoDelivery;

impl FromStr for Delivery {
    type Err = NoDelivery;

    fn from_str(text: &str) -> Result<Self, NoDelivery> {
        let mut parts = text.split('-');
        let mut next = |digits| hexadecimal(parts.next()?, digits);
        let delivery = (|| {
            let (received_ns, process, random) = (next(16)?, next(8)?, next(16)?);
            Some(Self { received_ns, process: u32::try_from(process).ok()?, random })
        })();
        delivery.filter(|_| parts.next().is_none()).ok_or(NoDelivery)
    }
}

/// Reads a number as this module writes it, and no other way.
fn hexadecimal(text: &str, digits: usize) -> Option<u64> {
    let is_ours = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    (text.len() == digits && text.bytes().all(is_ours)).then(|| u64::from_str_radix(text, 16).ok())?
}

/// A waiting payload, as its file's name describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    delivery: Delivery,
    length: u64,
    kind: Kind,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}{}", self.delivery, self.length, self.kind)
    }
}

impl Name {
    /// Reads a file's name; `None` for the names of others.
    fn parse(name: &str) -> Option<Self> {
        let (name, kind) = Kind::split(name)?;
        let (delivery, length) = name.rsplit_once('-')?;
        Some(Self { delivery: delivery.parse().ok()?, length: hexadecimal(length, 8)?, kind })
    }
}

/// Puts a payload into the spool, given in parts, and makes the folder where it is missing. Returns its file, which exists
/// until a hub has stored the payload.
///
/// Any number of processes may write at once. Now and then the oldest payloads are dropped where too many wait
/// ([`Spool::dropped`]).
///
/// # Errors
/// What the operating system reports, such as a full disk; the partial payload is then removed.
pub fn write(
    folder: &Path,
    kind: Kind,
    delivery: Delivery,
    body: &[impl AsRef<[u8]>],
) -> io::Result<PathBuf> {
    let unfinished = folder.join(format!("{UNFINISHED}{delivery}"));
    let mut file = match create(&unfinished) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_private_folder(folder)?;
            create(&unfinished)?
        }
        other => other?,
    };
    let length = body.iter().map(|part| part.as_ref().len() as u64).sum();
    let finished = folder.join(Name { delivery, length, kind }.to_string());
    let written = body.iter().try_for_each(|part| file.write_all(part.as_ref()));
    let written = written.and_then(|()| fs::rename(&unfinished, &finished));
    if written.is_err() {
        // The consumer removes the remains.
        let _ = fs::remove_file(&unfinished);
    } else if delivery.random.is_multiple_of(room::LOOK_EVERY) {
        room::make(folder);
    }
    written.map(|()| finished)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).private().open(path)
}

#[cfg(test)]
mod tests;
