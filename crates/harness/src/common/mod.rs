//! What several harnesses share.

pub(crate) mod parts;
pub(crate) mod tools;

use subscope_model::RawJson;

/// The text of a prompt without text: the user may send images only.
pub(crate) const EMPTY_TEXT: RawJson<'static> = RawJson { json: "\"\"", offset: u64::MAX };
