//! How bytes are compressed: with a context that is made once, and not at all where there is little to gain.

use std::{borrow::Cow, io};

use zstd::bulk::Compressor;

/// How hard: the first level is several times faster than the disk and saves two thirds.
const LEVEL: i32 = 1;
/// What is smaller stays as it is: the tables that a compression begins with cost more than they save.
const SMALL: usize = 512;
/// What compressed bytes begin with (RFC 8878, section 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

#[derive(Default)]
pub(super) struct Packer(Option<Compressor<'static>>);

impl Packer {
    pub(super) fn pack<'b>(&mut self, bytes: &'b [u8]) -> rusqlite::Result<Cow<'b, [u8]>> {
        if bytes.len() < SMALL && !bytes.starts_with(&MAGIC) {
            return Ok(Cow::Borrowed(bytes));
        }
        let failed = |error: io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        let compressor = match &mut self.0 {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(LEVEL).map_err(failed)?),
        };
        compressor.compress(bytes).map(Cow::Owned).map_err(failed)
    }
}

/// Returns what was packed.
pub(super) fn unpack(packed: Vec<u8>) -> io::Result<Vec<u8>> {
    if packed.starts_with(&MAGIC) { zstd::decode_all(packed.as_slice()) } else { Ok(packed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_packed_comes_back() {
        let mut packer = Packer::default();
        let long = "the same again ".repeat(100);
        let magic = [&MAGIC[..], b"not compressed"].concat();
        for bytes in [&b""[..], b"short", long.as_bytes(), &magic] {
            let packed = packer.pack(bytes).unwrap().into_owned();
            assert_eq!(unpack(packed).unwrap(), bytes);
        }
        assert!(packer.pack(long.as_bytes()).unwrap().len() < long.len() / 4);
    }
}
