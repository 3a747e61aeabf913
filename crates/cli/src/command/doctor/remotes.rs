//! Checks of the connections to other machines (`[[remote]]`).

use super::Check;
use crate::{command::remote, prelude::*};

/// Reports each machine of the settings.
pub(super) fn machines(context: &Context) -> Vec<Check> {
    if context.settings().remote.is_empty() {
        return Vec::new();
    }
    let name = "remotes";
    let machines = match remote::machines(context) {
        Ok(machines) => machines,
        Err(error) => return vec![Check::failure(name, error.to_string())],
    };
    let check = |machine: &subscope_model::RemoteMachine| {
        let says = format!("{}: {}", machine.name, remote::words(machine, context));
        if machine.is_connected {
            return Check::ok(name, says);
        }
        Check::warning(name, says).hint(match machines.is_hub_running {
            true => format!("`subscope remote test {}` connects to it once", machine.name),
            false => "a hub connects to it while it runs: any command starts one".to_owned(),
        })
    };
    machines.remotes.iter().map(check).collect()
}
