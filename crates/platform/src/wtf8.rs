//! Bytes of a path of Windows: UTF-8, with unpaired surrogates in the three bytes that UTF-8 would give them (WTF-8).

/// Appends UTF-16 as WTF-8.
pub(crate) fn encode(wide: impl IntoIterator<Item = u16>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for unit in char::decode_utf16(wide) {
        match unit {
            Ok(character) => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(unpaired) => {
                let unit = unpaired.unpaired_surrogate();
                bytes.extend(three_bytes(unit));
            }
        }
    }
    bytes
}

/// The encoding of a unit from 0x800 on. The masks keep each part below 64.
fn three_bytes(unit: u16) -> [u8; 3] {
    let part = |shift: u16| u8::try_from((unit >> shift) & 0x3f).unwrap_or_default() | 0x80;
    [u8::try_from(unit >> 12).unwrap_or_default() | 0xe0, part(6), part(0)]
}

/// Returns the UTF-16 of WTF-8. What is neither becomes the replacement character.
pub(crate) fn decode(bytes: &[u8]) -> Vec<u16> {
    let mut wide = Vec::new();
    for chunk in bytes.utf8_chunks() {
        wide.extend(chunk.valid().encode_utf16());
        wide.extend((!chunk.invalid().is_empty()).then_some(INVALID));
    }
    if !wide.contains(&INVALID) {
        return wide;
    }
    decode_units(bytes)
}

const INVALID: u16 = 0xfffd;

/// As [`decode`], one character at a time: for the few paths with surrogates.
fn decode_units(mut bytes: &[u8]) -> Vec<u16> {
    let mut wide = Vec::new();
    while let Some(first) = bytes.first() {
        if let [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, rest @ ..] = bytes {
            wide.push(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f));
            bytes = rest;
            continue;
        }
        let length = match first {
            0x00..=0x7f => 1,
            0x80..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
        };
        match bytes.split_at_checked(length).map(|(character, rest)| (str::from_utf8(character), rest)) {
            Some((Ok(character), rest)) => {
                wide.extend(character.encode_utf16());
                bytes = rest;
            }
            Some((Err(_), _)) | None => {
                wide.push(INVALID);
                bytes = bytes.get(1..).unwrap_or_default();
            }
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf_8_and_every_path_comes_back() {
        let text = "C:\\Users\\ä\\会話\\🦀.jsonl";
        let wide: Vec<u16> = text.encode_utf16().collect();
        assert_eq!(encode(wide.iter().copied()), text.as_bytes());
        assert_eq!(decode(text.as_bytes()), wide);
        for unit in [0xd800, 0xdbff, 0xdc00, 0xdfff, 0xfffd] {
            let path = [wide.as_slice(), &[unit], &wide].concat();
            assert_eq!(decode(&encode(path.iter().copied())), path, "{unit:x}");
        }
    }

    #[test]
    fn bytes_of_no_path_are_replaced() {
        for (bytes, wide) in [
            (&b"a\xffb"[..], vec![0x61, INVALID, 0x62]),
            (b"\xed\xa0", vec![INVALID, INVALID]),
            (b"\xe4\xb8", vec![INVALID, INVALID]),
        ] {
            assert_eq!(decode(bytes), wide, "{bytes:x?}");
        }
    }
}
