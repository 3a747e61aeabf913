//! Cuts bytes into lines.

/// Longest line. Longer ones are dropped.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Cuts one stream of bytes into lines.
#[derive(Debug, Default)]
pub(crate) struct LineCutter {
    partial: Vec<u8>,
    /// Whether the current line exceeds the limit.
    is_overlong: bool,
}

impl LineCutter {
    /// Takes the next bytes, cut anywhere; calls back with whole lines, of which one call may have many.
    pub(crate) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) {
        let Some(end) = memchr::memrchr(b'\n', bytes) else { return self.buffer_partial(bytes) };
        let (mut whole, rest) = bytes.split_at(end + 1);
        if self.is_overlong || !self.partial.is_empty() {
            let first = memchr::memchr(b'\n', whole).map_or(whole.len(), |at| at + 1);
            let (first, others) = whole.split_at(first);
            whole = others;
            self.buffer_partial(first);
            let line = std::mem::take(&mut self.partial);
            if !std::mem::take(&mut self.is_overlong) {
                take(&line);
            }
        }
        if !whole.is_empty() {
            take(whole);
        }
        self.buffer_partial(rest);
    }

    /// Ends the stream: a last line without line end is complete.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(&[u8])) {
        let mut line = std::mem::take(&mut self.partial);
        if !line.is_empty() && !self.is_overlong {
            line.push(b'\n');
            take(&line);
        }
    }

    fn buffer_partial(&mut self, bytes: &[u8]) {
        if self.partial.len() + bytes.len() > MAX_LINE_BYTES {
            self.is_overlong = true;
            self.partial = Vec::new();
        }
        if !self.is_overlong {
            self.partial.extend_from_slice(bytes);
        }
    }
}
