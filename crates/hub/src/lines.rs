//! Lines of one dialect that a program hands over: which dialects that may be, and what the hub is given of them. However they
//! come (handed over, spooled) they are made into ingests here, so that what came both ways counts once.

use subscope_fold::Dialect;
use subscope_model::Millis;

use crate::command::{Asks, Ingest};

/// Longer bodies are handed on in parts of about this size: others' deliveries are kept in between.
const PART_BYTES: usize = 2 << 20;

/// What is said of lines that are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinesOf<'a> {
    /// What they are written in.
    pub dialect: Dialect,
    /// The stream that they belong to: order counts within it.
    pub source: &'a str,
    /// By which the ledger knows them: see [`crate::delivery_key`].
    pub key: &'a str,
    /// When they came, if not just now.
    pub received_ms: Option<Millis>,
}

/// Returns the dialect of a name, where lines of it make sense without a path: the others say nothing of their session.
pub fn handed_over_dialect(name: &str) -> Option<Dialect> {
    Dialect::parse(name).filter(|dialect| match dialect {
        Dialect::ClaudeTranscript
        | Dialect::ClaudeStream
        | Dialect::ClaudeHook
        | Dialect::SubagentEvents
        | Dialect::Feed => true,
        // An order has a door of its own.
        Dialect::ClaudeMeta | Dialect::ClaudeJournal | Dialect::StopOrders => false,
    })
}

/// Returns the ingests of whole lines, in order; one at least. The same lines are always cut alike.
pub fn line_ingests<'a>(of: LinesOf<'a>, body: &'a [u8]) -> impl Iterator<Item = Ingest> + 'a {
    parts(body).enumerate().map(move |(number, part)| Ingest {
        source: format!("ingest/{}/{}", of.dialect.as_str(), of.source),
        session: None,
        dialect: Some(of.dialect),
        key: if number == 0 { of.key.to_owned() } else { format!("{}/part/{number}", of.key) },
        received_ms: of.received_ms,
        body: part.to_vec(),
        asks: Asks::Nothing,
    })
}

/// Cuts a body behind line ends.
fn parts(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(body);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let behind = all.get(PART_BYTES..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', behind) else { return Some(all) };
        let (part, more) = all.split_at(PART_BYTES + end + 1);
        rest = Some(more).filter(|more| !more.is_empty());
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_with_lines_and_lose_nothing() {
        let line = [b"x".repeat(1 << 19), b"\n".to_vec()].concat();
        for (body, count) in [
            (Vec::new(), 1),
            (line.repeat(4), 1),
            (line.repeat(5), 2),
            (line.repeat(9), 3),
            (b"x".repeat(5 * PART_BYTES), 1),
            ([b"x".repeat(5 * PART_BYTES), b"\nend".to_vec()].concat(), 2),
        ] {
            let cut: Vec<&[u8]> = parts(&body).collect();
            assert_eq!(cut.len(), count, "{} bytes", body.len());
            assert!(cut.iter().rev().skip(1).all(|part| part.ends_with(b"\n")));
            assert_eq!(cut.concat(), body);
        }
    }
}
