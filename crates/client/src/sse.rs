//! Incremental parser of server-sent events (WHATWG HTML, "Parsing an event stream").

/// Longest message: many times the tree of the largest real session.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// A server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseMessage {
    /// Position to resume from (`last-event-id`), if set.
    pub(crate) id: Option<String>,
    /// Event name; empty if none.
    pub(crate) event: String,
    /// Data lines, joined with line feeds.
    pub(crate) data: String,
}

/// Splits a stream into messages. Unlike in the standard, messages without data are delivered: a hub uses them to set
/// positions.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// Incomplete line at the end of the input.
    buffer: Vec<u8>,
    /// Length of its prefix already searched for a line end.
    scanned: usize,
    message: SseMessage,
    has_fields: bool,
    bytes: usize,
}

/// The message is longer than [`MAX_MESSAGE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageTooLong;

impl SseParser {
    /// Parses the next bytes and passes completed messages to `each`.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(SseMessage),
    ) -> Result<(), MessageTooLong> {
        self.buffer.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(end) = self.buffer.iter().skip(self.scanned).position(|byte| *byte == b'\n') {
            let end = self.scanned + end;
            let line = self.buffer.get(start..end).unwrap_or_default();
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
            self.bytes += line.len();
            (start, self.scanned) = (end + 1, end + 1);
            self.take_line(&line, each);
            if self.bytes > MAX_MESSAGE_BYTES {
                return Err(MessageTooLong);
            }
        }
        self.buffer.drain(..start);
        self.scanned = self.buffer.len();
        if self.buffer.len() > MAX_MESSAGE_BYTES { Err(MessageTooLong) } else { Ok(()) }
    }

    fn take_line(&mut self, line: &str, each: &mut dyn FnMut(SseMessage)) {
        if line.is_empty() {
            self.bytes = 0;
            let mut message = std::mem::take(&mut self.message);
            if std::mem::take(&mut self.has_fields) {
                // Each data line was appended with a line feed; the last one does not belong to the data.
                message.data.pop();
                each(message);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.message.id = Some(value.to_owned()),
            "event" => self.message.event = value.to_owned(),
            "data" => {
                self.message.data += value;
                self.message.data.push('\n');
            }
            // Comments are keep-alives; unknown fields are ignored, as the standard requires.
            _ => return,
        }
        self.has_fields = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str, size: usize) -> Vec<(Option<String>, String, String)> {
        let (mut parser, mut all) = (SseParser::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            let mut take = |SseMessage { id, event, data }: SseMessage| all.push((id, event, data));
            parser.push(piece, &mut take).unwrap();
        }
        all
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let text = ": hi\n\nid: 7\nevent: event\ndata: {\"a\":\"ü\"}\n\nid:8\n: live\n\nevent: x\r\ndata: one\r\ndata:  two\r\ndata\r\n\r\n\
            retry: 5\n\ndata: unfinished\n";
        let named = |id: Option<&str>, event: &str, data: &str| {
            (id.map(str::to_owned), event.to_owned(), data.to_owned())
        };
        let expected = [
            named(Some("7"), "event", "{\"a\":\"ü\"}"),
            named(Some("8"), "", ""),
            named(None, "x", "one\n two\n"),
        ];
        for size in 1..text.len() {
            assert_eq!(messages(text, size), expected, "{size}");
        }
    }

    #[test]
    fn message_without_an_end_is_given_up() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 64 << 20];
        let outcomes: Vec<bool> = (0..5).map(|_| parser.push(&piece, &mut |_| {}).is_ok()).collect();
        assert_eq!(outcomes, [true, true, true, true, false]);
    }
}
