//! `subscope mcp agent` on Windows: it says that it is not there.

use crate::prelude::*;

/// Returns why no agent is served.
pub(super) fn run(_: &AgentArgs, _: &Context) -> Result<(), CliError> {
    Err(CliError::failed(
        "subscope mcp agent does not work on Windows yet: it could not end what an agent leaves behind",
    ))
}
