//! What several harnesses share.

pub(crate) mod parts;
