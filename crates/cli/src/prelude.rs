//! What nearly every command uses.

pub(crate) use crate::{
    args::*,
    context::{Context, Verbosity},
    error::{CliError, ErrorKind},
    hub_connection::{Backend, Needs},
    output,
};
