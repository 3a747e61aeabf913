//! MCP server that runs an agent command as a tool and publishes what the agent does.
//!
//! One call is one run: [`call`] parses the arguments, [`command`] builds the command line, [`run`] starts, supervises
//! and ends the run, [`child`] and [`process_group`] manage processes, [`output_reader`] decodes the output into events
//! and the answer, [`progress`] sends progress notifications.

mod call;
mod child;
mod command;
mod final_answer;
mod output_reader;
mod process_group;
mod progress;
mod run;
mod tail;

use std::{collections::HashMap, ffi::OsString, fmt, sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use subscope_client::publish::Publisher;
use subscope_decode::Dialect;
use subscope_harness::caller_id_keys;
use subscope_model::Millis;
use tokio::sync::watch;

use self::{
    call::AgentCall,
    run::{RunAnswer, RunFailure},
};
use crate::{
    FinalAnswer,
    stdio::{ClientGone, Shutdown},
};

/// Returns whether a user asked a run to stop, by its session (if known), its id and its start time. May block.
pub type IsStopRequested = Box<dyn Fn(Option<&str>, &str, Millis) -> bool + Send + Sync>;

/// Configuration of an agent tool.
pub struct AgentSpec {
    /// Name of the tool and of the subagent.
    pub name: String,
    /// Tool description for the model.
    pub description: Option<String>,
    /// Dialect of the command's output; `None` to detect it.
    pub dialect: Option<Dialect>,
    /// Time limit of a run.
    pub timeout: Duration,
    /// Whether the agent must call `final_answer`.
    pub final_answer: FinalAnswer,
    /// Command template: program and arguments. Not empty.
    pub command: Vec<OsString>,
    /// Id of the parent run of this process, as passed by the process that started it.
    pub parent_run_id: Option<String>,
    /// Depth of the parent run; 0 without one.
    pub parent_depth: u32,
    /// Working directory of this process and of the command.
    pub cwd: Option<String>,
    /// Publisher of the run's events.
    pub publisher: Publisher,
    /// Returns the session of the process that calls the tool, where that is known.
    pub session_of_caller: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Returns whether a user asked a run to stop.
    pub is_stop_requested: IsStopRequested,
    /// Wall clock: milliseconds since 1970.
    pub now_ms: fn() -> Millis,
    /// Prints a warning; the text is not sanitized.
    pub warn: fn(&str),
    /// Version of this program.
    pub version: &'static str,
}

impl fmt::Debug for AgentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An MCP server with one agent tool.
#[derive(Clone, Debug)]
pub struct AgentServer {
    spec: Arc<AgentSpec>,
    runs: KnownRuns,
    gone: ClientGone,
}

impl AgentServer {
    /// Creates a server for one agent.
    pub fn new(spec: AgentSpec, gone: ClientGone) -> Self {
        Self { spec: Arc::new(spec), runs: Arc::default(), gone }
    }

    fn tool(&self) -> Tool {
        let name = &self.spec.name;
        let about = self.spec.description.clone().unwrap_or_else(|| {
            format!("Hands a task to the agent `{name}` and returns its final answer when it is done.")
        });
        // The command may do anything.
        let annotations = ToolAnnotations::with_title(name.clone()).read_only(false).open_world(true);
        Tool::new_with_raw(name.clone(), Some(about.into()), Arc::new(call::schema()))
            .with_annotations(annotations)
    }

    async fn run(&self, call: AgentCall, context: RequestContext<RoleServer>) -> CallToolResult {
        let mut guard = match RunGuard::enter(&self.runs, &call.run_id) {
            Ok(guard) => guard,
            Err(is_running) => {
                let state = if is_running { "is still running" } else { "has ended" };
                return tool_error(&format!(
                    "runId {:?} belongs to a call that {state}: give each call a runId of its own",
                    call.run_id
                ));
            }
        };
        let (progress, mut notifications) = progress::start(&context);
        let cancelled = context.ct.clone().cancelled_owned();
        let caller = caller_id_keys().find_map(|key| context.meta.get(key)?.as_str().map(str::to_owned));
        let outcome = run::run(&self.spec, &call, caller, progress, cancelled, self.gone.clone()).await;
        notifications.shutdown().await;
        guard.has_run = !matches!(outcome, Err(RunFailure::NotStarted(_)));
        match outcome {
            Ok(RunAnswer::Structured(answer)) => CallToolResult::structured(answer),
            Ok(RunAnswer::Text(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(failure) => tool_error(&failure.to_string()),
        }
    }
}

/// A tool error for the model.
fn tool_error(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        let name = &self.spec.name;
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("subscope", self.spec.version).with_title(format!("subscope: {name}")))
            .with_instructions(format!(
                "The tool `{name}` runs an agent and returns its final answer. Each call needs a runId of its own."
            ))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![self.tool()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != self.spec.name.as_str() {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        }
        let call = match AgentCall::read(request.arguments.unwrap_or_default()) {
            Ok(call) => call,
            Err(wrong) => return Ok(tool_error(&wrong.to_string()).into()),
        };
        // In its own task: the SDK drops the handler when the client disconnects, but the run must be shut down.
        let server = self.clone();
        let result = tokio::spawn(async move { server.run(call, context).await }).await;
        let result = result.map_err(|_| ErrorData::internal_error("the run broke", None))?;
        Ok(result.into())
    }
}

impl Shutdown for AgentServer {
    async fn ended(&self) {
        let _ = self.runs.subscribe().wait_for(|ids| !ids.values().any(|is_running| *is_running)).await;
    }
}

/// Ids of the calls of this process, with whether they are running.
type KnownRuns = Arc<watch::Sender<HashMap<String, bool>>>;

/// Most ids of ended calls that are remembered, at most some megabytes.
const MAX_RUNS: usize = 1 << 14;

/// Registration of a running call; ended on drop.
struct RunGuard {
    runs: KnownRuns,
    run_id: String,
    /// Whether the command has run: the id of one that has not is free again.
    has_run: bool,
}

impl RunGuard {
    /// Registers a run.
    ///
    /// # Errors
    /// If one had this id before; returns whether that is still running.
    fn enter(runs: &KnownRuns, run_id: &str) -> Result<Self, bool> {
        let mut known = None;
        runs.send_if_modified(|ids| {
            known = ids.get(run_id).copied();
            if known.is_none() {
                ids.insert(run_id.to_owned(), true);
            }
            known.is_none()
        });
        known.map_or_else(
            || Ok(Self { runs: Arc::clone(runs), run_id: run_id.to_owned(), has_run: true }),
            Err,
        )
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.runs.send_if_modified(|ids| {
            let is_kept = self.has_run && ids.len() <= MAX_RUNS;
            let known =
                if is_kept { ids.insert(self.run_id.clone(), false) } else { ids.remove(&self.run_id) };
            known.is_some()
        });
    }
}
