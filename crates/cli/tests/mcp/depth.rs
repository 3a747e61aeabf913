//! Agents that call agents through shells and generated programs: all events reach the listener, under their parents.

use std::time::Duration;

use serde_json::json;

use crate::{
    agent::{print, stream},
    client::{Mcp, quoted},
    common::{env, serving::Serving},
    ends::is_alive,
};

/// A shell's lines that call the tool `worker` of a server and print its answer.
fn call_from_shell(server: &str, run: &str) -> String {
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "sh", "version": "0"}}});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "worker", "arguments": {"prompt": format!("do {run}"), "runId": run}}});
    let says: Vec<String> = [initialize, initialized, call]
        .iter()
        .map(|line| format!("printf '%s\\n' {} >&8", quoted(line.to_string())))
        .collect();
    format!(
        r#"mkfifo in.{run} out.{run}
{server} < in.{run} > out.{run} &
exec 8> in.{run} 9< out.{run}
{}
while IFS= read -r line <&9; do case $line in *'"id":2'*) printf 'answer: %s\n' "$line"; break;; esac; done
exec 8>&- 9<&-
wait
"#,
        says.join("\n")
    )
}

/// A server of an agent whose command is a program in a file.
fn server(binary: &str, file: &str) -> String {
    format!("{} mcp agent --name worker -- sh {file}", quoted(binary))
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_every_depth_reach_the_root_with_their_parents() {
    let env = env();
    let serving = Serving::start(&env, "");
    let binary = env!("CARGO_BIN_EXE_subscope");
    let work = |tool: &str| print(&stream(tool, &json!({"by": tool}), "Done."));
    // Depth 3: a leaf. Depth 2: an agent that writes a program, which calls it. Depth 1: an agent that calls that by a
    // shell.
    let leaf = work("Read");
    let program = call_from_shell(&server(binary, "leaf.sh"), "run-3");
    let middle = format!(
        "printf %s {} > leaf.sh\nprintf %s {} > generated.sh\nsh generated.sh > generated.out\n{}",
        quoted(&leaf),
        quoted(&program),
        work("Write")
    );
    let top = format!(
        "printf %s {} > middle.sh\n{}\n{}",
        quoted(&middle),
        call_from_shell(&server(binary, "middle.sh"), "run-2"),
        work("Bash")
    );
    // The answers of the calls in between are printed next to the stream.
    env.write("work/top.sh", &top);
    let address = format!("http://{}", serving.address);
    let mcp = Mcp::agent(&env, Some(&address), &[], "sh top.sh").await;
    assert_eq!(mcp.text("worker", json!({"prompt": "do run-1", "runId": "run-1"})).await, "Done.");
    mcp.close().await;
    let tree = loop {
        let tree = serving.tree("events:run-1");
        match tree.filter(|tree| tree["summary"]["completed"] == 3) {
            Some(tree) => break tree,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let rows: Vec<(&str, &str, u64, &str)> = tree["agents"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|row| {
            let tools: Vec<&str> =
                row["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
            let tools = if tools.len() == 1 { tools[0] } else { "not one" };
            (
                row["id"].as_str().unwrap(),
                row["parent_id"].as_str().unwrap(),
                row["depth"].as_u64().unwrap(),
                tools,
            )
        })
        .collect();
    let expected =
        [("run-1", "root", 1, "Bash"), ("run-2", "run-1", 2, "Write"), ("run-3", "run-2", 3, "Read")];
    assert_eq!(rows, expected, "{tree:#}");
    assert!(
        tree["agents"]
            .as_array()
            .unwrap()
            .iter()
            .skip(1)
            .all(|row| row["prompt"].as_str().unwrap().starts_with("do run-"))
    );
    let shown = env.run(&["tree", "events:run-1"]).success();
    let places: Vec<usize> = ["run-1", "run-2", "run-3"].iter().map(|run| shown.find(run).unwrap()).collect();
    assert!(places.is_sorted(), "{shown}");
    serving.end("-TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_the_first_ends_those_of_every_depth() {
    let env = env();
    let binary = env!("CARGO_BIN_EXE_subscope");
    env.write("work/leaf.sh", "echo $$ > pid.leaf; trap '' TERM; while :; do sleep 0.05; done");
    env.write("work/middle.sh", call_from_shell(&server(binary, "leaf.sh"), "run-3"));
    env.write("work/top.sh", call_from_shell(&server(binary, "middle.sh"), "run-2"));
    let mcp = Mcp::agent(&env, None, &[], "sh top.sh").await;
    let running = mcp.begin("worker", json!({"prompt": "p", "runId": "run-1"})).await;
    let path = env.work().join("pid.leaf");
    let pid: u32 = loop {
        let pid = std::fs::read_to_string(&path).unwrap_or_default();
        match pid.trim().parse() {
            Ok(pid) => break pid,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    running.cancel(None).await.unwrap();
    // A server closes when nothing of its runs is left.
    mcp.close().await;
    assert!(!is_alive(pid));
    // And no server of the chain is left, either.
    let of_us = |pid: &str| {
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        folder == env.work().canonicalize().unwrap()
    };
    let processes =
        std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    let left: Vec<String> = processes.filter(|pid| pid.parse::<u32>().is_ok() && of_us(pid)).collect();
    let told = left.iter().map(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
            + &std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
    });
    assert_eq!(told.collect::<Vec<_>>(), Vec::<String>::new());
}
