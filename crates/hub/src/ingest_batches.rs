//! Splits lines from a program into ingests, and decides which dialects a program may send. Posted and spooled lines are
//! split the same way, so that lines that arrived both ways count once.

use subscope_harness::dialect;
use subscope_model::{Millis, SessionId};
use subscope_session::{Dialect, LineSession};
use subscope_store::SessionPart;

use crate::command::{Asks, Ingest, LinePlace};

/// Approximate size of an ingest into which longer bodies are split, so that other senders' ingests are committed in
/// between.
const PART_BYTES: usize = 2 << 20;

/// Most sessions' runs of lines in one ingest, each of which costs as much as an ingest of its own: this many are saved
/// and derived in some tens of milliseconds.
const MAX_PART_RUNS: usize = 256;

/// Description of lines from a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineBatch<'a> {
    /// Dialect of the lines.
    pub dialect: Dialect,
    /// Stream that they belong to: lines are ordered within it.
    pub source: &'a str,
    /// Idempotency key: see [`crate::delivery_key`].
    pub key: &'a str,
    /// Time of arrival; `None` for now.
    pub received_ms: Option<Millis>,
}

/// Parses the name of a dialect that programs may send: one whose lines make sense without a path. Lines of the others
/// do not name their session.
pub fn delivered_dialect(name: &str) -> Option<Dialect> {
    dialect(name).filter(|dialect| dialect.is_ingestible())
}

/// Returns the ingests of complete lines, in order, at least one. The same lines are always split alike.
pub fn line_ingests<'a>(of: LineBatch<'a>, body: &'a [u8]) -> impl Iterator<Item = Ingest> + 'a {
    body_parts(of.dialect, body).enumerate().map(move |(number, part)| Ingest {
        source: format!("ingest/{}/{}", of.dialect.as_str(), of.source),
        session: None,
        dialect: Some(of.dialect),
        key: if number == 0 { of.key.to_owned() } else { format!("{}/part/{number}", of.key) },
        received_ms: of.received_ms,
        body: part.lines.to_vec(),
        begins: part.begins,
        asks: Asks::Nothing,
    })
}

/// Part of a body that becomes one ingest.
#[derive(Debug, PartialEq, Eq)]
struct BodyPart<'b> {
    lines: &'b [u8],
    /// Position in the body, if that contains several sessions.
    begins: Option<LinePlace>,
}

/// Splits a body at line ends.
fn body_parts(dialect: Dialect, body: &[u8]) -> impl Iterator<Item = BodyPart<'_>> {
    let (mut rest, mut at, mut has_several_sessions) = (Some(body), LinePlace::FIRST, false);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let behind = all.get(PART_BYTES..).unwrap_or_default();
        let end = memchr::memchr(b'\n', behind).map_or(all.len(), |end| PART_BYTES + end + 1);
        let mut next = line_runs(dialect, all.get(..end).unwrap_or_default()).skip(1).peekable();
        has_several_sessions |= next.peek().is_some();
        let end = next.nth(MAX_PART_RUNS - 1).map_or(end, |next| next.begins.offset as usize);
        let (lines, more) = all.split_at(end);
        rest = Some(more).filter(|more| !more.is_empty());
        let begins = has_several_sessions.then_some(at);
        at = at.behind(lines);
        Some(BodyPart { lines, begins })
    })
}

/// Consecutive lines of one session.
#[derive(Debug, PartialEq, Eq)]
struct LineRun<'b> {
    /// `None` if no line names one.
    session: Option<String>,
    begins: LinePlace,
    lines: &'b [u8],
}

/// Groups consecutive lines by session. Lines that name no session belong to the lines before them, the first ones to
/// the lines after them.
fn line_runs(dialect: Dialect, body: &[u8]) -> impl Iterator<Item = LineRun<'_>> {
    let (mut lines, mut begins) = (body.split_inclusive(|byte| *byte == b'\n'), LinePlace::FIRST);
    let mut lookahead: Option<(LineSession, &[u8])> = None;
    std::iter::from_fn(move || {
        let mut run_session = LineSession::Same;
        let mut len = 0;
        loop {
            let next =
                lookahead.take().or_else(|| lines.next().map(|line| (dialect.line_session(line), line)));
            let Some((session, line)) = next else { break };
            match (&run_session, &session) {
                (_, LineSession::Same) => {}
                (LineSession::Same, _) => run_session = session,
                (run_session, session) if run_session == session => {}
                _ => {
                    lookahead = Some((session, line));
                    break;
                }
            }
            len += line.len();
        }
        let from = begins;
        let lines = body.get(from.offset as usize..from.offset as usize + len).filter(|it| !it.is_empty())?;
        begins = begins.behind(lines);
        let session = match run_session {
            LineSession::Named(session) => Some(session),
            LineSession::Same | LineSession::Unknown => None,
        };
        Some(LineRun { session, begins: from, lines })
    })
}

/// Splits a body by session for the inbox; empty if it has one session, or the session of some line is unknown.
/// `begins` is its position in the body that was sent.
pub(crate) fn split_by_session(
    dialect: Option<Dialect>,
    begins: Option<LinePlace>,
    body: &[u8],
) -> Vec<SessionPart> {
    let Some(dialect) = dialect else { return Vec::new() };
    let is_single_line = memchr::memchr(b'\n', body).is_none_or(|end| end + 1 == body.len());
    if is_single_line && begins.is_none() {
        return Vec::new();
    }
    let before = begins.unwrap_or(LinePlace::FIRST);
    let part = |run: LineRun<'_>| {
        Some(SessionPart {
            session: SessionId::from(run.session?.as_str()),
            line: before.line + run.begins.line - 1,
            offset: before.offset + run.begins.offset,
            body: run.lines.to_vec(),
        })
    };
    let parts: Vec<SessionPart> =
        line_runs(dialect, body).map(part).collect::<Option<_>>().unwrap_or_default();
    if parts.len() > 1 || begins.is_some() { parts } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use subscope_harness::claude_code::HOOK;

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
            let cut: Vec<&[u8]> = body_parts(HOOK, &body).map(|part| part.lines).collect();
            assert_eq!(cut.len(), count, "{} bytes", body.len());
            assert!(cut.iter().rev().skip(1).all(|part| part.ends_with(b"\n")));
            assert_eq!(cut.concat(), body);
        }
    }
}
