//! Server-sent events (WHATWG HTML, "Parsing an event stream"), as they come in pieces.

/// The longest message: the rows of a session of any real size, many times over.
const MESSAGE_BYTES: usize = 256 << 20;

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// The place to return to, where it sets one.
    pub(crate) id: Option<String>,
    /// Its name; empty where it has none.
    pub(crate) event: String,
    /// Its lines of data, joined.
    pub(crate) data: String,
}

/// Cuts a stream into messages. A message without data is one here: a hub sets places with them.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// What was read and is no whole line yet.
    rest: Vec<u8>,
    /// How much of that is known to hold no line end.
    seen: usize,
    message: Message,
    is_begun: bool,
    bytes: usize,
}

/// A message longer than any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Messages {
    /// Takes the next bytes and gives the messages that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(Message)) -> Result<(), TooLong> {
        self.rest.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(end) = self.rest.iter().skip(self.seen).position(|byte| *byte == b'\n') {
            let end = self.seen + end;
            let line = self.rest.get(start..end).unwrap_or_default();
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
            self.bytes += line.len();
            (start, self.seen) = (end + 1, end + 1);
            self.take(&line, each);
            if self.bytes > MESSAGE_BYTES {
                return Err(TooLong);
            }
        }
        self.rest.drain(..start);
        self.seen = self.rest.len();
        if self.rest.len() > MESSAGE_BYTES { Err(TooLong) } else { Ok(()) }
    }

    fn take(&mut self, line: &str, each: &mut dyn FnMut(Message)) {
        if line.is_empty() {
            self.bytes = 0;
            let mut message = std::mem::take(&mut self.message);
            if std::mem::take(&mut self.is_begun) {
                // Each line of data ends in a line end, the last one's is none of it.
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
            // Comments keep a connection alive; what is not known is to be passed over.
            _ => return,
        }
        self.is_begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str, size: usize) -> Vec<(Option<String>, String, String)> {
        let (mut parser, mut all) = (Messages::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            let mut take = |Message { id, event, data }: Message| all.push((id, event, data));
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
        let mut parser = Messages::default();
        let piece = vec![b'x'; 64 << 20];
        let outcomes: Vec<bool> = (0..5).map(|_| parser.push(&piece, &mut |_| {}).is_ok()).collect();
        assert_eq!(outcomes, [true, true, true, true, false]);
    }
}
