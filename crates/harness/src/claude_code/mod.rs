//! Claude Code.
//!
//! * [`layout`]: where its files are, and the meaning of their paths.
//! * Dialects: [`transcript`] is the primary source: exact and complete, also for background and nested agents. [`stream`] is
//!   what a one-shot run prints, [`hook`] the payloads of its hooks, [`meta`] the small files next to transcripts,
//!   [`otel`] OpenTelemetry records. [`recognize`] finds the dialect of a line.
//! * Shared by the dialects: [`content`] (messages), [`tools`] (tool calls and results), [`notice`] (task notifications).
//! * Its program: [`run_plan`] says how `run` starts and observes it, [`plain_output`] what it prints for people, [`process`] what
//!   a running process notes of itself, [`lifecycle`] which lines of a stream change the state of agents.
//! * Its forks: [`forks`].
//! * Its hooks: [`hook_events`] and [`hook_support`] (which are installed, and where), [`hook_answer`] (what they are answered).

mod content;
mod forks;
mod hook;
mod hook_answer;
mod hook_events;
mod hook_permission;
mod hook_support;
mod layout;
mod lifecycle;
mod meta;
mod notice;
mod otel;
mod plain_output;
mod price_change;
mod process;
mod recognize;
mod run_plan;
mod stated;
mod stream;
mod teammate;
mod tools;
mod transcript;

use std::{
    borrow::Cow,
    collections::HashMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use serde_json::value::RawValue;
use subscope_decode::{
    Answers, Dialect, DialectSpec, Lifecycle, LineSession, LinesDecoder, ObjectDecoder, SpawnCalls,
    otlp::{OtelLines, OtelSource, session_of_line, session_of_lines},
    session_of as line_names,
};
use subscope_model::ToolClass;

pub use self::forks::{ICODEMATE_CLI, IFLOW, OPENCLAUDE, QODER, icodemate_cli, iflow, openclaude, qoder};
use self::layout::{
    HOME_FOLDER, HOME_VARIABLE, PROJECTS, SUBAGENTS, agent_of, ancestor, files, is_uuid, main_path,
    main_place, steps, surroundings,
};
use crate::acp::{AcpAgent, AgentWords, PromptTokens, parsed};
use crate::otel_setup::OtelSetup;
use crate::{
    Harness, HeadLine, Home, HookSupport, Place, Role, RunPlan, SelfReport, SessionFiles, Variables,
    harness::user_home,
};

/// The harness.
#[derive(Debug)]
pub struct ClaudeCode;

pub(crate) const NAME: &str = "claude-code";

/// Conversations on disk, one line an entry.
pub const TRANSCRIPT: Dialect = Dialect::new(&transcript_spec(NAME, "claude.transcript", true));

/// `agent-<id>.meta.json`: one object about one subagent.
pub const META: Dialect = Dialect::new(&meta_spec(NAME, "claude.meta", true));

/// A workflow's `journal.jsonl`.
pub const JOURNAL: Dialect = Dialect::new(&journal_spec(NAME, "claude.journal", true));

/// What `claude -p --output-format stream-json` prints.
pub const STREAM: Dialect = Dialect::new(&stream_spec(NAME, "claude.stream", true));

/// The dialect of transcripts, of a program that writes them.
pub(crate) const fn transcript_spec(
    harness: &'static str,
    name: &'static str,
    is_shared: bool,
) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_main: true,
        names_session: true,
        is_shared,
        session_of: |lines| lines.split(|byte| *byte == b'\n').take(LINES).find_map(layout::session_in_line),
        line_session: |line| layout::session_in_line(line).map_or(LineSession::Same, LineSession::Named),
        ..DialectSpec::new(name, |hint| {
            Box::new(LinesDecoder::new(hint.source, transcript::Transcript::new(hint)))
        })
    }
}

/// The dialect of the objects about subagents.
pub(crate) const fn meta_spec(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_object: true,
        names_session: true,
        is_ingestible: false,
        is_shared,
        ..DialectSpec::new(name, |hint| Box::new(ObjectDecoder::new(hint.source, meta::Meta(hint.clone()))))
    }
}

/// The dialect of journals of workflows.
pub(crate) const fn journal_spec(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        names_session: true,
        is_ingestible: false,
        is_shared,
        ..DialectSpec::new(name, |hint| Box::new(LinesDecoder::new(hint.source, meta::Journal(hint.clone()))))
    }
}

/// The dialect of what a one-shot run prints.
pub(crate) const fn stream_spec(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_shared,
        session_of,
        line_session,
        lifecycle: Lifecycle {
            changes: lifecycle::CHANGES,
            opens: Some(lifecycle::OPENS),
            spawns: Some(SpawnCalls {
                words: lifecycle::SPAWNS,
                result_word: lifecycle::RESULT,
                calls: lifecycle::calls,
            }),
        },
        ..DialectSpec::new(name, |hint| Box::new(LinesDecoder::new(hint.source, stream::Stream::new(hint))))
    }
}

/// Hook payloads, one per line.
pub const HOOK: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of,
    line_session,
    answers: Some(Answers { asker: hook_answer::asker, stop: hook_answer::stop_answer }),
    permissions: Some(hook_permission::PERMISSIONS),
    ..DialectSpec::new("claude.hook", |hint| Box::new(LinesDecoder::new(hint.source, hook::Hooks::new(hint))))
});

/// OpenTelemetry records: log events, spans and metrics.
pub const OTEL: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| session_of_lines(&otel::RECORDS, lines),
    line_session: |line| session_of_line(&otel::RECORDS, line),
    ..DialectSpec::new("claude.otel", |hint| {
        let lines = OtelLines::new(otel::Records::new(hint), (hint.otel_sources)(), hint.session.clone());
        Box::new(LinesDecoder::new(hint.source, lines))
    })
});

/// claude-agent-acp, which starts Claude Code for editors. Observed: 0.101.0. Calls have ids of the API.
const ACP: AcpAgent = AcpAgent {
    names: &[
        "@agentclientprotocol/claude-agent-acp",
        "@zed-industries/claude-agent-acp",
        "@zed-industries/claude-code-acp",
    ],
    programs: &["claude-agent-acp", "claude-code-acp"],
    has_local_ids: false,
    about: AgentWords::Type,
    tokens: PromptTokens::Root,
    meta: |raw| {
        let meta: HashMap<Cow<'_, str>, &RawValue> = parsed(raw);
        parsed(meta.get("claudeCode").copied())
    },
    ..AcpAgent::PLAIN
};

impl Harness for ClaudeCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[TRANSCRIPT, META, JOURNAL, STREAM, HOOK, OTEL]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        recognize::recognize(line)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns `CLAUDE_CONFIG_DIR`, else `$HOME/.claude`.
    fn home(&self, variables: Variables<'_>) -> Home {
        Home::named(variables, HOME_VARIABLE, HOME_FOLDER)
    }

    /// Returns `claude` in `XDG_CONFIG_HOME` or `$HOME/.config`, which some versions have used.
    fn other_homes(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        let config = variables("XDG_CONFIG_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
        vec![config.unwrap_or_else(|| user_home(variables).join(".config")).join("claude")]
    }

    fn work_tree_folder(&self) -> Option<&'static str> {
        Some(".claude/worktrees")
    }

    /// Observed: Claude Code 2.1.332. It stays that of the session in which the server was started.
    fn session_variable(&self) -> Option<&'static str> {
        Some("CLAUDE_CODE_SESSION_ID")
    }

    fn project_variable(&self) -> Option<&'static str> {
        Some("CLAUDE_PROJECT_DIR")
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder.join(PROJECTS)]
    }

    /// Names that are not UTF-8 are not recognized.
    ///
    /// A `.jsonl` file is a main transcript if its name is a UUID, or if it is in a folder of a `projects`
    /// folder. A main transcript that was copied elsewhere under another name is not recognized.
    fn classify(&self, path: &Path) -> Option<Place> {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let (workflow, session) = surroundings(path);
        if let Some((agent, role)) = agent_of(name) {
            let dialect = Some(if role == Role::Agent { TRANSCRIPT } else { META });
            return Some(Place { role, dialect, session, agent: Some(agent.to_owned()), workflow });
        }
        if name == "journal.jsonl" && workflow.is_some() {
            return Some(Place { role: Role::Note, dialect: Some(JOURNAL), session, agent: None, workflow });
        }
        let stem = name.strip_suffix(".jsonl")?;
        (is_uuid(stem) || ancestor(path, 2) == Some(PROJECTS)).then(|| main_place(stem))
    }

    fn classify_below(&self, root: &Path, path: &Path) -> Option<Place> {
        let (_, top, is_file) = steps(root, path)?;
        let place = self.classify(path);
        if !is_file {
            let place = place.filter(|place| matches!(place.role, Role::Agent | Role::Note))?;
            return Some(Place { session: Some(top.to_owned()), ..place });
        }
        match place {
            // Subagents of 2.0.x name their session inside.
            Some(place) if place.role == Role::Agent => Some(Place { session: None, ..place }),
            Some(place) if place.role == Role::Note => None,
            Some(place) => Some(place),
            None if path.extension().is_some_and(|extension| extension == "jsonl") => {
                Some(main_place(path.file_stem()?.to_str()?))
            }
            None => None,
        }
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        let project = path.parent()?;
        if path.is_dir() {
            let session = path.file_name()?.to_str()?;
            let is_session = path.join(SUBAGENTS).is_dir() || main_path(project, session).is_file();
            return is_session.then(|| files(project, session));
        }
        let is_main = match self.classify(path) {
            Some(place) => place.role == Role::Main,
            None => path.with_extension("").join(SUBAGENTS).is_dir(),
        };
        is_main.then(|| Some(files(project, path.file_stem()?.to_str()?)))?
    }

    fn session_files(&self, root: &Path, path: &Path, session: &str) -> SessionFiles {
        let project = steps(root, path).map_or(path.parent().unwrap_or(path), |(project, ..)| project);
        files(project, session)
    }

    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles> {
        let (project, session, _) = steps(root, folder)?;
        Some(files(project, session))
    }

    fn skips_folder(&self, name: &OsStr) -> bool {
        name == layout::TOOL_RESULTS
    }

    fn companion(&self, transcript: &Path) -> Option<PathBuf> {
        let is_agent = self.classify(transcript).is_some_and(|place| place.role == Role::Agent);
        is_agent.then(|| transcript.with_extension("meta.json"))
    }

    fn complete(&self, _: &Path, place: &Place, line: &[u8]) -> Option<Place> {
        Some(Place { session: Some(layout::session_in_line(line)?), ..place.clone() })
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        let projects = fs::read_dir(root).into_iter().flatten().flatten();
        projects.map(|project| main_path(&project.path(), session)).filter(|path| path.is_file()).collect()
    }

    fn short_model<'m>(&self, model: &'m str) -> Option<&'m str> {
        model.strip_prefix("claude-")
    }

    fn provider(&self) -> Option<(&'static str, &'static [&'static str])> {
        Some(("anthropic", &["claude-"]))
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        Some(&ClaudeCode)
    }

    fn acp(&self) -> Option<&'static AcpAgent> {
        Some(&ACP)
    }

    fn otel(&self) -> Option<&'static OtelSource> {
        Some(&otel::RECORDS)
    }

    fn otel_setup(&self) -> Option<&'static OtelSetup> {
        Some(&hook_support::OTEL_SETUP)
    }

    fn hooks(&self) -> Option<&'static dyn HookSupport> {
        Some(&ClaudeCode)
    }
}

/// Most lines searched for one that names its session: almost every line does.
const LINES: usize = 8;

/// Returns the session that the first of these lines names.
fn session_of(lines: &[u8]) -> Option<String> {
    lines.split(|byte| *byte == b'\n').take(LINES).find_map(line_names)
}

/// Returns the session that a line names; one that names none belongs to the line before it.
fn line_session(line: &[u8]) -> LineSession {
    line_names(line).map_or(LineSession::Same, LineSession::Named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_that_names_a_session_says_whose_all_are() {
        let cases: [(&str, Option<&str>); 6] = [
            ("{\"session_id\":\"s\",\"hook_event_name\":\"Stop\"}\n", Some("s")),
            ("{\"type\":\"control\"}\n\n{\"session_id\":\"t\"}\n{\"session_id\":\"u\"}\n", Some("t")),
            ("{\"session_id\":\"a\\u002fb\"}", Some("a/b")),
            ("{\"session_id\":\"\"}\n{\"session_id\":7}", None),
            ("not JSON", None),
            ("", None),
        ];
        for (lines, session) in cases {
            assert_eq!(HOOK.session_of(lines.as_bytes()).as_deref(), session, "{lines}");
            assert_eq!(STREAM.session_of(lines.as_bytes()).as_deref(), session, "{lines}");
        }
    }
}
