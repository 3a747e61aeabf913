//! What every fuzz target does: bytes in two chunks through a decoder, twice, and a comparison.
//!
//! A target finds a panic, a hang and a use of too much memory by itself; what it must be told is that the place of
//! the cut changes nothing.

use subscope_decode::{Dialect, Hint};
use subscope_model::{Decoded, Sink};

/// Decodes the bytes cut at a place that the first two of them choose, and uncut, and compares.
pub fn feed(dialect: Dialect, data: &[u8]) {
    let [high, low, rest @ ..] = data else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (rest.len() + 1);
    let (first, second) = rest.split_at(cut);
    let in_two = decode(dialect, &[first, second]);
    let in_one = decode(dialect, &[rest]);
    assert_eq!(in_two, in_one, "{dialect:?} cut at {cut}");
}

/// Returns everything that is handed over, as text: observations borrow from the chunk and do not outlive it.
fn decode(dialect: Dialect, chunks: &[&[u8]]) -> Vec<String> {
    let hint =
        Hint { session: Some("session".to_owned()), agent: Some("agent".to_owned()), ..Hint::default() };
    let mut decoder = dialect.decoder(&hint);
    let mut said = Vec::new();
    let mut collect = |decoded: Decoded<'_, '_>| said.push(format!("{decoded:?}"));
    let sink: &mut Sink<'_> = &mut collect;
    for chunk in chunks {
        decoder.push(chunk, sink);
    }
    decoder.flush(sink);
    said
}
