//! Messages and what they make of state.
