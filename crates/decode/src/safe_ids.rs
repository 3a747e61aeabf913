//! Gives the ids of any decoder their safe form: the one place where ids of a source enter.

use std::borrow::Cow;

use subscope_model::{Decoded, Sink};

use crate::Decoder;

/// Decoder whose observations have ids in their safe form.
pub(crate) struct SafeIds {
    inner: Box<dyn Decoder>,
    safe: fn(&str) -> Cow<'_, str>,
}

impl SafeIds {
    pub(crate) fn new(inner: Box<dyn Decoder>, safe: fn(&str) -> Cow<'_, str>) -> Self {
        Self { inner, safe }
    }
}

/// Passes on what a decoder emits, with safe ids.
fn pass(safe: fn(&str) -> Cow<'_, str>, decoded: Decoded<'_, '_>, sink: &mut Sink<'_>) {
    match decoded {
        Decoded::Observation(seen) => {
            seen.with_safe_ids(safe, &mut |seen| sink(Decoded::Observation(seen)));
        }
        Decoded::Problem { .. } => sink(decoded),
    }
}

impl Decoder for SafeIds {
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>) {
        let safe = self.safe;
        self.inner.push(chunk, &mut |decoded| pass(safe, decoded, sink));
    }

    fn flush(&mut self, sink: &mut Sink<'_>) {
        let safe = self.safe;
        self.inner.flush(&mut |decoded| pass(safe, decoded, sink));
    }

    fn skip_to(&mut self, line: u64, offset: u64) {
        self.inner.skip_to(line, offset);
    }
}
