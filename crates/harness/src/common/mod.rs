//! What several harnesses share.

pub(crate) mod parts;
pub(crate) mod tools;
