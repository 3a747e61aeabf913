//! The Python SDK's client in front of the real program, where the registry of Python packages answers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use subscope_testkit::env::run;

use crate::{common::env, listener::Listener};

/// The SDK's version.
const SDK: &str = "mcp==2.3.0";

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

/// Returns a Python with the SDK, installed below the target folder; the reason where there is none.
fn python() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-mcp");
    let python = folder.join("bin/python");
    let mark = folder.join(SDK);
    if mark.exists() {
        return Ok(python);
    }
    let quiet = |command: &mut Command| {
        let ran = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
        if ran.status.success() {
            return Ok(());
        }
        let last = String::from_utf8_lossy(&ran.stderr).lines().last().unwrap_or_default().to_owned();
        Err(format!("{command:?}: {last}"))
    };
    quiet(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    quiet(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries",
        "1",
        SDK,
    ]))?;
    fs::write(&mark, "").map_err(|error| error.to_string())?;
    Ok(python)
}

#[test]
fn python_client_calls_both_servers() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => {
            println!("skipped: no Python with {SDK}: {why}");
            return;
        }
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
