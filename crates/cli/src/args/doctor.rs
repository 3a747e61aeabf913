//! `subscope doctor`.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  subscope doctor
  subscope doctor --json | jq '.checks[] | select(.state != \"ok\")'

Exit code 1 if something is broken (✗). What is marked ! works, but perhaps not as you expect.";

/// Checks what subscope needs on this machine, and explains what is missing.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Prints JSON (subscope.doctor/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
