//! A server of the real program with the SDK's client in front of it.

use std::{
    ffi::OsStr,
    process::Stdio,
    sync::{Arc, Mutex},
};

#[expect(deprecated, reason = "clients of today offer roots")]
use rmcp::model::{ListRootsResult, Root};
use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientConfig, ClientRequest,
        ProgressNotificationParam, RootsCapabilities, Tool,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService},
};
use serde_json::Value;
use subscope_testkit::env::TestEnv;
use tokio::process::{Child, Command};

/// Records progress notifications, and names the folders of the client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listens(Arc<Mutex<Vec<(f64, String)>>>, Vec<String>);

#[expect(deprecated, reason = "clients of today offer roots")]
impl ClientHandler for Listens {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.capabilities.roots = (!self.1.is_empty()).then(RootsCapabilities::default);
        info
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.1.iter().map(Root::new).collect()))
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push((told.progress, told.message.unwrap_or_default()));
    }
}

/// A connected server.
pub(crate) struct Mcp {
    pub(crate) service: RunningService<RoleClient, Listens>,
    pub(crate) child: Child,
    listens: Listens,
}

impl Mcp {
    /// Starts `subscope mcp …` in an environment with further variables.
    pub(crate) async fn start(env: &TestEnv, variables: &[(&str, &str)], words: &[&str]) -> Self {
        let mut command = env.command();
        command.arg("mcp").args(words).envs(variables.iter().copied());
        Self::start_as(command.into()).await
    }

    pub(crate) async fn start_as(command: Command) -> Self {
        Self::start_with_roots(command, &[]).await
    }

    /// Starts it for a client that works in these folders.
    pub(crate) async fn start_with_roots(mut command: Command, roots: &[String]) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let listens = Listens(Arc::default(), roots.to_vec());
        let service = listens.clone().serve(pipes).await.unwrap();
        Self { service, child, listens }
    }

    /// An agent called `worker` whose command is a shell script, followed by its arguments.
    pub(crate) async fn agent(env: &TestEnv, address: Option<&str>, options: &[&str], script: &str) -> Self {
        let variables: Vec<(&str, &str)> =
            address.map(|address| ("CPE_SUBAGENT_LOGGING_ADDRESS", address)).into_iter().collect();
        let mut words = vec!["agent", "--name", "worker"];
        words.extend(options);
        words.extend(["--", "sh", "-c", script, "sh"]);
        Self::start(env, &variables, &words).await
    }

    pub(crate) async fn tools(&self) -> Vec<Tool> {
        self.service.list_all_tools().await.unwrap()
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        self.service.call_tool(params(tool, arguments)).await.unwrap()
    }

    /// Calls a tool with metadata.
    pub(crate) async fn call_with(&self, tool: &str, arguments: Value, meta: Value) -> CallToolResult {
        let mut params = params(tool, arguments);
        params.meta = Some(serde_json::from_value(meta).unwrap());
        self.service.call_tool(params).await.unwrap()
    }

    /// Calls a tool, which must succeed, and returns its answer's text.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(false), "{result:?}");
        text(&result)
    }

    /// Calls a tool, which must fail, and returns its error's text.
    pub(crate) async fn error(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        text(&result)
    }

    /// Begins a call that can be cancelled.
    pub(crate) async fn begin(&self, tool: &str, arguments: Value) -> RequestHandle<RoleClient> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params(tool, arguments)));
        self.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap()
    }

    /// Returns the progress notifications so far.
    pub(crate) fn progress(&self) -> Vec<(f64, String)> {
        self.listens.0.lock().unwrap().clone()
    }

    /// Closes the connection and waits for the server's end.
    pub(crate) async fn close(self) {
        let Self { service, mut child, .. } = self;
        service.cancel().await.unwrap();
        let status = child.wait().await.unwrap();
        assert!(status.success(), "{status}");
    }
}

fn params(tool: &str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.as_object().unwrap().clone())
}

/// The text of a result.
pub(crate) fn text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|content| content.as_text().map(|text| text.text.clone()));
    texts.collect::<Vec<_>>().join("\n")
}

/// The JSON of a result, which must be the same as text and as structure.
pub(crate) fn structure(result: &CallToolResult) -> Value {
    let structure = result.structured_content.clone().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text(result)).unwrap(), structure);
    structure
}

/// A word for a shell.
pub(crate) fn quoted(word: impl AsRef<OsStr>) -> String {
    format!("'{}'", word.as_ref().to_string_lossy().replace('\'', r"'\''"))
}
