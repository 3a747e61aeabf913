//! Lines of one dialect that a program hands over: which dialects that may be, and what the hub is given of them. However they
//! come (handed over, spooled) they are made into ingests here, so that what came both ways counts once.

use subscope_fold::{Dialect, LineSession};
use subscope_harness::dialect;
use subscope_model::{Millis, SessionId};
use subscope_store::Part;

use crate::command::{Asks, Ingest, LinePlace};

/// Longer bodies are handed on in parts of about this size: others' deliveries are kept in between.
const PART_BYTES: usize = 2 << 20;

/// The same for bodies of many sessions, of which each costs as much as a delivery of its own: so many are kept and concluded
/// in some tens of milliseconds.
const PART_RUNS: usize = 256;

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
    dialect(name).filter(|dialect| dialect.is_ingestible())
}

/// Returns the ingests of whole lines, in order; one at least. The same lines are always cut alike.
pub fn line_ingests<'a>(of: LinesOf<'a>, body: &'a [u8]) -> impl Iterator<Item = Ingest> + 'a {
    parts(of.dialect, body).enumerate().map(move |(number, part)| Ingest {
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

/// What is handed on at once of a body.
#[derive(Debug, PartialEq, Eq)]
struct Cut<'b> {
    lines: &'b [u8],
    /// Known where the body tells of several sessions.
    begins: Option<LinePlace>,
}

/// Cuts a body behind line ends.
fn parts(dialect: Dialect, body: &[u8]) -> impl Iterator<Item = Cut<'_>> {
    let (mut rest, mut at, mut is_mixed) = (Some(body), LinePlace::FIRST, false);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let behind = all.get(PART_BYTES..).unwrap_or_default();
        let end = memchr::memchr(b'\n', behind).map_or(all.len(), |end| PART_BYTES + end + 1);
        let mut next = runs(dialect, all.get(..end).unwrap_or_default()).skip(1).peekable();
        is_mixed |= next.peek().is_some();
        let end = next.nth(PART_RUNS - 1).map_or(end, |next| next.begins.offset as usize);
        let (lines, more) = all.split_at(end);
        rest = Some(more).filter(|more| !more.is_empty());
        let begins = is_mixed.then_some(at);
        at = at.behind(lines);
        Some(Cut { lines, begins })
    })
}

/// Consecutive lines that are of one session by their words.
#[derive(Debug, PartialEq, Eq)]
struct LineRun<'b> {
    /// `None` where nothing tells.
    session: Option<String>,
    begins: LinePlace,
    lines: &'b [u8],
}

/// Divides lines by session. Those that name none belong to those before them, the first ones to those behind them.
fn runs(dialect: Dialect, body: &[u8]) -> impl Iterator<Item = LineRun<'_>> {
    let (mut lines, mut begins) = (body.split_inclusive(|byte| *byte == b'\n'), LinePlace::FIRST);
    let mut ahead: Option<(LineSession, &[u8])> = None;
    std::iter::from_fn(move || {
        let mut of = LineSession::Same;
        let mut len = 0;
        loop {
            let next = ahead.take().or_else(|| lines.next().map(|line| (dialect.line_session(line), line)));
            let Some((session, line)) = next else { break };
            match (&of, &session) {
                (_, LineSession::Same) => {}
                (LineSession::Same, _) => of = session,
                (of, session) if of == session => {}
                _ => {
                    ahead = Some((session, line));
                    break;
                }
            }
            len += line.len();
        }
        let from = begins;
        let lines = body.get(from.offset as usize..from.offset as usize + len).filter(|it| !it.is_empty())?;
        begins = begins.behind(lines);
        let session = match of {
            LineSession::Named(session) => Some(session),
            LineSession::Same | LineSession::Unknown => None,
        };
        Some(LineRun { session, begins: from, lines })
    })
}

/// Returns a body divided by session, as it is kept; nothing where it is of one, or not of all lines is known whose they are.
/// `begins` says where it stands in what was handed over.
pub(crate) fn divided(dialect: Option<Dialect>, begins: Option<LinePlace>, body: &[u8]) -> Vec<Part> {
    let Some(dialect) = dialect else { return Vec::new() };
    let is_line = memchr::memchr(b'\n', body).is_none_or(|end| end + 1 == body.len());
    if is_line && begins.is_none() {
        return Vec::new();
    }
    let before = begins.unwrap_or(LinePlace::FIRST);
    let part = |run: LineRun<'_>| {
        Some(Part {
            session: SessionId::from(run.session?.as_str()),
            line: before.line + run.begins.line - 1,
            offset: before.offset + run.begins.offset,
            body: run.lines.to_vec(),
        })
    };
    let parts: Vec<Part> = runs(dialect, body).map(part).collect::<Option<_>>().unwrap_or_default();
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
            let cut: Vec<&[u8]> = parts(HOOK, &body).map(|part| part.lines).collect();
            assert_eq!(cut.len(), count, "{} bytes", body.len());
            assert!(cut.iter().rev().skip(1).all(|part| part.ends_with(b"\n")));
            assert_eq!(cut.concat(), body);
        }
    }
}
