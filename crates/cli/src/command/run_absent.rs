//! `subscope run` on Windows: it says that it is not there.

use std::ffi::OsString;

use crate::prelude::*;

/// Returns why nothing is run.
pub(crate) fn run(_: &RunArgs, _: &Context) -> Result<(), CliError> {
    Err(CliError::failed("subscope run does not work on Windows yet: start the command itself")
        .hint("its session is found by its files, and by hooks (`subscope hooks install`)"))
}

/// No process has the terminal alone: there is no helper.
pub(crate) fn exec_if_helper(_: &[OsString]) -> Option<u8> {
    None
}
