//! Keeps the end of a text of any length in bounded memory.

/// The end of the pushed bytes, and the number of bytes dropped before it.
#[derive(Debug)]
pub(super) struct TextTail {
    bytes: Vec<u8>,
    limit: usize,
    dropped: u64,
}

impl TextTail {
    /// Creates a buffer for the last `limit` bytes; it uses up to twice as much memory.
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, dropped: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Amortized: not with each push.
        if self.bytes.len() > self.limit.saturating_mul(2) {
            let surplus = self.bytes.len() - self.limit;
            self.bytes.drain(..surplus);
            self.dropped += surplus as u64;
        }
    }

    /// Returns the text, trimmed, with a note if its beginning was dropped. Invalid UTF-8 becomes U+FFFD.
    pub(super) fn text(&self) -> String {
        let surplus = self.bytes.len().saturating_sub(self.limit);
        let kept = self.bytes.get(surplus..).unwrap_or_default();
        let left_out = self.dropped + surplus as u64;
        // Skip the continuation bytes of a character cut at the start.
        let whole = kept.iter().position(|byte| left_out == 0 || byte & 0xc0 != 0x80).unwrap_or(0);
        let text = String::from_utf8_lossy(kept.get(whole..).unwrap_or_default());
        let text = text.trim();
        if left_out == 0 {
            text.to_owned()
        } else {
            format!("… ({left_out} bytes before this are left out)\n{text}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_whole_and_a_long_one_says_what_is_left_out() {
        let mut tail = TextTail::new(4);
        tail.push(b" ab \n");
        assert_eq!(tail.text(), "… (1 bytes before this are left out)\nab");
        let mut tail = TextTail::new(8);
        tail.push(b" ab \n");
        assert_eq!(tail.text(), "ab");
        for _ in 0..100 {
            tail.push("äöü".as_bytes());
        }
        assert_eq!(tail.text(), format!("… ({} bytes before this are left out)\nüäöü", 605 - 8));
        assert!(tail.bytes.len() <= 16);
    }
}
