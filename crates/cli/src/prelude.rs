//! What nearly every command uses.

pub(crate) use subscope_program::{CliError, ErrorKind, Verbosity};

pub(crate) use crate::{
    args::*,
    context::Context,
    hub_connection::{Backend, Needs},
    output,
};
