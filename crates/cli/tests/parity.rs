//! Every session that `ls` lists works with every verb, whatever its source, with a hub and without: the real program,
//! cell by cell. Combinations that cannot work report it in one sentence ([`CANNOT`]).

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::Duration,
};

use common::{
    env, json,
    serving::{LIMIT, Serving},
};
use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_model::iso8601;
use subscope_testkit::{
    env::{Ran, Terminal, TestEnv, run},
    fixtures::{self, Recording, recording},
    lines::{Line, launch_result, spawn_input, transcript},
    others::{OtherRecording, acp_recordings, other_recordings},
};

/// Source of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Transcript,
    Stream,
    Hooks,
    Posted,
    Run,
    McpAgent,
    Archived,
    Deleted,
    ImportedCheckpoint,
    ImportedFeed,
    ImportedAtif,
    Otel,
    /// A source of another harness: of [`OTHERS`].
    Other(&'static str),
}

/// How a recorded source of another harness comes to a store.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The recording's file of the first name is copied into the home under the second one.
    OnDisk(&'static str, &'static str),
    /// The lines of a file are posted in a dialect.
    Ingested(&'static str, &'static str),
    /// The same under another id of the session, as another source has the recorded one.
    IngestedAs(&'static str, &'static str, &'static str),
    /// Folders of tasks, the root first, are copied into the home.
    Tasks(&'static [&'static str], &'static str),
}

/// The sources of the other harnesses: the rows of the second table.
const OTHERS: [(&str, &str, Way); 29] = [
    ("Codex: rollouts", "codex/0.169.0/v1_two_parallel", Way::OnDisk("sessions", "home/.codex/sessions")),
    ("Codex: `exec --json`", "codex/0.169.0/v1_child_error", Way::Ingested("codex.exec", "stdout.jsonl")),
    (
        "Codex: `app-server`",
        "codex/0.169.0/appserver_v2_two_parallel",
        Way::Ingested("codex.app-server", "rpc.jsonl"),
    ),
    ("Codex: hooks", "codex/0.169.0/v1_nested", Way::Ingested("codex.hook", "hooks.jsonl")),
    (
        "OpenCode: database",
        "opencode/1.18.33/two_parallel",
        Way::OnDisk("opencode.db", "data/opencode/opencode.db"),
    ),
    (
        "OpenCode 1.1: storage",
        "opencode/1.1.53/resume_denied",
        Way::OnDisk("storage", "data/opencode/storage"),
    ),
    (
        "OpenCode: `run --format json`",
        "opencode/1.18.33/nested",
        Way::Ingested("opencode.stdout", "stdout.jsonl"),
    ),
    (
        "OpenCode: server events",
        "opencode/1.18.33/serve_two_parallel",
        Way::Ingested("opencode.events", "event.sse"),
    ),
    ("Kilo CLI: database", "kilo/7.7.7/nested", Way::OnDisk("kilo.db", "data/kilo/kilo.db")),
    (
        "Kilo CLI: `run --format json`",
        "kilo/7.7.7/two_parallel",
        Way::Ingested("kilo.stdout", "stdout.jsonl"),
    ),
    (
        "Copilot CLI: `events.jsonl`",
        "copilot/1.0.102/two_parallel",
        Way::OnDisk("dot_copilot", "home/.copilot"),
    ),
    (
        "Copilot CLI: `--output-format json`",
        "copilot/1.0.102/nested",
        Way::Ingested("copilot.stream", "stdout.jsonl"),
    ),
    ("Copilot CLI: hooks", "copilot/1.0.102/child_error", Way::Ingested("copilot.hook", "hooks.jsonl")),
    ("Kimi Code: `wire.jsonl`", "kimi/2.1.0/two_parallel", Way::OnDisk("dot_kimi", "home/.kimi-code")),
    ("Kimi Code: `stream-json`", "kimi/2.1.0/nested", Way::Ingested("kimi.stream", "stdout.jsonl")),
    ("Kimi Code: hooks", "kimi/2.1.0/background", Way::Ingested("kimi.hook", "hooks.jsonl")),
    (
        "Cline CLI: files and database",
        "cline/3.0.65/two_parallel",
        Way::OnDisk("dot_cline", "home/.cline/data"),
    ),
    ("Cline CLI: hooks", "cline/3.0.65/nested", Way::Ingested("cline.hook", "hooks.jsonl")),
    ("oh-my-pi: files", "omp/18.2.3/two_parallel", Way::OnDisk("dot_omp", "home/.omp/agent")),
    ("oh-my-pi: `--mode json`", "omp/18.2.3/nested", Way::Ingested("omp.stream", "stdout.jsonl")),
    ("Gemini CLI: chats", "gemini/0.61.0/two_parallel", Way::OnDisk("dot_gemini_tmp", "home/.gemini/tmp")),
    (
        "Gemini CLI: `stream-json`",
        "gemini/0.61.0/child_error",
        Way::Ingested("gemini.stream", "stdout.jsonl"),
    ),
    ("Gemini CLI: hooks", "gemini/0.61.0/nested", Way::Ingested("gemini.hook", "hooks.jsonl")),
    ("Qwen Code: chats", "qwen/0.24.4/two_background", Way::OnDisk("dot_qwen", "home/.qwen")),
    (
        "Qwen Code: `stream-json`",
        "qwen/0.24.4/two_background",
        Way::IngestedAs("qwen.stream", "stdout.jsonl", "5d0f3c1e-9a0b-4c56-8f0a-0b1c2d3e4f50"),
    ),
    ("Qwen Code: hooks", "qwen/0.24.4/hooks", Way::Ingested("qwen.hook", "hooks.jsonl")),
    (
        "Roo Code: task folders",
        "rooveterinaryinc.roo-cline",
        Way::Tasks(
            &["019c0000-0000-7000-8000-000000000001", "019c0000-0000-7000-8000-000000000002"],
            EXTENSIONS,
        ),
    ),
    ("Cline for VS Code: task folders", "saoudrizwan.claude-dev", Way::Tasks(&["1770000100000"], EXTENSIONS)),
    ("a connection over ACP", "acp/claude-agent/0.101.0/acp_on", Way::Ingested("acp.messages", "acp.jsonl")),
];

/// Where an editor keeps the data of its extensions.
const EXTENSIONS: &str = "home/.vscode-server/data/User/globalStorage";

/// Hooks that name no agent, so the session has its root alone.
const AGENTLESS: [&str; 2] = ["Gemini CLI: hooks", "Kimi Code: hooks"];
/// Of hooks that do not say how the root ended, and of a stream without times.
const EMPTY: [(&str, &str); 3] = [
    ("Kimi Code: hooks", "export otlp"),
    ("Kimi Code: hooks", "HTTP otlp"),
    ("Kimi Code: `stream-json`", "HTTP perfetto"),
];
const OF_AGENTS: [&str; 6] = [
    "export execution",
    "export checkpoint",
    "export trace",
    "HTTP execution",
    "HTTP checkpoint",
    "HTTP trace",
];

/// The sources: the rows of the table.
const SOURCES: [(Told, &str); 12] = [
    (Told::Transcript, "transcript"),
    (Told::Stream, "stream-json, ingested"),
    (Told::Hooks, "hooks alone, ingested"),
    (Told::Posted, "posted events"),
    (Told::Run, "`run -- CMD` that publishes"),
    (Told::McpAgent, "`mcp agent`"),
    (Told::Archived, "transcript deleted, archived"),
    (Told::Deleted, "transcript deleted, not archived"),
    (Told::ImportedCheckpoint, "checkpoint, imported"),
    (Told::ImportedFeed, "feed, imported"),
    (Told::ImportedAtif, "ATIF document, imported"),
    (Told::Otel, "OpenTelemetry alone, posted"),
];

/// The commands with expected output, the columns of the table. `{id}`, `{agent}` and `{word}` are the session's.
const VERBS: [(&str, &str, &str); 18] = [
    ("tree ID", "tree {id} --json", "{agent}"),
    ("tree PREFIX", "tree {prefix} --json", "{agent}"),
    ("show", "show {id}/{agent} --json", "{agent}"),
    ("files", "files {id} --json", "{id}"),
    ("diff", "diff {id} {id} --json", "{id}"),
    ("status --session", "status --session {id} --json", "subscope.status/1"),
    ("search", "search {word} --session {id} --json", "{id}"),
    ("watch ID", "watch {id} --json", "{agent}"),
    ("replay ID", "replay {id} --plain --speed 10000", "main"),
    ("export trace", "export {id} --as trace", "{agent}"),
    ("export execution", "export {id} --as execution", "{agent}"),
    ("export checkpoint", "export {id} --as checkpoint -o {folder}", ""),
    ("export feed", "export {id} --as feed", "{agent}"),
    ("export html", "export {id} --as html", "{agent}"),
    ("export csv", "export {id} --as csv", "{agent}"),
    ("export perfetto", "export {id} --as perfetto -o {folder}.pftrace", ""),
    ("export otlp", "export {id} --as otlp", "{agent}"),
    ("export atif", "export {id} --as atif", "{agent}"),
];

/// The routes of a session, below `/api/v1/sessions/ID/`; what its page asks for is among them, and below `/`.
const ROUTES: [(&str, &str); 17] = [
    ("HTTP tree", "tree"),
    ("HTTP timeline", "timeline"),
    ("HTTP events", "feed"),
    ("HTTP trace", "export?as=trace"),
    ("HTTP execution", "export?as=execution"),
    ("HTTP checkpoint", "export?as=checkpoint"),
    ("HTTP feed", "export?as=feed"),
    ("HTTP html", "export?as=html"),
    ("HTTP csv", "export?as=csv"),
    ("HTTP perfetto", "export?as=perfetto"),
    ("HTTP otlp", "export?as=otlp"),
    ("HTTP atif", "export?as=atif"),
    ("page: tree, summary", "tree"),
    ("page: waterfall", "timeline"),
    ("page: feed", "feed?limit=1000&brief=true"),
    ("page: agent", "feed?agent={agent}&limit=10000"),
    ("page: search", "/api/v1/search?q={word}&limit=200"),
];

/// The terminal UI, without a command.
const UI: &str = "terminal UI";

/// What is done in turn to each session as the last one, without a hub.
const IN_TURN: [&str; 4] = ["tree last", "export last", "diff last ID", "forget last"];

/// Combinations that cannot work.
const CANNOT: [(Told, &str); 9] = [
    (Told::Deleted, "watch ID"),
    (Told::Deleted, "replay ID"),
    (Told::Deleted, "export feed"),
    (Told::Deleted, "HTTP events"),
    (Told::Deleted, "HTTP feed"),
    (Told::Deleted, "HTTP otlp"),
    (Told::Deleted, "page: feed"),
    (Told::Deleted, "page: agent"),
    (Told::Deleted, "export otlp"),
];

/// Sources whose running agents `stop` reaches; for the others it prints the reason ([`UNHEARD`], [`ENDED`]).
const STOPPABLE: [Told; 4] = [Told::Hooks, Told::Posted, Told::Run, Told::McpAgent];
const UNHEARD: &str =
    "it cannot be reached: no hook of its session has named it, and no program publishes it";
const ENDED: &str = "the agent has ended already";

/// The page of the documentation that shows the table, and the variable that has it written.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/parity.md");
const WRITES_PAGE: &str = "SUBSCOPE_WRITE_PARITY";

/// The sentence that says why.
const SENTENCE: &str = "transcript is gone or cannot be read, and is not in the archive: its rows are kept, its texts are not there";

/// A session of a source.
struct Session {
    told: Told,
    id: String,
    agent: String,
    word: String,
}

impl Session {
    /// The session of a recording: its first subagent, and a word of what that was asked.
    fn of(told: Told, recording: &Recording) -> Self {
        let truth = recording.truth();
        let agent = truth.agents.iter().find(|agent| agent.depth > 0).unwrap();
        let words = agent.description.as_deref().unwrap().split_whitespace();
        let word = words.max_by_key(|word| word.len()).unwrap();
        Self { told, id: truth.session.id.to_string(), agent: agent.id.to_string(), word: word.to_owned() }
    }

    fn posted(told: Told, id: String, agent: &str, word: &str) -> Self {
        Self { told, id, agent: agent.to_owned(), word: word.to_owned() }
    }

    fn name(&self) -> &'static str {
        if let Told::Other(name) = self.told {
            return name;
        }
        SOURCES.iter().find(|(told, _)| *told == self.told).unwrap().1
    }

    fn filled(&self, template: &str, env: &TestEnv) -> String {
        let folder = self.folder(env);
        template
            .replace("{prefix}", &self.id[..self.id.len() - 1])
            .replace("{id}", &self.id)
            .replace("{agent}", &self.agent)
            .replace("{word}", &self.word)
            .replace("{folder}", folder.to_str().unwrap())
    }

    /// Where its checkpoint is saved.
    fn folder(&self, env: &TestEnv) -> std::path::PathBuf {
        let name: String = self.name().chars().filter(char::is_ascii_alphanumeric).collect();
        env.path(&format!("checkpoint-{name}"))
    }

    /// Whether the output of a command has none of its agents.
    fn is_empty(&self, verb: &str) -> bool {
        is_empty(self.name(), verb)
    }

    fn cannot(&self, verb: &str) -> bool {
        CANNOT.contains(&(self.told, verb))
    }
}

fn is_empty(source: &str, verb: &str) -> bool {
    AGENTLESS.contains(&source) && OF_AGENTS.contains(&verb) || EMPTY.contains(&(source, verb))
}

/// The lines of a published subagent; its name is that of its run.
fn published(run: &str, word: &str) -> String {
    let event = |kind: &str, more: Value| {
        let mut event =
            json!({"subagentName": run, "subagentRunId": run, "timestamp": clock::now_ms(), "type": kind});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{event}\n")
    };
    [
        event("subagent_start", json!({"payload": "Look around."})),
        event("tool_call", json!({"toolName": "Read", "toolCallId": "c1", "payload": {"path": word}})),
        event("tool_result", json!({"toolName": "Read", "toolCallId": "c1", "payload": "Found."})),
        event("subagent_end", json!({})),
    ]
    .concat()
}

fn command(env: &TestEnv, words: &str) -> Command {
    let mut command = env.command();
    command.args(words.split_whitespace());
    command
}

fn listed(env: &TestEnv) -> Vec<String> {
    let page = json(&run(command(env, "ls --json -n 100"), b"").success());
    let rows = page["sessions"].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Adopts a recording, has it indexed, and deletes its files.
fn delete_after_index(env: &TestEnv, recording: &Recording, words: &str) {
    env.adopt(recording);
    run(command(env, words), b"").success();
    fs::remove_dir_all(env.home().join(".claude/projects")).unwrap();
}

/// Calls an agent as an MCP tool.
fn call_agent(env: &TestEnv, address: &str) {
    let mut server = command(env, "mcp agent --name worker -- sh -c");
    server.arg("cat >/dev/null; echo Done.").env("CPE_SUBAGENT_LOGGING_ADDRESS", format!("http://{address}"));
    server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    let stdin = tool_call(&mut server, "parity-mcp");
    answer_of(&mut server);
    drop(stdin);
    server.wait().unwrap();
}

/// Calls the tool `worker` of an MCP server; returns its stdin, which keeps it.
fn tool_call(server: &mut Child, run: &str) -> ChildStdin {
    let mut stdin = server.stdin.take().unwrap();
    for line in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "worker", "arguments": {"prompt": "count the flamingos", "runId": run}}}),
    ] {
        writeln!(stdin, "{line}").unwrap();
    }
    stdin
}

/// Waits for the answer to [`tool_call`].
fn answer_of(server: &mut Child) -> String {
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).find(|line| line.contains("\"id\":2")).unwrap()
}

/// Exports a recording and imports the export. The recording itself is not in the store.
fn import(env: &TestEnv, recording: &Recording, format: &str) {
    let (main, path) = (&recording.mains()[0], env.path(&format!("work/{format}.jsonl")));
    let mut export = command(env, &format!("export --as {format} -o {}", path.display()));
    run(
        {
            export.arg(main);
            export
        },
        b"",
    )
    .success();
    let taken = json(&run(command(env, &format!("import {} --json", path.display())), b"").success());
    assert_eq!(
        (&taken["schema"], &taken["repeat"]),
        (&json!("subscope.import/1"), &json!(false)),
        "{format}"
    );
    let again = json(&run(command(env, &format!("import {} --json", path.display())), b"").success());
    assert_eq!((&again["repeat"], &again["sessions"]), (&json!(true), &taken["sessions"]), "{format}");
}

/// Posts the OpenTelemetry records of a recording as their program did.
fn post_records(serving: &Serving, recording: &Recording) {
    for file in recording.otel() {
        for line in fixtures::text(&file).lines().map(json) {
            let path = line["path"].as_str().unwrap().replacen("/otel", "", 1);
            serving.post(&path, "", line["body"].to_string().as_bytes());
        }
    }
}

/// Makes a session of each source.
fn sessions(env: &TestEnv) -> (Serving, Vec<Session>) {
    let of = |scenario: &str| recording("2.1.330", scenario);
    let (archived, deleted) = (of("a-single"), of("e-tool-failures"));
    // No two sessions have agents of the same names: the check of the terminal UI finds a session by them.
    let transcript = of("i-sendmessage-resume");
    delete_after_index(env, &archived, "index --archive");
    delete_after_index(env, &deleted, "index");
    env.adopt(&transcript);
    let serving = Serving::start(env, "");
    serving.has_read();
    let (stream, hooks) = (of("b-parallel"), of("d-background"));
    serving.post("/api/v1/ingest/claude.stream?source=parity", "", &fixtures::bytes(&stream.streams()[0]));
    serving.post("/api/v1/ingest/claude.hook?source=parity", "", &fixtures::bytes(&hooks.hooks()));
    post_records(&serving, &of("j-otel-nested"));
    let mut publish = command(env, "publish");
    publish.env("CPE_SUBAGENT_LOGGING_ADDRESS", format!("http://{}", serving.address));
    run(publish, published("parity-post", "giraffe.md").as_bytes()).success();
    call_agent(env, &serving.address);
    let (checkpoint, feed, atif) = (of("c-deep"), of("n-worktrees"), of("k-big"));
    import(env, &checkpoint, "checkpoint");
    import(env, &feed, "feed");
    import(env, &atif, "atif");
    let before = listed(env);
    let events = env.write("work/events.jsonl", published("parity-run", "okapi.md"));
    let mut job = command(env, "run -- sh -c");
    job.arg(format!("{} publish < {}", env!("CARGO_BIN_EXE_subscope"), events.display()));
    run(job, b"").success();
    let began = clock::tick();
    let of_run = loop {
        if let Some(id) = listed(env).into_iter().find(|id| !before.contains(id)) {
            break id;
        }
        assert!(began.elapsed() < LIMIT, "the run is not listed");
    };
    let all = vec![
        Session::of(Told::Transcript, &transcript),
        Session::of(Told::Stream, &stream),
        Session::of(Told::Hooks, &hooks),
        Session::posted(Told::Posted, "events:parity-post".to_owned(), "parity-post", "giraffe"),
        Session::posted(Told::Run, of_run, "parity-run", "okapi"),
        Session::posted(Told::McpAgent, "events:parity-mcp".to_owned(), "parity-mcp", "flamingos"),
        Session::of(Told::Archived, &archived),
        Session::of(Told::Deleted, &deleted),
        // A checkpoint has no descriptions.
        Session { word: "goes".to_owned(), ..Session::of(Told::ImportedCheckpoint, &checkpoint) },
        Session { word: "isolation".to_owned(), ..Session::of(Told::ImportedFeed, &feed) },
        Session::of(Told::ImportedAtif, &atif),
        Session::of(Told::Otel, &of("j-otel-nested")),
    ];
    assert_eq!(listed(env).len(), all.len());
    (serving, all)
}

/// Runs a command that may never end, until it prints the words.
fn run_until(mut command: Command, words: &str) -> Ran {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let errors = child.stderr.take().unwrap();
    let errors = thread::spawn(move || std::io::read_to_string(errors).unwrap_or_default());
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut stdout = String::new();
    let mut is_there = false;
    for line in lines {
        stdout += &format!("{line}\n");
        is_there = line.contains(words);
        if is_there {
            child.kill().unwrap();
            break;
        }
    }
    let code = child.wait().unwrap().code();
    Ran { code: if is_there { Some(0) } else { code }, stdout, stderr: errors.join().unwrap() }
}

/// Checks one cell; returns its error.
fn wrong(
    session: &Session,
    verb: &str,
    (code, data, said): (i32, &str, &str),
    wanted: &str,
) -> Option<String> {
    let is_right = match session.cannot(verb) {
        true => code == 1 && data.is_empty() && said.matches(SENTENCE).count() == 1,
        false => {
            code == 0
                && (data.contains(wanted) != session.is_empty(verb) || wanted.is_empty())
                && !said.contains("subscope: ")
        }
    };
    let cut = |text: &str| text.chars().take(300).collect::<String>();
    let tell = || format!("{} × {verb}: {code}\n  {}\n  {}", session.name(), cut(data), cut(said));
    (!is_right).then(tell)
}

/// Runs a command of the table.
fn check(env: &TestEnv, session: &Session, (verb, words, wanted): (&str, &str, &str)) -> Option<String> {
    let (words, wanted) = (session.filled(words, env), session.filled(wanted, env));
    let goes_on = verb == "watch ID" && !session.cannot(verb);
    let ran = match goes_on {
        true => run_until(command(env, &words), &wanted),
        false => run(command(env, &words), b""),
    };
    if verb == "export checkpoint" {
        let saved = fs::read_to_string(session.folder(env).join("checkpoint.json"));
        let has_agent = saved.unwrap_or_default().contains(&session.agent);
        assert!(has_agent != session.is_empty(verb), "{}: {}", session.name(), ran.stderr);
    }
    wrong(session, verb, (ran.code.unwrap_or(-1), &ran.stdout, &ran.stderr), &wanted)
}

/// What every face shows of a session: its title in lists, the number of its agents, and what they are called, each as
/// far as there is room for it.
fn faces(env: &TestEnv, session: &Session) -> (String, String, Vec<String>) {
    let tree = json(&run(command(env, &session.filled("tree {id} --json", env)), b"").success());
    let cut = |text: &Value| {
        let text = text.as_str()?.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(text.chars().take(16).collect::<String>().trim_end().to_owned())
    };
    let page = json(&run(command(env, "ls --json -n 100"), b"").success());
    let row =
        page["sessions"].as_array().unwrap().iter().find(|row| row["id"] == session.id.as_str()).unwrap();
    let title = cut(&row["title"]).or_else(|| cut(&row["id"])).unwrap();
    let agents = tree["agents"].as_array().unwrap();
    let below = agents.iter().filter(|agent| agent["id"] != "root");
    let names = below
        .map(|agent| ["description", "name", "type", "id"].iter().find_map(|key| cut(&agent[key])).unwrap());
    let names: Vec<String> = names.collect();
    (title, format!("Agent Tree ({}", names.len()), names)
}

/// Selects one session after the other in the terminal UI. Returns the errors.
fn check_ui(env: &TestEnv, sessions: &[Session]) -> Vec<String> {
    /// How often a screen is looked at until it counts as the answer to the last key: at the end of the list.
    const LOOKS: u32 = 250;
    let Some(terminal) = Terminal::start(env, 240, 80, &[]) else { return Vec::new() };
    terminal.wait_for_text(LIMIT, &format!("Sessions {}", sessions.len()));
    let all: Vec<_> = sessions.iter().map(|session| faces(env, session)).collect();
    // The list is on the left.
    let shown = |screen: &str| {
        let behind_list = screen.lines().filter_map(|line| Some(line.split_once('│')?.1));
        let tree = behind_list.collect::<Vec<_>>().join("\n");
        all.iter().position(|(title, count, names)| {
            let has = |words: &String| tree.contains(words.as_str());
            screen.contains(title.as_str()) && has(count) && names.iter().all(has)
        })
    };
    let mut left: BTreeSet<usize> = (0..all.len()).collect();
    let (mut last, mut looks) = (None, 0);
    let began = clock::tick();
    terminal.send(&["BTab", "Home"]);
    while !left.is_empty() && began.elapsed() < 4 * LIMIT {
        thread::sleep(Duration::from_millis(20));
        let now = shown(&terminal.capture());
        looks += 1;
        // The order may change between pages: then a session comes twice, or in the next round.
        if (now.is_none() || now == last) && looks < LOOKS {
            continue;
        }
        left.retain(|session| Some(*session) != now);
        terminal.send(&[if now.is_some() && now == last { "Home" } else { "Down" }]);
        (last, looks) = (now, 0);
    }
    terminal.send(&["q"]);
    // It holds the store where no hub does.
    terminal.wait_for(LIMIT, |_| terminal.exit_code() == Some(0));
    left.iter().map(|at| format!("{} × {UI}: {:?}", sessions[*at].name(), all[*at])).collect()
}

/// Runs all commands on all sessions. Returns the errors.
fn check_all(env: &TestEnv, sessions: &[Session]) -> Vec<String> {
    let cells = sessions.iter().flat_map(|session| VERBS.map(|verb| (session, verb)));
    cells.filter_map(|(session, verb)| check(env, session, verb)).collect()
}

/// Asks for all routes of all sessions. Returns the errors.
fn check_routes(env: &TestEnv, serving: &Serving, sessions: &[Session]) -> Vec<String> {
    let mut failing = Vec::new();
    for session in sessions {
        for (name, route) in ROUTES {
            let route = session.filled(route, env);
            let (route, wanted) = match route.starts_with('/') {
                true => (route, &session.id),
                false => (format!("/api/v1/sessions/{}/{route}", session.id), &session.agent),
            };
            let (status, body) = serving.get(&route);
            let said = if status == 200 { (0, body.as_str(), "") } else { (1, "", body.as_str()) };
            failing.extend(wrong(session, name, said, wanted));
        }
        let (status, document) = serving.get(&format!("/s/{}", session.id));
        assert!(status == 200 && document.contains("id=\"app\""), "{}: {status} {document}", session.name());
    }
    failing
}

/// Waits until the full text knows the last session: the hub reads it some seconds later.
fn until_indexed(env: &TestEnv, sessions: &[Session]) {
    let began = clock::tick();
    let is_found = |session: &Session| {
        run(command(env, &session.filled("search {word} --session {id}", env)), b"").code == Some(0)
    };
    let searched = || sessions.iter().filter(|session| !session.is_empty("search"));
    while let Some(missing) = searched().find(|session| !is_found(session)) {
        assert!(began.elapsed() < LIMIT, "the full text has no {} of {}", missing.word, missing.name());
        thread::sleep(Duration::from_millis(200));
    }
}

fn told_or_fail(mode: &str, wrong: &[String]) {
    let mut text = String::new();
    wrong.iter().for_each(|cell| writeln!(text, "{cell}").unwrap());
    assert!(wrong.is_empty(), "{} cells fail {mode}:\n{text}", wrong.len());
}

#[test]
fn every_session_that_ls_lists_works_with_every_verb() {
    let env = env();
    let (serving, sessions) = sessions(&env);
    until_indexed(&env, &sessions);
    let halves = sessions.split_at(sessions.len() / 2);
    let mut failing = thread::scope(|scope| {
        let first = scope.spawn(|| check_all(&env, halves.0));
        let second = check_all(&env, halves.1);
        [first.join().unwrap(), second].concat()
    });
    failing.extend(check_routes(&env, &serving, &sessions));
    failing.extend(check_ui(&env, &sessions));
    told_or_fail("with a hub", &failing);
    serving.end("-INT");
    told_or_fail("without a hub", &[check_all(&env, &sessions), check_ui(&env, &sessions)].concat());
    // Each session is the last one in its turn, for all commands.
    for _ in &sessions {
        let first = listed(&env).remove(0);
        let tree = json(&run(command(&env, "tree last --json"), b"").success());
        assert_eq!(tree["session"]["id"], first.as_str());
        let table = run(command(&env, "export last --as csv"), b"").success();
        assert!(table.lines().nth(1).unwrap().contains(&first), "{first}: {table}");
        let diff = json(&run(command(&env, &format!("diff last {first} --json")), b"").success());
        assert_eq!(diff["a"], diff["b"], "{first}");
        assert_eq!(run(command(&env, "forget last"), b"").success(), "1 session forgotten\n");
        assert!(!listed(&env).contains(&first));
    }
    assert_eq!(listed(&env), Vec::<String>::new());
    let page = page();
    if std::env::var_os(WRITES_PAGE).is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    let written = fs::read_to_string(PAGE).unwrap();
    assert!(written == page, "{PAGE} is not what this test runs: `cargo xtask parity` writes it");
}

/// Puts the files of a source of another harness into the home.
fn place(env: &TestEnv, from: &Path, to: &str) {
    let files = if from.is_dir() { fixtures::files_below(from) } else { vec![from.to_owned()] };
    for file in files {
        let below = file.strip_prefix(from).unwrap().to_str().unwrap();
        let place = if below.is_empty() { to.to_owned() } else { format!("{to}/{below}") };
        env.write(&place, fixtures::bytes(&file));
    }
}

fn recording_of(name: &str) -> OtherRecording {
    let all = other_recordings().into_iter().chain(acp_recordings());
    all.into_iter().find(|it| it.name() == name).unwrap()
}

/// Returns the session of a source of another harness, once the hub has an agent of it.
fn bring(serving: &Serving, (name, recorded, way): (&'static str, &str, Way)) -> Session {
    let recorded_id = || recording_of(recorded).truth["session"]["id"].as_str().unwrap().to_owned();
    let ingest = |dialect: &str, file: &str, change: &dyn Fn(String) -> String| {
        let lines = change(fixtures::text(&recording_of(recorded).folder.join(file)));
        serving.post(&format!("/api/v1/ingest/{dialect}?source=parity"), "", lines.as_bytes());
    };
    let id = match way {
        Way::OnDisk(..) => recorded_id(),
        Way::Ingested(dialect, file) => {
            ingest(dialect, file, &|lines| lines);
            recorded_id()
        }
        Way::IngestedAs(dialect, file, other) => {
            ingest(dialect, file, &|lines| lines.replace(&recorded_id(), other));
            other.to_owned()
        }
        Way::Tasks(tasks, _) => tasks[0].to_owned(),
    };
    let least = if AGENTLESS.contains(&name) { 1 } else { 2 };
    let began = clock::tick();
    let tree = loop {
        let tree = serving.tree(&id);
        if let Some(tree) =
            tree.filter(|tree| tree["agents"].as_array().is_some_and(|rows| rows.len() >= least))
        {
            break tree;
        }
        assert!(began.elapsed() < LIMIT, "{name}: {id} has no agent");
        thread::sleep(Duration::from_millis(20));
    };
    let agent = &tree["agents"][least - 1];
    // A word of a message: not all sources have the texts of tasks.
    let (_, feed) = serving.get(&format!("/api/v1/sessions/{id}/feed?limit=1000"));
    let feed: Value = serde_json::from_str(&feed).unwrap();
    let said = feed["events"].as_array().unwrap().iter().filter_map(|event| event["data"]["text"].as_str());
    let mut words = said.flat_map(|text| text.split(|it: char| !it.is_alphanumeric()));
    let word = words.find(|word| word.len() > 3).unwrap().to_owned();
    Session { told: Told::Other(name), id, agent: agent["id"].as_str().unwrap().to_owned(), word }
}

#[test]
fn every_session_of_other_harnesses_works_with_every_verb() {
    let env = env();
    for (_, recorded, way) in OTHERS {
        match way {
            Way::OnDisk(from, to) => place(&env, &recording_of(recorded).folder.join(from), to),
            Way::Tasks(tasks, to) => {
                for task in tasks {
                    let from = fixtures::root().join("wild/task-folders").join(recorded);
                    let from = from.join("tasks").join(task);
                    place(&env, &from, &format!("{to}/{recorded}/tasks/{task}"));
                }
            }
            Way::Ingested(..) | Way::IngestedAs(..) => {}
        }
    }
    run(command(&env, "index"), b"").success();
    let serving = Serving::start(&env, "");
    serving.has_read();
    let sessions: Vec<Session> = OTHERS.iter().map(|other| bring(&serving, *other)).collect();
    assert_eq!(listed(&env).len(), sessions.len());
    until_indexed(&env, &sessions);
    let halves = sessions.split_at(sessions.len() / 2);
    let mut failing = thread::scope(|scope| {
        let first = scope.spawn(|| check_all(&env, halves.0));
        let second = check_all(&env, halves.1);
        [first.join().unwrap(), second].concat()
    });
    failing.extend(check_routes(&env, &serving, &sessions));
    told_or_fail("with a hub", &failing);
    serving.end("-INT");
    told_or_fail("without a hub", &check_all(&env, &sessions));
}

/// A transcript with a subagent that is at work.
fn write_open_transcript(env: &TestEnv, session: &str) {
    let at =
        |line: Line, after: i64| line.session(session).set("timestamp", iso8601(clock::now_ms() + after));
    let spawn = transcript::tool_use("Agent", "spawn").input(spawn_input("Explore", "Look", "Look."));
    let own = transcript::tool_use("Bash", "call").agent("open-transcript");
    let launched =
        transcript::tool_result("spawn", "Launched.").harness_result(launch_result("open-transcript"));
    let lines = [at(spawn, -300), at(launched, -200)].map(|line| line.line() + "\n").concat();
    let project = ".claude/projects/-home-user-shop";
    env.write(&format!("home/{project}/{session}.jsonl"), lines);
    let path = format!("home/{project}/{session}/subagents/agent-open-transcript.jsonl");
    env.write(&path, at(own, -100).line() + "\n");
}

#[test]
fn stop_works_with_every_source_that_hears_and_says_of_the_others_why_not() {
    let env = env();
    let deleted = recording("2.1.330", "e-tool-failures");
    delete_after_index(&env, &deleted, "index");
    let archived = recording("2.1.330", "a-single");
    delete_after_index(&env, &archived, "index --archive");
    write_open_transcript(&env, "59d3cea2-0000-4000-8000-00000000000a");
    let serving = Serving::start(&env, "");
    serving.has_read();
    let address = format!("http://{}", serving.address);
    let start = |run: &str| published(run, "x").lines().next().unwrap().to_owned() + "\n";
    let imported = ["c-nested", "b-parallel", "k-big"].map(|scenario| recording("2.1.330", scenario));
    import(&env, &imported[0], "checkpoint");
    import(&env, &imported[1], "feed");
    import(&env, &imported[2], "atif");
    // A stream whose agent has done something, and the hooks of another session.
    let open = json!({"type": "assistant", "session_id": "open-stream", "parent_tool_use_id": null, "uuid": "u1",
        "message": {"id": "m1", "content": [{"type": "tool_use", "id": "open-call", "name": "Task",
        "input": {"subagent_type": "Explore", "description": "Look", "prompt": "Look."}}]}});
    let inside = json!({"type": "assistant", "session_id": "open-stream", "parent_tool_use_id": "open-call", "uuid": "u2",
        "message": {"id": "m2", "content": [{"type": "tool_use", "id": "c2", "name": "Bash", "input": {}}]}});
    serving.post("/api/v1/ingest/claude.stream?source=parity", "", format!("{open}\n{inside}\n").as_bytes());
    for (event, call) in [("SubagentStart", ""), ("PreToolUse", "t1")] {
        let payload = json!({"session_id": "open-hooks", "hook_event_name": event, "agent_id": "open-hooked",
            "agent_type": "Explore", "prompt_id": "p", "tool_name": "Bash", "tool_use_id": call, "tool_input": {}});
        serving.post("/hooks/claude", "", payload.to_string().as_bytes());
    }
    let pairs = [
        ("session.id", "open-records"),
        ("agent_id", "open-recorded"),
        ("event.name", "tool_decision"),
        ("tool_use_id", "t1"),
        ("tool_name", "Bash"),
        ("decision", "accept"),
    ];
    let attributes = pairs.map(|(key, text)| json!({"key": key, "value": {"stringValue": text}}));
    let record = json!({"timeUnixNano": format!("{}000000", clock::now_ms()), "attributes": attributes});
    let service = json!({"attributes": [{"key": "service.name", "value": {"stringValue": "claude-code"}}]});
    let body = json!({"resourceLogs": [{"resource": service, "scopeLogs": [{"logRecords": [record]}]}]});
    serving.post("/v1/logs", "", body.to_string().as_bytes());
    serving.post("/subagent-events", "", start("open-post").as_bytes());
    let events = env.write("work/open.jsonl", start("open-run"));
    let mut job = command(&env, "run -- sh -c");
    let ready = env.path("work/ready");
    let script = "$0 publish <$1; touch $2; until [ -e $2.go ]; do sleep 0.02; done";
    job.arg(script).arg(env!("CARGO_BIN_EXE_subscope")).arg(&events).arg(&ready);
    let mut job = job.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut agent = command(&env, "mcp agent --name worker -- sleep 600");
    agent.env("CPE_SUBAGENT_LOGGING_ADDRESS", &address).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = agent.stderr(Stdio::null()).spawn().unwrap();
    let stdin = tool_call(&mut agent, "open-mcp");
    let began = clock::tick();
    while !ready.exists() || serving.tree("events:open-mcp").is_none() {
        assert!(began.elapsed() < LIMIT, "they do not begin");
        thread::sleep(Duration::from_millis(5));
    }
    let ended = |recording: &Recording| Session::of(Told::Deleted, recording).agent;
    let cells = [
        (Told::Transcript, "open-transcript".to_owned(), UNHEARD),
        (Told::Stream, "open-call".to_owned(), UNHEARD),
        (Told::Hooks, "open-hooked".to_owned(), ""),
        (Told::Posted, "open-post".to_owned(), ""),
        (Told::Run, "open-run".to_owned(), ""),
        (Told::McpAgent, "open-mcp".to_owned(), ""),
        (Told::Archived, ended(&archived), ENDED),
        (Told::Deleted, ended(&deleted), ENDED),
        (Told::ImportedCheckpoint, ended(&imported[0]), ENDED),
        (Told::ImportedFeed, ended(&imported[1]), ENDED),
        (Told::ImportedAtif, ended(&imported[2]), ENDED),
        (Told::Otel, "open-recorded".to_owned(), UNHEARD),
    ];
    assert_eq!(cells.len(), SOURCES.len());
    for (told, id, why) in cells {
        let ran = run(command(&env, &format!("stop {id} --json")), b"");
        assert_eq!(why.is_empty(), STOPPABLE.contains(&told), "{told:?}");
        let is_right = match why {
            "" => {
                ran.code == Some(0) && ran.stderr.is_empty() && json(&ran.stdout)["agent_id"] == id.as_str()
            }
            why => ran.code == Some(1) && ran.stdout.is_empty() && ran.stderr.matches(why).count() == 1,
        };
        assert!(is_right, "{told:?}: {:?} {} {}", ran.code, ran.stdout, ran.stderr);
    }
    // What is owned ends: its caller gets the error.
    let answer = answer_of(&mut agent);
    assert!(answer.contains("was stopped by the user"), "{answer}");
    drop(stdin);
    agent.wait().unwrap();
    fs::write(env.path("work/ready.go"), "").unwrap();
    job.wait().unwrap();
}

/// The table as a page: every cell that is not listed in [`CANNOT`] was just seen to work.
fn page() -> String {
    let mut page = "# Which command works with which session\n\n\
        Written by `cargo xtask parity`, from the test that runs every pair with the real program: each command with a hub\n\
        and without one (`SUBSCOPE_NO_AUTOSTART=1`), each HTTP route, and what the page asks for, at a hub.\n\n\
        ✓ works. ✗ cannot work, and says why in one sentence, with exit code 1 or HTTP status 404:\n"
        .to_owned();
    write!(page, "“{SENTENCE}”.\n\n| command |").unwrap();
    SOURCES.iter().for_each(|(_, source)| write!(page, " {source} |").unwrap());
    write!(page, "\n|---|{}\n", "---|".repeat(SOURCES.len())).unwrap();
    let commands = VERBS.iter().map(|(verb, ..)| *verb).chain(IN_TURN).chain([UI]);
    for verb in commands.chain(ROUTES.iter().map(|(name, _)| *name)) {
        let cell = |told: Told| if CANNOT.contains(&(told, verb)) { " ✗ |" } else { " ✓ |" };
        let cells = SOURCES.iter().map(|(told, _)| cell(*told));
        writeln!(page, "| {verb} |{}", cells.collect::<String>()).unwrap();
    }
    let cells = SOURCES.iter().map(|(told, _)| if STOPPABLE.contains(told) { " ✓ |" } else { " ✗ |" });
    writeln!(page, "| stop |{}", cells.collect::<String>()).unwrap();
    writeln!(
        page,
        "\n`stop` needs an agent at work, and a hub. Otherwise it says: “{UNHEARD}”, or “{ENDED}”."
    )
    .unwrap();
    write!(page, "\n## Other harnesses\n\n| command |").unwrap();
    OTHERS.iter().for_each(|(source, ..)| write!(page, " {source} |").unwrap());
    write!(page, "\n|---|{}\n", "---|".repeat(OTHERS.len())).unwrap();
    let commands = VERBS.iter().map(|(verb, ..)| *verb).chain(ROUTES.iter().map(|(name, _)| *name));
    for verb in commands {
        let cells = OTHERS.iter().map(|(source, ..)| if is_empty(source, verb) { " – |" } else { " ✓ |" });
        writeln!(page, "| {verb} |{}", cells.collect::<String>()).unwrap();
    }
    page.push_str("\n– works, and has no agent: the source names none, or does not say how one ended, and only ended ones are exported so.\n");
    page.push_str("\nWhose agents `stop` reaches is on the page [Each agent](harnesses.md).\n");
    page
}

#[test]
fn search_shows_once_what_hooks_repeat_and_tells_sessions_of_one_body_apart() {
    let (plain, both) = (env(), env());
    let recording = recording("2.1.330", "c-nested");
    let session = Session::of(Told::Transcript, &recording);
    plain.adopt(&recording);
    both.adopt(&recording);
    let serving = Serving::start(&both, "");
    serving.post("/api/v1/ingest/claude.hook?source=parity", "", &fixtures::bytes(&recording.hooks()));
    let of_session = |id: &str, run: &str, word: &str| {
        let lines = published(run, word).replace("{\"", &format!("{{\"sessionId\":\"{id}\",\""));
        lines.replace(&format!("\"payload\":{{\"sessionId\":\"{id}\","), "\"payload\":{")
    };
    let body = of_session("/one", "r1", "giraffe") + &of_session("two", "r2", "giraffe");
    serving.post("/api/v1/ingest/subagent-events?source=parity", "", body.as_bytes());
    serving.end("-INT");
    let hits = |env: &TestEnv, words: &str| -> Vec<Value> {
        let found = json(&run(command(env, &format!("search {words} --json -n 1000")), b"").success());
        found["hits"].as_array().unwrap().clone()
    };
    let is_file = |hit: &&Value| !hit["path"].as_str().unwrap().starts_with("inbox/");
    let key = |hit: &Value| (hit["kind"].clone(), hit["agent_id"].clone(), hit["snippet"].clone());
    let expected: Vec<_> = hits(&plain, &session.word).iter().map(key).collect();
    let found = hits(&both, &session.word);
    assert!(!expected.is_empty());
    let sorted = |mut keys: Vec<(Value, Value, Value)>| {
        keys.sort_by_key(|key| format!("{key:?}"));
        keys
    };
    // Messages of the same second may be in another order.
    assert_eq!(sorted(found.iter().filter(is_file).map(key).collect()), sorted(expected.clone()));
    let repeated = found.iter().filter(|hit| !is_file(hit) && expected.contains(&key(hit)));
    assert_eq!(repeated.collect::<Vec<_>>(), Vec::<&Value>::new());
    for (id, run) in [("/one", "r1"), ("two", "r2")] {
        let found = hits(&both, &format!("giraffe --session {id}"));
        assert_eq!(found.len(), 1, "{id}: {found:?}");
        assert_eq!((&found[0]["agent_id"], &found[0]["kind"]), (&run.into(), &"tool input".into()));
        assert_eq!(found[0]["snippet"], "{\"path\":\"giraffe\"}");
    }
    // Forgotten sessions are no longer found; the others of the same input still are.
    assert_eq!(run(command(&both, "forget two"), b"").success(), "1 session forgotten\n");
    let left = hits(&both, "giraffe");
    assert_eq!(left.iter().map(|hit| hit["session_id"].as_str()).collect::<Vec<_>>(), [Some("/one")]);
}
