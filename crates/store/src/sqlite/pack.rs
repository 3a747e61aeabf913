//! How bytes are compressed: with contexts that are made once, since what is packed is often smaller than they are.

use std::io;

use zstd::bulk::Compressor;

/// How hard: the first level is several times faster than the disk and saves two thirds.
const LEVEL: i32 = 1;

#[derive(Default)]
pub(super) struct Packer(Option<Compressor<'static>>);

impl Packer {
    pub(super) fn pack(&mut self, bytes: &[u8]) -> rusqlite::Result<Vec<u8>> {
        let failed = |error: io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        let compressor = match &mut self.0 {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(LEVEL).map_err(failed)?),
        };
        compressor.compress(bytes).map_err(failed)
    }
}
