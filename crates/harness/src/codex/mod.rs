//! OpenAI Codex CLI.
//!
//! * [`layout`]: its rollouts, and which of them are of one session.
//! * Dialects: [`rollout`] decodes the file of one thread, the primary source ([`lines`] has its lines), [`exec`] what
//!   `codex exec --json` prints, [`app_server`] what `codex app-server` writes to its client, [`hook`] the payloads of
//!   its hooks, and [`otel`] OpenTelemetry records. [`recognize`] finds the dialect of a line.
//! * Its forks: [`forks`].
//! * Shared by the dialects: [`tools`] (tool calls and their ends), [`prompts`] (what a person asked).

mod app_server;
mod exec;
mod forks;
mod hook;
mod hook_support;
mod layout;
mod lines;
mod otel;
mod prompts;
mod recognize;
mod rollout;
mod run_plan;
mod stated;
mod tools;

use std::path::{Path, PathBuf};

use subscope_decode::{
    Dialect, DialectSpec, Lifecycle, LineSession, LinesDecoder,
    otlp::{OtelLines, OtelSource, session_of_line, session_of_lines},
    session_of as line_names,
};
use subscope_model::ToolClass;

pub use self::forks::{TRAEX, traex};
use crate::acp::{AcpAgent, AgentWords, PromptTokens};
use crate::otel_setup::{OtelSetup, OtelTarget};
use crate::{Harness, HeadLine, Home, HookSupport, Place, RunPlan, SelfReport, SessionFiles, Variables};

/// The harness.
#[derive(Debug)]
pub struct Codex;

const NAME: &str = "codex";

/// The rollout of a thread.
pub const ROLLOUT: Dialect = Dialect::new(&rollout_spec(NAME, "codex.rollout", true));

/// What `codex exec --json` prints.
pub const EXEC: Dialect = Dialect::new(&exec_spec(NAME, "codex.exec", true));

/// What `codex app-server` writes to its client: messages of JSON-RPC, of all threads of a connection.
pub const APP_SERVER: Dialect = Dialect::new(&app_server_spec(NAME, "codex.app-server", true));

/// The dialect of rollouts, of a program that writes them.
pub(crate) const fn rollout_spec(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_shared,
        ..DialectSpec::new(name, |hint| Box::new(LinesDecoder::new(hint.source, rollout::Rollout::new(hint))))
    }
}

/// The dialect of what a one-shot run prints.
pub(crate) const fn exec_spec(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_shared,
        session_of: exec::session_of,
        lifecycle: Lifecycle { changes: exec::CHANGES, opens: Some(exec::OPENS), spawns: None },
        ..DialectSpec::new(name, |hint| Box::new(LinesDecoder::new(hint.source, exec::Exec::new(hint))))
    }
}

/// The dialect of what a server writes to its client.
pub(crate) const fn app_server_spec(
    harness: &'static str,
    name: &'static str,
    is_shared: bool,
) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_shared,
        lifecycle: Lifecycle { changes: app_server::CHANGES, opens: Some(app_server::OPENS), spawns: None },
        ..DialectSpec::new(name, |hint| {
            Box::new(LinesDecoder::new(hint.source, app_server::AppServer::new(hint)))
        })
    }
}

/// Hook payloads, one per line.
pub const HOOK: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| lines.split(|byte| *byte == b'\n').find_map(line_names),
    line_session: |line| line_names(line).map_or(LineSession::Same, LineSession::Named),
    ..DialectSpec::new("codex.hook", |hint| Box::new(LinesDecoder::new(hint.source, hook::Hooks::new(hint))))
});

/// OpenTelemetry records: log events of all threads.
pub const OTEL: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| session_of_lines(&otel::RECORDS, lines),
    line_session: |line| session_of_line(&otel::RECORDS, line),
    ..DialectSpec::new("codex.otel", |hint| {
        let lines = OtelLines::new(otel::Records::default(), (hint.otel_sources)(), hint.session.clone());
        Box::new(LinesDecoder::new(hint.source, lines))
    })
});

/// The table `otel` of its settings: an exporter is `none` or a table with its endpoint.
const OTEL_SETUP: OtelSetup = OtelSetup {
    file: Some("config.toml"),
    target: |text, _| {
        let settings: toml::Table = text.parse().unwrap_or_default();
        let exporters = ["exporter", "trace_exporter"].into_iter();
        let exporters = exporters.filter_map(|name| settings.get("otel")?.get(name)?.as_table());
        let endpoint = |exporter: &toml::Value| exporter.get("endpoint")?.as_str().map(str::to_owned);
        let mut endpoints = exporters.flat_map(toml::Table::values).filter_map(endpoint);
        endpoints.next().map_or(OtelTarget::Nowhere, OtelTarget::Receiver)
    },
    how: |url| {
        format!(
            "in its config.toml: [otel] exporter = {{ otlp-http = {{ endpoint = \"{url}/v1/logs\", protocol = \"binary\" }} }}"
        )
    },
};

/// codex-acp, which starts Codex for editors. Observed: 2.6.0.
const ACP: AcpAgent = AcpAgent {
    names: &["@agentclientprotocol/codex-acp", "@zed-industries/codex-acp", "codex-acp"],
    programs: &["codex-acp"],
    tools: &[
        ("spawnAgent", "spawn_agent"),
        ("sendInput", "send_input"),
        ("resumeAgent", "resume_agent"),
        ("wait", "wait_agent"),
        ("closeAgent", "close_agent"),
    ],
    about: AgentWords::Task,
    tokens: PromptTokens::Root,
    ..AcpAgent::PLAIN
};

impl Harness for Codex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Codex"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[ROLLOUT, EXEC, APP_SERVER, HOOK, OTEL]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        recognize::recognize(line)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns `CODEX_HOME`, else `$HOME/.codex`.
    fn home(&self, variables: Variables<'_>) -> Home {
        Home::named(variables, layout::HOME_VARIABLE, layout::HOME_FOLDER)
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        let home = self.home(variables).folder;
        layout::FOLDERS.iter().map(|name| home.join(name)).collect()
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::classify(path)
    }

    fn classify_below(&self, _: &Path, path: &Path) -> Option<Place> {
        self.classify(path)
    }

    /// A child's rollout names the session of its root.
    fn target(&self, path: &Path) -> Option<SessionFiles> {
        layout::thread_of(path)?;
        Some(layout::files(path, &layout::session_at(path)?))
    }

    fn session_files(&self, _: &Path, path: &Path, session: &str) -> SessionFiles {
        layout::files(path, session)
    }

    fn session_of_folder(&self, _: &Path, _: &Path) -> Option<SessionFiles> {
        None
    }

    fn complete(&self, path: &Path, _: &Place, line: &[u8]) -> Option<Place> {
        layout::complete(path, line)
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        layout::rollouts_of(root, session)
    }

    fn acp(&self) -> Option<&'static AcpAgent> {
        Some(&ACP)
    }

    fn otel(&self) -> Option<&'static OtelSource> {
        Some(&otel::RECORDS)
    }

    fn otel_setup(&self) -> Option<&'static OtelSetup> {
        Some(&OTEL_SETUP)
    }

    fn hooks(&self) -> Option<&'static dyn HookSupport> {
        Some(&Codex)
    }

    fn provider(&self) -> Option<(&'static str, &'static [&'static str])> {
        Some(("openai", &["gpt-", "o1", "o3", "o4", "codex-"]))
    }

    fn gaps(&self) -> &'static [&'static str] {
        &[
            "`codex exec --json` prints no agent of the second generation",
            "hooks do not say that a command failed, nor that an agent failed or was interrupted",
        ]
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some(
            "Codex obeys no answer to a hook that ends an agent: it passes the answer on to the model, and the agent continues (0.169.0)",
        )
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        Some(&run_plan::PROGRAM)
    }
}
