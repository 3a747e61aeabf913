//! Checks whether each harness sends its OpenTelemetry records to the hub, and how to set that.

use std::fs;

use subscope_harness::{Harness, OtelSetup, OtelTarget, harnesses};
use subscope_model::Health;

use super::Check;
use crate::{environment::Environment, hub_connection, prelude::*};

const NAME: &str = "otel";

/// Reports the destination of the records of each harness used here. Sending them is optional.
pub(super) fn targets(context: &Context) -> Vec<Check> {
    let running = context.data_folder().ok().and_then(|folder| hub_connection::greet(&folder).ok());
    let url = match running {
        Some((_, Health { url, .. })) => url.to_string(),
        None => format!("http://{}", context.settings().hub.listen),
    };
    let all = harnesses().filter_map(|harness| Some((harness, harness.otel_setup()?)));
    all.filter_map(|(harness, setup)| target(harness, setup, &url, &context.environment)).collect()
}

/// Returns the check of a harness; `None` if it was never used.
fn target(harness: &dyn Harness, setup: &OtelSetup, url: &str, environment: &Environment) -> Option<Check> {
    let variables = |name: &str| environment.get(name);
    let home = harness.home(&variables).folder;
    if !home.is_dir() {
        return None;
    }
    let text = setup.file.and_then(|file| fs::read_to_string(home.join(file)).ok()).unwrap_or_default();
    Some(check(harness.title(), &(setup.target)(&text, &variables), url, &(setup.how)(url)))
}

fn check(title: &str, target: &OtelTarget, url: &str, how: &str) -> Check {
    match target {
        OtelTarget::Receiver(endpoint) if is_same_port(endpoint, url) => {
            Check::ok(NAME, format!("{title} sends OpenTelemetry to the hub: {endpoint}"))
        }
        OtelTarget::Receiver(endpoint) => {
            Check::ok(NAME, format!("{title} sends OpenTelemetry to {endpoint}, not to the hub at {url}"))
                .hint(how)
        }
        OtelTarget::File(file) => Check::ok(NAME, format!("{title} writes OpenTelemetry into {file}")),
        OtelTarget::Nowhere => {
            Check::ok(NAME, format!("OpenTelemetry from {title}: off (optional)")).hint(how)
        }
    }
}

/// Whether two URLs are of one port of this machine.
fn is_same_port(one: &str, other: &str) -> bool {
    let authority = |url: &str| -> Option<String> {
        let (_, rest) = url.split_once("://")?;
        let authority = rest.split('/').next().unwrap_or(rest);
        let (host, port) = authority.rsplit_once(':')?;
        let is_here = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
        Some(if is_here { format!("here:{port}") } else { authority.to_owned() })
    };
    authority(one).is_some_and(|one| Some(one) == authority(other))
}

#[cfg(test)]
mod tests {
    use super::{super::CheckState, *};

    #[test]
    fn check_says_whether_records_come_here_and_how_they_would() {
        let url = "http://127.0.0.1:7337";
        let said = |target: OtelTarget| {
            let check = check("X", &target, url, "do so");
            (check.state, check.says, check.hint)
        };
        let to = |url: &str| OtelTarget::Receiver(url.to_owned());
        for here in ["http://localhost:7337", "http://127.0.0.1:7337/v1/logs"] {
            let (state, says, hint) = said(to(here));
            assert!(state == CheckState::Ok && says.contains("to the hub: ") && hint.is_none(), "{says}");
        }
        for elsewhere in ["http://127.0.0.1:4318", "https://otel.example:7337", "nonsense"] {
            let (state, says, hint) = said(to(elsewhere));
            assert!(state == CheckState::Ok && says.contains("not to the hub") && hint.is_some(), "{says}");
        }
        assert_eq!(said(OtelTarget::Nowhere).2.as_deref(), Some("do so"));
    }
}
