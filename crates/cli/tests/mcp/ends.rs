//! How runs end: crashes, cancellation, limits, clients that leave. In every case no process is left.

use std::{fs, process::Command, time::Duration};

use serde_json::{Value, json};
use subscope_testkit::env::TestEnv;

use crate::{
    client::Mcp,
    common::{env, serving::Serving},
    listener::Listener,
};

/// A family: a child in the group that does not mind being asked to end, one in a group and session of its own, and a
/// shell that waits for both. Each writes its process id to a file.
const FAMILY: &str = r#"
sh -c 'trap "" TERM; echo $$ > pid.stubborn; while :; do sleep 0.05; done' &
setsid sh -c 'trap "" TERM HUP; echo $$ > pid.elsewhere; while :; do sleep 0.05; done' &
echo $$ > pid.shell
echo 'it is slow' >&2
wait"#;

/// Waits until the whole family is there, and returns its processes.
async fn family(env: &TestEnv) -> Vec<u32> {
    started(env, &["pid.stubborn", "pid.elsewhere", "pid.shell"]).await
}

/// Waits until processes have written their ids to these files, and returns them.
async fn started(env: &TestEnv, names: &[&str]) -> Vec<u32> {
    let mut pids = Vec::new();
    for name in names {
        let path = env.work().join(name);
        let pid = loop {
            match fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()) {
                Some(pid) => break pid,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        pids.push(pid);
    }
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    pids
}

/// Whether a process is alive. Zombies are not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_dead = state.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'));
    !state.is_empty() && !is_dead
}

async fn are_gone(pids: &[u32]) {
    for pid in pids {
        // Orphaned processes disappear when the system reaps them.
        for _ in 0..1_000 {
            if !is_alive(*pid) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!is_alive(*pid), "{pid} of {pids:?} is left");
    }
}

fn call() -> Value {
    json!({"prompt": "p", "runId": "r"})
}

/// Waits for a run's end to be published, and returns why it failed.
async fn failure(listener: &Listener) -> String {
    loop {
        let events = listener.events();
        if let Some(end) = events.iter().find(|event| event["type"] == "subagent_end") {
            return end["payload"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_is_told_with_its_last_lines_made_harmless() {
    let env = env();
    let listener = Listener::start();
    let script = r#"i=0; while [ $i -lt 100 ]; do echo "line $i" >&2; i=$((i+1)); done; printf 'boom \033[2J\n' >&2; exit 7"#;
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], script).await;
    let error = mcp.error("worker", call()).await;
    assert!(error.starts_with("the agent failed: exit code 7"), "{error}");
    assert!(error.contains("line 99\nboom ␛[2J") && !error.contains("line 50\n"), "{error}");
    assert_eq!(failure(&listener).await, error);
    assert!(listener.events().iter().all(|event| event["status"].is_null()), "a limit is a failure");
    mcp.close().await;
    let mcp = Mcp::agent(&env, None, &[], "kill -9 $$").await;
    let error = mcp.error("worker", call()).await;
    assert_eq!(error, "the agent failed: ended by signal 9");
    mcp.close().await;
    let mcp = Mcp::start(&env, &[], &["agent", "--name", "worker", "--", "/no/such/program"]).await;
    let error = mcp.error("worker", call()).await;
    assert!(error.contains("cannot start /no/such/program"), "{error}");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_leaves_no_process_and_the_server_goes_on() {
    let env = env();
    let listener = Listener::start();
    let script = format!("read line; [ \"$line\" = quick ] && exec echo ok; {FAMILY}");
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], &script).await;
    let running = mcp.begin("worker", call()).await;
    let pids = family(&env).await;
    running.cancel(Some("enough".to_owned())).await.unwrap();
    assert!(failure(&listener).await.contains("cancelled"));
    let events = listener.events();
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    // It did not fail.
    assert_eq!(of("subagent_end")["status"], "stopped");
    assert_eq!(of("subagent_start")["cwd"], env.work().to_str().unwrap());
    are_gone(&pids).await;
    assert_eq!(mcp.text("worker", json!({"prompt": "quick\n", "runId": "r2"})).await, "ok");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_leaves_no_process() {
    let env = env();
    let listener = Listener::start();
    let mcp = Mcp::agent(&env, Some(&listener.address), &["--timeout", "1500ms"], FAMILY).await;
    let (error, pids) = tokio::join!(mcp.error("worker", call()), family(&env));
    assert!(
        error.starts_with("the agent was ended after 1 s, its limit") && error.contains("it is slow"),
        "{error}"
    );
    are_gone(&pids).await;
    assert_eq!(failure(&listener).await, error);
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_leaves_leaves_no_process() {
    let env = env();
    let listener = Listener::start();
    let mcp = Mcp::agent(&env, Some(&listener.address), &[], FAMILY).await;
    let _running = mcp.begin("worker", call()).await;
    let pids = family(&env).await;
    mcp.close().await;
    are_gone(&pids).await;
    assert!(failure(&listener).await.contains("cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_end_the_server_and_leave_no_process() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let env = env();
        let mut mcp = Mcp::agent(&env, None, &[], FAMILY).await;
        let _running = mcp.begin("worker", call()).await;
        let pids = family(&env).await;
        let server = mcp.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &server]).status().unwrap().success());
        let status = mcp.child.wait().await.unwrap();
        assert!(status.success(), "{signal} {status}");
        are_gone(&pids).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_leaves_no_process_of_its_runs() {
    let env = env();
    let script = r#"sh -c 'trap "" TERM; echo $$ > pid.child; while :; do sleep 0.05; done' & echo $$ > pid.shell; wait"#;
    let mut mcp = Mcp::agent(&env, None, &[], script).await;
    let _running = mcp.begin("worker", call()).await;
    let pids = started(&env, &["pid.child", "pid.shell"]).await;
    mcp.child.kill().await.unwrap();
    are_gone(&pids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_leaves_behind_is_ended_with_it() {
    let env = env();
    // It keeps the stdout open, too.
    let script = r#"sh -c 'trap "" TERM; echo $$ > pid.left; while :; do sleep 0.05; done' & while [ ! -s pid.left ]; do sleep 0.02; done; echo done"#;
    let mcp = Mcp::agent(&env, None, &[], script).await;
    assert_eq!(mcp.text("worker", call()).await, "done");
    let pid = fs::read_to_string(env.work().join("pid.left")).unwrap().trim().parse().unwrap();
    are_gone(&[pid]).await;
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_leaves_behind_may_say_what_it_wants() {
    let env = env();
    let script = r#"sh -c 'trap "" TERM; echo $$ > pid.left; while :; do echo more; done' & while [ ! -s pid.left ]; do sleep 0.02; done"#;
    let mcp = Mcp::agent(&env, None, &[], script).await;
    assert!(mcp.text("worker", call()).await.ends_with("more"));
    let pid = fs::read_to_string(env.work().join("pid.left")).unwrap().trim().parse().unwrap();
    are_gone(&[pid]).await;
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_turn_is_a_failure_whatever_the_exit_code() {
    let env = env();
    let lines = json!({"type": "assistant", "session_id": "s", "message": {"id": "m", "role": "assistant", "content": [
        {"type": "text", "text": "API Error: overloaded"}]}}).to_string()
        + "\n"
        + &json!({"type": "result", "subtype": "success", "is_error": true, "session_id": "s", "result": "API Error: overloaded"})
            .to_string();
    let mcp = Mcp::agent(&env, None, &[], &crate::agent::print(&lines)).await;
    let error = mcp.error("worker", call()).await;
    assert!(error.starts_with("the agent failed") && error.contains("overloaded"), "{error}");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_that_a_user_stops_is_ended_with_all_its_processes_and_its_sibling_goes_on() {
    let env = env();
    let serving = Serving::start(&env, "");
    let script = format!("mkdir $SUBSCOPE_PARENT_RUN_ID; cd $SUBSCOPE_PARENT_RUN_ID\n{FAMILY}");
    let url = format!("http://{}", serving.address);
    let mcp = Mcp::agent(&env, Some(&url), &[], &script).await;
    let call = |run: &str| json!({"prompt": "p", "runId": run});
    let (one, two) = (mcp.begin("worker", call("one")).await, mcp.begin("worker", call("two")).await);
    let gone = started(&env, &["one/pid.stubborn", "one/pid.elsewhere", "one/pid.shell"]).await;
    let sibling = started(&env, &["two/pid.stubborn", "two/pid.elsewhere", "two/pid.shell"]).await;
    let asked = env.run(&["stop", "one"]);
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    let answer = format!("{:?}", one.await_response().await.unwrap());
    assert!(answer.contains("was stopped by the user"), "{answer}");
    are_gone(&gone).await;
    assert!(sibling.iter().all(|pid| is_alive(*pid)));
    let row = |run: &str| serving.tree(&format!("events:{run}")).unwrap()["agents"][1].clone();
    assert_eq!((&row("one")["status"], &row("two")["status"]), (&"stopped".into(), &"running".into()));
    env.run(&["stop", "two"]).success();
    two.await_response().await.unwrap();
    are_gone(&sibling).await;
    mcp.close().await;
}
