//! `subscope doctor`: checks what subscope needs on this machine, one line per check.
//!
//! To add a check: write a function that returns a [`Check`] in the module of its subject, and call it in `run_checks`.

mod machine;
mod otel;
mod remotes;
mod repair;
mod sessions;
mod setup;
mod survey;
mod team;

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;
use subscope_render::{Style, safe, text};

use self::survey::Survey;
use super::{history, target::roots};
use crate::prelude::*;

/// Width of the name column.
const NAME_WIDTH: usize = 10;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    /// As it should be.
    Ok,
    /// It works, but perhaps not as expected.
    Warning,
    /// Something is broken.
    Failure,
}

/// Output of `--json` (subscope.doctor/1).
#[derive(Serialize, JsonSchema)]
pub(crate) struct DoctorReport {
    schema: &'static str,
    /// Whether nothing is broken.
    ok: bool,
    checks: Vec<Check>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Check {
    name: &'static str,
    state: CheckState,
    says: String,
    /// What the user can do about it.
    hint: Option<String>,
}

impl Check {
    fn new(name: &'static str, state: CheckState, says: impl Into<String>) -> Self {
        Self { name, state, says: says.into(), hint: None }
    }

    fn ok(name: &'static str, says: impl Into<String>) -> Self {
        Self::new(name, CheckState::Ok, says)
    }

    fn warning(name: &'static str, says: impl Into<String>) -> Self {
        Self::new(name, CheckState::Warning, says)
    }

    fn failure(name: &'static str, says: impl Into<String>) -> Self {
        Self::new(name, CheckState::Failure, says)
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Runs all checks, prints them, and fails if something is broken.
pub(crate) fn run(args: DoctorArgs, context: &Context) -> Result<(), CliError> {
    if args.repair {
        return repair::repair(context);
    }
    let checks = run_checks(context);
    let broken = checks.iter().filter(|check| check.state == CheckState::Failure).count();
    if args.json {
        output::print_json(&DoctorReport { schema: "subscope.doctor/1", ok: broken == 0, checks })?;
    } else {
        output::print(&render(&checks, &context.style(None)))?;
    }
    match broken {
        0 => Ok(()),
        1 => Err(CliError::failed("1 check failed")),
        more => Err(CliError::failed(format!("{more} checks failed"))),
    }
}

/// Returns the report as text without colors.
pub(super) fn report(context: &Context) -> String {
    let style = Style { color: false, ..context.style(None) };
    render(&run_checks(context), &style)
}

fn run_checks(context: &Context) -> Vec<Check> {
    let now_ms = context.now_ms();
    let roots = roots(context);
    let survey = Survey::of(&roots, now_ms);
    let mut checks = vec![machine::version()];
    checks.extend(sessions::homes(&context.environment));
    checks.push(sessions::sessions(&survey, now_ms));
    checks.extend(sessions::not_understood(&roots));
    checks.push(sessions::watched(&roots, &survey));
    checks.extend(machine::watch_limits(&survey));
    checks.extend(setup::settings(&context.config));
    checks.push(setup::prices(context.prices(), now_ms));
    checks.push(setup::store(context.data_folder()));
    checks.extend(setup::texts(context.data_folder()));
    checks.extend(setup::hub(context));
    checks.extend(setup::hooks(context));
    checks.extend(otel::targets(context));
    checks.extend(setup::archive(history::archive(context)));
    checks.extend(team::forwarding(context));
    checks.extend(remotes::machines(context));
    checks.extend(setup::terminal(&context.terminal));
    checks
}

fn render(checks: &[Check], style: &Style) -> String {
    let mut out = String::new();
    for check in checks {
        let glyphs = style.glyphs();
        let icon = match check.state {
            CheckState::Ok => glyphs.completed,
            CheckState::Warning => "!",
            CheckState::Failure => glyphs.failed,
        };
        let says = safe::line(&check.says, style.charset());
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{icon} {} {says}", text::pad(check.name, NAME_WIDTH));
        if let Some(hint) = &check.hint {
            let _ = writeln!(out, "  {} {}", text::pad("", NAME_WIDTH), safe::line(hint, style.charset()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_checks_with_icon_name_and_hint() {
        let checks = [
            Check::ok("version", "1"),
            Check::warning("limits", "few\u{1b}[2J"),
            Check::failure("settings", "wrong").hint("mend\nit"),
        ];
        let style = |ascii| Style { color: false, ascii, width: 80 };
        insta::assert_snapshot!(render(&checks, &style(false)), @r"
        ✓ version    1
        ! limits     few␛[2J
        ✗ settings   wrong
                     mend it
        ");
        insta::assert_snapshot!(render(&checks, &style(true)), @r"
        + version    1
        ! limits     few<ESC>[2J
        x settings   wrong
                     mend it
        ");
    }
}
