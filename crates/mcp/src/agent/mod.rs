//! An agent command as an MCP tool whose inside is visible.
//!
//! One call is one run: [`call`] reads its arguments, [`command`] makes the command line, [`run`] starts it, watches over it and
//! ends it, [`child`] and [`family`] know processes, [`inside`] decodes what it prints and says what of it is published, and
//! what its answer is. [`progress`] tells the client meanwhile.

mod call;
mod child;
mod command;
mod final_answer;
mod output_reader;
mod process_group;
mod progress;
mod run;
mod tail;

use std::{
    collections::HashSet,
    ffi::OsString,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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
use subscope_model::Millis;
use tokio::sync::watch;

use self::{call::Call, run::Said};
use crate::stdio::{Ends, Gone};

/// Whether an agent has to call `final_answer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalAnswer {
    /// A run without it has failed.
    Required,
    /// Where it does not, its last words are the answer.
    Optional,
}

/// Where this process stands: what whoever started it has told it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The run that it is a part of.
    pub parent_run_id: Option<String>,
    /// How deep that one stands; 0 where there is none.
    pub depth: u32,
}

/// An agent that is to be a tool.
#[derive(Debug)]
pub struct AgentSpec {
    /// The tool's and the subagent's name.
    pub name: String,
    /// What the model is told of it.
    pub description: Option<String>,
    /// What the command prints; `None` where its output has to tell.
    pub dialect: Option<Dialect>,
    /// How long a run may take.
    pub timeout: Duration,
    /// Whether it has to call `final_answer`.
    pub final_answer: FinalAnswer,
    /// The command: a program and its arguments. Not empty.
    pub command: Vec<OsString>,
    /// Where this process stands.
    pub origin: Origin,
    /// The working folder of this process, and so of the command.
    pub cwd: Option<String>,
    /// Where events go.
    pub publisher: Publisher,
    /// Milliseconds since 1970.
    pub now_ms: fn() -> Millis,
    /// Takes what is to be said to a person; it may hold anything.
    pub warn: fn(&str),
    /// This program's version.
    pub version: &'static str,
}

/// The server.
#[derive(Clone, Debug)]
pub struct AgentServer {
    spec: Arc<AgentSpec>,
    runs: Arc<Runs>,
    gone: Gone,
}

impl AgentServer {
    /// A server for one agent.
    pub fn new(spec: AgentSpec, gone: Gone) -> Self {
        Self { spec: Arc::new(spec), runs: Arc::new(Runs::default()), gone }
    }

    fn tool(&self) -> Tool {
        let name = &self.spec.name;
        let about = self.spec.description.clone().unwrap_or_else(|| {
            format!("Hands a task to the agent `{name}` and returns its final answer when it is done.")
        });
        // It does whatever its command does.
        let annotations = ToolAnnotations::with_title(name.clone()).read_only(false).open_world(true);
        Tool::new_with_raw(name.clone(), Some(about.into()), Arc::new(call::schema()))
            .with_annotations(annotations)
    }

    async fn run(&self, call: Call, context: RequestContext<RoleServer>) -> CallToolResult {
        let Some(_place) = self.runs.enter(&call.run_id) else {
            return refusal(&format!(
                "runId {:?} belongs to a call that is still running: give each call a runId of its own",
                call.run_id
            ));
        };
        let (news, telling) = progress::start(&context);
        let cancelled = context.ct.clone().cancelled_owned();
        let outcome = run::run(&self.spec, &call, news, cancelled, self.gone.clone()).await;
        telling.end().await;
        match outcome {
            Ok(Said::Structured(answer)) => CallToolResult::structured(answer),
            Ok(Said::Text(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(failure) => refusal(&failure.to_string()),
        }
    }
}

/// An error that the model reads.
fn refusal(text: &str) -> CallToolResult {
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
        let call = match Call::read(request.arguments.unwrap_or_default()) {
            Ok(call) => call,
            Err(wrong) => return Ok(refusal(&wrong).into()),
        };
        // On a task of its own: the SDK drops a handler whose client is gone, and a run has to be ended in order.
        let server = self.clone();
        let result = tokio::spawn(async move { server.run(call, context).await }).await;
        let result = result.map_err(|_| ErrorData::internal_error("the run broke", None))?;
        Ok(result.into())
    }
}

impl Ends for AgentServer {
    async fn ended(&self) {
        self.runs.ended().await;
    }
}

/// The runs that are going on.
#[derive(Debug)]
struct Runs {
    ids: Mutex<HashSet<String>>,
    count: watch::Sender<usize>,
}

impl Default for Runs {
    fn default() -> Self {
        Self { ids: Mutex::default(), count: watch::channel(0).0 }
    }
}

impl Runs {
    /// Begins a run; `None` where one of that id is going on.
    fn enter(self: &Arc<Self>, run_id: &str) -> Option<Place> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if !ids.insert(run_id.to_owned()) {
            return None;
        }
        self.count.send_replace(ids.len());
        Some(Place { runs: Arc::clone(self), run_id: run_id.to_owned() })
    }

    async fn ended(&self) {
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// A run's place among those that are going on, until it is dropped.
struct Place {
    runs: Arc<Runs>,
    run_id: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut ids = self.runs.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.remove(&self.run_id);
        self.runs.count.send_replace(ids.len());
    }
}
