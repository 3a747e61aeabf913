//! Whether an agent must name its answer.

/// Whether an agent must call `final_answer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalAnswer {
    /// A run without the call fails.
    Required,
    /// Without the call, the last message is the answer.
    Optional,
}
