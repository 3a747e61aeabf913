//! What every fuzz target does: bytes in two chunks through a decoder, twice, and a comparison.
//!
//! libFuzzer reports panics, hangs and excessive memory use by itself. The target adds two checks: the position of the
//! cut does not change the result, and every id that comes out is in its safe form.

use subscope_decode::{Dialect, Hint};
use subscope_model::{Decoded, Sink, own_id};

/// Decodes the bytes in two chunks (the first two bytes choose the cut) and in one chunk, and compares the results.
pub fn feed(dialect: Dialect, data: &[u8]) {
    let [high, low, rest @ ..] = data else { return };
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (rest.len() + 1);
    let (first, second) = rest.split_at(cut);
    let in_two = decode(dialect, &[first, second]);
    let in_one = decode(dialect, &[rest]);
    assert_eq!(in_two, in_one, "{dialect:?} cut at {cut}");
}

/// Returns all observations as text: they borrow from the chunk and do not outlive it.
fn decode(dialect: Dialect, chunks: &[&[u8]]) -> Vec<String> {
    let hint =
        Hint { session: Some("session".to_owned()), agent: Some("agent".to_owned()), ..Hint::default() };
    let mut decoder = dialect.decoder(&hint);
    let mut said = Vec::new();
    let mut collect = |decoded: Decoded<'_, '_>| {
        if let Decoded::Observation(seen) = &decoded {
            seen.with_safe_ids(own_id, &mut |safe| assert_eq!(format!("{safe:?}"), format!("{seen:?}")));
        }
        said.push(format!("{decoded:?}"));
    };
    let sink: &mut Sink<'_> = &mut collect;
    for chunk in chunks {
        decoder.push(chunk, sink);
    }
    decoder.flush(sink);
    said
}
