//! What could not be understood in foreign input.

use serde::{Deserialize, Serialize};

/// Something in foreign input that could not be understood. Data, never an error: it is kept, counted and
/// shown, and nothing else is lost because of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Problem {
    /// Where: `file:line`, lines counted from 1.
    pub at: String,
    /// What was wrong, and what was done about it; a lower-case fragment without a full stop.
    pub what: String,
}
