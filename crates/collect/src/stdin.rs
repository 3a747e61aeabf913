//! Reads a pipe to its end.

use std::io::{self, Read};

use crate::read::read_chunk_by_chunk;

/// Reads to the end, passes on each chunk as soon as it comes, with the offset of its first byte, and returns
/// how many bytes there were.
///
/// # Errors
///
/// Errors of the operating system; the chunks before it have been passed on.
pub fn read_chunks(mut reader: impl Read, each: &mut dyn FnMut(u64, &[u8])) -> io::Result<u64> {
    read_chunk_by_chunk(&mut reader, 0, u64::MAX, &mut Vec::new(), each)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its parts one by one, each after an interruption.
    struct Parts(Vec<&'static [u8]>, bool);

    impl Read for Parts {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0);
            buffer[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    #[test]
    fn read_chunks_hands_over_each_part_with_its_offset() {
        let mut seen = Vec::new();
        let parts = Parts(vec![b"{\"a\":", b"1}\n", b"tail"], false);
        let total = read_chunks(parts, &mut |offset, bytes| seen.push((offset, bytes.to_vec()))).unwrap();
        assert_eq!(total, 12);
        assert_eq!(seen, [(0, b"{\"a\":".to_vec()), (5, b"1}\n".to_vec()), (8, b"tail".to_vec())]);
    }
}
