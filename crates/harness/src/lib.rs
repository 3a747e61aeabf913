//! All knowledge about vendors, and nothing else: one folder for each harness, and the registry.
//!
//! A harness is a folder with a [`Harness`] and a line in [`HARNESSES`]. It provides its dialects (each a decoder in a
//! [`subscope_decode::DialectSpec`]), the layout of its files, how its program is observed when `run` starts it, and
//! its hooks. No other crate names a vendor.
//!
//! Nothing here keeps a file open, starts a thread or reads a clock.

pub mod acp;
mod bundle;
pub mod claude_code;
pub mod cline;
pub mod codex;
mod common;
pub mod copilot;
pub mod crush;
pub mod forks;
pub mod gemini;
mod harness;
mod hook_settings;
mod hooks;
pub mod kimi;
mod marks;
pub mod opencode;
mod otel_setup;
mod paths;
pub mod pi;
mod plugins;
pub mod qwen;
mod recognize;
mod run;
mod self_report;
pub mod task_folders;
mod unsupported;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::OnceLock,
};

pub use bundle::{Bundle, FolderBundle, SqlBundle, TaskBundle};
pub use forks::renamed_by_path;
use harness::roots_of;
pub use harness::{Harness, HeadLine, Home, Place, Role, Root, SessionFiles, Variables, homes};
pub use hooks::{
    HookEvent, HookHandler, HookSettings, HookSupport, PROGRAM, SettingsError, SettingsScope, TOKEN_VARIABLE,
    is_own_program, quoted, runs_ours, shell_command,
};
pub use otel_setup::{OtelSetup, OtelTarget};
pub use plugins::{HookTrust, PluginSetup, PluginSwitch, SKILL_FILE};
pub use recognize::recognize;
pub use run::{
    ObserveMode, Observed, PlainOutput, ProcessNote, ProcessNotes, RunPlan, RunSurroundings, Version,
};
pub use self_report::{Figure, SelfReport, StatedFigures, StatedScope, StatedTotal, Statement};
pub use subscope_decode::otlp::{
    BodyError, Divided, Encoding, KeptLine, MAX_BODY_BYTES as MAX_OTLP_BYTES, Signal, answer as otlp_answer,
};
use subscope_decode::{
    Dialect, OWN,
    otlp::{OtelSource, Service},
};
use subscope_model::ToolClass;
pub use unsupported::{is_lookalike, unsupported_program};

/// The registry: one line for each harness. The first that recognizes a path or a line wins; list a
/// harness with unspecific file names after those with specific ones, and a fork before what it is a fork of.
pub static HARNESSES: &[&dyn Harness] = &[
    &codex::TRAEX,
    &claude_code::IFLOW,
    &claude_code::QODER,
    &claude_code::OPENCLAUDE,
    &claude_code::ICODEMATE_CLI,
    &codex::Codex,
    &copilot::Copilot,
    &gemini::Gemini,
    &qwen::Qwen,
    &kimi::Kimi,
    &cline::Cline,
    &task_folders::CLINE_TASKS,
    &task_folders::ROO,
    &task_folders::KILO_TASKS,
    &crush::Crush,
    &pi::OMP,
    &pi::PI,
    &pi::OPENCLAW,
    &opencode::KILO,
    &opencode::MIMOCODE,
    &opencode::ICODEMATE,
    &opencode::OPENCODE,
    &claude_code::ClaudeCode,
];

/// The harnesses of the registry that are forks with the lines and folders of their parents.
pub(crate) static FORKS: &[&forks::Fork] = &[
    &claude_code::IFLOW,
    &claude_code::QODER,
    &claude_code::OPENCLAUDE,
    &claude_code::ICODEMATE_CLI,
    &codex::TRAEX,
];

/// A harness that is not in the registry.
static REGISTERED: OnceLock<&'static dyn Harness> = OnceLock::new();

/// Adds a harness to the registry of this process, in front of the others: for tests, and for programs that bring their
/// own. Only the first that is added counts.
pub fn register(harness: &'static dyn Harness) {
    REGISTERED.get_or_init(|| harness);
}

/// Returns all harnesses.
pub fn harnesses() -> impl Iterator<Item = &'static dyn Harness> {
    REGISTERED.get().into_iter().chain(HARNESSES).copied()
}

/// Returns all dialects: those of the harnesses, that of the protocol which many of them speak, then ours.
pub fn dialects() -> impl Iterator<Item = Dialect> {
    let of_harnesses = harnesses().flat_map(|harness| harness.dialects().iter().copied());
    of_harnesses.chain([acp::MESSAGES]).chain(OWN.iter().copied())
}

/// Returns the dialect of a name.
pub fn dialect(name: &str) -> Option<Dialect> {
    dialects().find(|dialect| dialect.as_str() == name)
}

/// Returns the harness that writes a dialect.
pub fn harness_of(dialect: Dialect) -> Option<&'static dyn Harness> {
    harnesses().find(|harness| dialect.harness() == Some(harness.name()))
}

/// Returns how the OpenTelemetry records of all harnesses with a dialect of their own are known.
pub fn otel_sources() -> Vec<&'static OtelSource> {
    harnesses().filter_map(Harness::otel).collect()
}

/// Divides the body of a request of OpenTelemetry into lines for each dialect and session.
///
/// # Errors
/// Why it is no request.
pub fn divide_otlp(signal: Signal, encoding: Encoding, body: &[u8]) -> Result<Divided, BodyError> {
    subscope_decode::otlp::divide(signal, encoding, body, &otel_sources())
}

/// Returns the harness that calls itself so in OpenTelemetry's `service.name`.
pub fn harness_of_service(service: &str) -> Option<Service> {
    let is_of = |harness: &&'static dyn Harness| {
        harness.name() == service || harness.otel_services().contains(&service)
    };
    let known = harnesses().find(is_of)?;
    Some(Service { harness: known.name(), is_unpriced: known.is_unpriced() })
}

/// Returns the class of a tool whose harness is not known.
pub fn tool_class(tool: &str) -> ToolClass {
    let classes = harnesses().map(|harness| harness.tool_class(tool));
    classes.into_iter().find(|class| *class != ToolClass::Other).unwrap_or(ToolClass::Other)
}

/// Returns the folders that transcripts are below. They need not exist.
pub fn roots(variables: Variables<'_>) -> Vec<Root> {
    let of = |harness: &'static dyn Harness| {
        roots_of(harness, variables).into_iter().map(move |folder| Root { harness, folder })
    };
    let mut found: Vec<Root> = Vec::new();
    // Of programs that share a folder the first has it.
    for root in harnesses().flat_map(of) {
        if found.iter().all(|known| known.folder != root.folder) {
            found.push(root);
        }
    }
    found
}

/// Classifies a file by its path. Nothing is read.
pub fn classify(path: &Path) -> Place {
    if unsupported::is_of_other(path) {
        return Place::UNKNOWN;
    }
    harnesses().find_map(|harness| harness.classify(path)).unwrap_or(Place::UNKNOWN)
}

/// Returns the form of a file or folder that holds many sessions. Looks at names on disk only.
pub fn bundle(path: &Path) -> Option<&'static Bundle> {
    harnesses().find_map(|harness| harness.bundle(path))
}

/// Returns the session that a file or folder names as a TARGET. Looks at names on disk only. A file whose path is that of
/// one harness is not asked of another: the name of an agent's file may be that of a session elsewhere.
pub fn target(path: &Path) -> Option<SessionFiles> {
    match harnesses().find(|harness| harness.classify(path).is_some()) {
        Some(owner) => owner.target(path),
        None => harnesses().find_map(|harness| harness.target(path)),
    }
}

/// Returns the file that goes with a transcript and is read with it when that is a TARGET alone.
pub fn companion(transcript: &Path) -> Option<PathBuf> {
    harnesses().find_map(|harness| harness.companion(transcript))
}

/// Whether a folder of this name holds no transcripts and is not listed.
pub fn skips_folder(name: &OsStr) -> bool {
    harnesses().any(|harness| harness.skips_folder(name))
}

/// Returns how programs of a name are started and observed, where they are a harness's.
pub fn run_plan(program: &str) -> Option<&'static dyn RunPlan> {
    harnesses().filter_map(|harness| harness.run()).find(|plan| plan.program() == program)
}

/// Returns the dialect of lines that a program printed, by their content and by the program's name; `None` where none is
/// recognized.
pub fn recognize_printed(program: Option<&str>, lines: &[u8]) -> Option<Dialect> {
    let found = recognize(lines)?;
    let runs = |harness: &&dyn Harness, name| harness.run().map(RunPlan::program) == Some(name);
    let harness = program.and_then(|name| harnesses().find(|harness| runs(harness, name)));
    Some(harness.map_or(found, |harness| harness.printed(found)))
}

/// Returns the keys under which calls of MCP tools name, in their `_meta`, the tool call of the model that caused them.
pub fn caller_id_keys() -> impl Iterator<Item = &'static str> {
    harnesses().filter_map(|harness| harness.run()?.caller_id_key())
}

/// Returns the harnesses whose hooks `subscope hooks` installs and `subscope hook` takes.
pub fn hooked() -> impl Iterator<Item = (&'static dyn Harness, &'static dyn HookSupport)> {
    harnesses().filter_map(|harness| Some((harness, harness.hooks()?)))
}

/// Returns the harness of this name with its hooks.
pub fn hooks_of(name: &str) -> Option<(&'static dyn Harness, &'static dyn HookSupport)> {
    hooked().find(|(harness, _)| harness.name() == name)
}

/// Returns the harness that runs a hook whose command names none: [`DEFAULT_HOOKED`], unless another is recognized.
pub fn calling_harness(
    variables: Variables<'_>,
    payload: &[u8],
) -> Option<(&'static dyn Harness, &'static dyn HookSupport)> {
    let caller = hooked().find(|(_, hooks)| hooks.is_caller(variables, payload));
    caller.or_else(|| hooks_of(DEFAULT_HOOKED))
}

/// The harness that the commands about hooks mean where none is named.
pub const DEFAULT_HOOKED: &str = claude_code::NAME;

/// Returns OpenTelemetry's name of the provider of a model that a harness used; `None` if neither determines it.
pub fn provider(harness: Option<&str>, model: Option<&str>) -> Option<&'static str> {
    let own = harnesses().find(|known| Some(known.name()) == harness).and_then(Harness::provider);
    if let Some((name, [])) = own {
        return Some(name);
    }
    let is_of =
        |models: &[&str]| model.is_some_and(|model| models.iter().any(|start| model.starts_with(start)));
    let by_model = harnesses().filter_map(Harness::provider).find(|(_, models)| is_of(models));
    by_model.or(own).map(|(name, _)| name)
}

/// Returns the name of a model without what all models of its vendor begin with.
pub fn short_model(model: &str) -> &str {
    harnesses().find_map(|harness| harness.short_model(model)).unwrap_or(model)
}
