//! Arguments of `subscope doctor`.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  subscope doctor
  subscope doctor --json | jq '.checks[] | select(.state != \"ok\")'

Exit code 1 if something is broken (✗). What is marked ! works, but perhaps not as you expect.";

/// Check what subscope needs on this machine, and explain what is missing.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print JSON (subscope.doctor/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
