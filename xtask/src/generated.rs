//! Pages of the documentation that tests compare with the code that generates them: harnesses, keys, routes, commands, JSON Schemas.

use anyhow::Result;

use crate::step::{cargo, run};

/// Package, target and name of each test that generates pages.
const GENERATORS: [(&str, &[&str], &str); 6] = [
    ("subscope-harness", &["--test", "documentation"], "page_says_what_the_registry_says"),
    (
        "subscope-session",
        &["--test", "frameworks"],
        "every_recording_shows_what_happened_but_for_the_known_exceptions",
    ),
    ("subscope-tui", &["--lib"], "page_of_the_documentation_lists_every_key"),
    ("subscope-server", &["--lib"], "page_lists_every_route"),
    ("subscope", &["--lib"], "page_lists_every_command"),
    ("subscope", &["--lib"], "schemas_are_those_of_the_types"),
];

/// Runs the tests with the variable that makes them write their pages.
pub(crate) fn write() -> Result<()> {
    for (package, target, test) in GENERATORS {
        let mut command = cargo();
        command
            .args(["test", "--quiet", "--package", package])
            .args(target)
            .arg(test)
            .env("SUBSCOPE_WRITE_GENERATED", "1");
        run(&format!("types: {test}"), &mut command)?;
    }
    Ok(())
}
