//! What a hook and a hub agree on: how a hook that can wait is given a person's decision.
//!
//! A hook posts its payload with [`WAITS`]. If the hub holds the payload's permission request, the response is the object
//! `{"held_permission": ID}` ([`HELD_PERMISSION`]). The hook then gets [`decision_path`], and waits for its response: a
//! [`subscope_model::PermissionDecision`], or nothing.

/// The header of a hook that can wait for a decision.
pub const WAITS: (&str, &str) = ("x-subscope-waits", "1");

/// The field of the response that names the held request.
pub const HELD_PERMISSION: &str = "held_permission";

/// Longest wait of a hook in seconds. It is shorter than the limit that hooks are installed with, after which the harness
/// kills them.
pub const LONGEST_WAIT_SECONDS: u64 = 300;

/// Returns the path at which a hook waits for the decision about its request.
pub fn decision_path(id: &str) -> String {
    format!("/hooks/permissions/{}", crate::http::escape(id))
}
