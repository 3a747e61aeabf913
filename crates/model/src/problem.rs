//! Problems in foreign input.

use serde::{Deserialize, Serialize};

/// Something in foreign input that could not be decoded. Data, never an error: it is stored, counted and shown, and
/// nothing else is lost because of it.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Problem {
    /// Location: `file:line` (1-based).
    pub at: String,
    /// What was wrong, and how it was handled; a lower-case fragment without a full stop.
    pub what: String,
}
