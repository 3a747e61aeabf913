//! Copy to the clipboard through the terminal (OSC 52): also works over SSH and inside tmux.

use base64::prelude::{BASE64_STANDARD, Engine};
use subscope_render::text::prefix;

/// Most text bytes of one sequence: base64 of 74,000 bytes stays below xterm's limit of 100,000.
const MAX_BYTES: usize = 74_000;

/// Returns the escape sequence that sets the clipboard; longer texts are cut.
pub(super) fn sequence(text: &str) -> String {
    format!("\u{1b}]52;c;{}\u{7}", BASE64_STANDARD.encode(prefix(text, MAX_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_and_cut_between_characters() {
        assert_eq!(sequence("foob"), "\u{1b}]52;c;Zm9vYg==\u{7}");
        assert_eq!(sequence("é"), "\u{1b}]52;c;w6k=\u{7}");
        assert!(sequence(&"é".repeat(100_000)).len() < 100_000);
    }
}
