//! Copy to the clipboard through the terminal (OSC 52): also works over SSH and inside tmux.

/// Most text bytes of one sequence: base64 of 74,000 bytes stays below xterm's limit of 100,000.
const MAX_BYTES: usize = 74_000;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the escape sequence that sets the clipboard; longer texts are cut.
pub(super) fn sequence(text: &str) -> String {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("\u{1b}]52;c;{}\u{7}", base64(&text.as_bytes()[..end]))
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = bits >> (18 - 6 * place) & 63;
            let is_there = place <= chunk.len();
            out.push(if is_there { char::from(ALPHABET[digit as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_as_the_rfc_says() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (text, code) in cases {
            assert_eq!(base64(text.as_bytes()), code);
        }
        assert_eq!(sequence("é"), "\u{1b}]52;c;w6k=\u{7}");
        assert!(sequence(&"é".repeat(100_000)).len() < 100_000);
    }
}
