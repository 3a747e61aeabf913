//! The last of a text of any length, in bounded memory.

/// The end of what was pushed, and how much stood before it.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    limit: usize,
    dropped: u64,
}

impl Tail {
    /// Keeps at least the last `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, dropped: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Only now and then, so that a long text is not moved with each piece.
        if self.bytes.len() > self.limit.saturating_mul(2) {
            let surplus = self.bytes.len() - self.limit;
            self.bytes.drain(..surplus);
            self.dropped += surplus as u64;
        }
    }

    /// Returns the text without blanks around it; where its beginning is left out, it says so. What is no UTF-8 is U+FFFD.
    pub(super) fn text(&self) -> String {
        let surplus = self.bytes.len().saturating_sub(self.limit);
        let kept = self.bytes.get(surplus..).unwrap_or_default();
        let left_out = self.dropped + surplus as u64;
        // A character that is cut begins with bytes that continue one.
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
        let mut tail = Tail::new(4);
        tail.push(b" ab \n");
        assert_eq!(tail.text(), "… (1 bytes before this are left out)\nab");
        let mut tail = Tail::new(8);
        tail.push(b" ab \n");
        assert_eq!(tail.text(), "ab");
        for _ in 0..100 {
            tail.push("äöü".as_bytes());
        }
        assert_eq!(tail.text(), format!("… ({} bytes before this are left out)\nüäöü", 605 - 8));
        assert!(tail.bytes.len() <= 16);
    }
}
