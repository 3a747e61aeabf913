//! The Python SDK's client in front of the real program.

use subscope_testkit::{env::run, skip};

use crate::{common::env, listener::Listener};

/// Names a Python that has the SDK. `cargo xtask ci` installs one and sets it: no test fetches anything itself.
const PYTHON: &str = "SUBSCOPE_MCP_PYTHON";

/// Calls both servers as any Python program would.
const SCRIPT: &str = r#"
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def session(arguments, work):
    server = StdioServerParameters(command=sys.argv[1], args=arguments, env=dict(os.environ))
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as client:
            await client.initialize()
            return await work(client)

async def agent(client):
    tools = await client.list_tools()
    told = []
    async def progress(count, total, message):
        told.append(message)
    good = await client.call_tool("worker", {"prompt": "hello", "runId": "py-1"}, progress_callback=progress)
    bad = await client.call_tool("worker", {"prompt": "hello"})
    return {
        "tools": [tool.name for tool in tools.tools],
        "good": [good.content[0].text, bool(good.is_error)],
        "bad": [bad.content[0].text, bool(bad.is_error)],
        "progress": len(told) > 0,
    }

async def query(client):
    tools = await client.list_tools()
    sessions = await client.call_tool("list_sessions", {})
    return {"tools": sorted(tool.name for tool in tools.tools), "sessions": sessions.structured_content["sessions"]}

async def main():
    print(json.dumps({
        "agent": await session(["mcp", "agent", "--name", "worker", "--", "cat", sys.argv[2]], agent),
        "query": await session(["mcp", "query"], query),
    }))

asyncio.run(main())
"#;

#[test]
fn python_client_calls_both_servers() {
    let Some(python) = std::env::var_os(PYTHON) else {
        return skip::not_here("no Python with the MCP SDK; `cargo xtask ci` installs it");
    };
    let env = env();
    let listener = Listener::start();
    let stream = crate::agent::stream("Bash", &serde_json::json!({"command": "ls"}), "Two files.");
    let recorded = env.write("work/stream.jsonl", stream);
    let script = env.write("work/client.py", SCRIPT);
    let mut command = env.command_of(python);
    command.arg(script).arg(env!("CARGO_BIN_EXE_subscope")).arg(recorded);
    command.env("CPE_SUBAGENT_LOGGING_ADDRESS", &listener.address);
    let answer = crate::common::json(&run(command, b"").success());
    let expected = serde_json::json!({
        "agent": {
            "tools": ["worker"],
            "good": ["Two files.", false],
            "bad": ["runId is missing: give each call an id of its own, for example a UUID", true],
            "progress": true,
        },
        "query": { "tools": ["get_agent", "get_events", "get_tree", "list_sessions", "search"], "sessions": [] },
    });
    assert_eq!(answer, expected);
    let told = ["subagent_start", "thought_trace", "tool_call Bash", "tool_result Bash", "subagent_end"];
    assert_eq!(listener.of("py-1"), told);
}
