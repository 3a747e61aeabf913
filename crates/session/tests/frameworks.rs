//! Spans of agent frameworks give the tree of what their programs did, in whatever order they come.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use subscope_model::{Flag, Tree};
use subscope_testkit::{
    frameworks::{
        ASPECTS, deliveries, facts_of_trees, framework_recordings, reduced_case, right_aspects, split_by_span,
    },
    sessions::{LATER, Part, now, options, read},
};

fn trees(requests: &[String]) -> Vec<Tree> {
    let lines = requests.iter().map(|line| format!("{line}\n")).collect::<String>();
    let router = read(&[Part::new("otlp.jsonl", lines)], options(false));
    let prices = subscope_model::PriceTable::default();
    router.sessions().filter_map(|session| router.tree(session, &now(LATER, &prices))).collect()
}

/// What a recording cannot show: the aspects, and why.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("autogen.native", &["tokens"], "No span has tokens."),
    ("crewai.traceloop", &["calls", "tokens"], "No span is of a call or a response."),
    (
        "deepagents.langsmith",
        &["calls", "tokens", "endings"],
        "One agent was cut off by the failure of another. A call whose agent failed is an error in its span.",
    ),
    ("deepagents.openinference", &["calls"], "A call whose agent failed is an error in its span."),
    ("google-adk.native.tool", &["calls"], "A call whose agent failed is an error in its span."),
    (
        "llama-index.openinference",
        &["agents", "parents", "calls", "tokens", "endings"],
        "No span names an agent: all is the main agent's.",
    ),
    (
        "openai-agents-handoff.openinference",
        &["calls"],
        "The span of the hand-off has another name than its tool.",
    ),
    ("openai-agents-handoff.traceloop", &["calls"], "The call of the hand-off has no span."),
    ("openai-agents.otel-v2", &["tokens"], "Spans do not say what was read from a cache."),
    (
        "smolagents.openinference",
        &["agents", "calls", "tokens"],
        "The main agent has the name of its class. The call of a managed agent has no span. Spans do not say what was read from a cache.",
    ),
];

/// The page of the book with what each recording shows.
const PAGE: &str = "docs/src/frameworks.md";

const HEAD: &str = "# Agent frameworks

Written by a test (`cargo xtask types`): spans of real programs, as their frameworks and instrumentations sent them, compared with the log of the
model that they talked to. In most programs `main` asks `alpha` and `beta` at once, `alpha` asks `gamma`, and a tool of `beta` fails.

✓ all as it was. ✗ not in the spans: see the last column. *Places*: how many agents have a place that no span reports (`~inferred`), and how many
took over the conversation from their parent (`handoff`). How spans are read is in [OpenTelemetry](opentelemetry.md).

";

#[test]
fn every_recording_shows_what_happened_but_for_the_known_exceptions() {
    let mut page = format!(
        "{HEAD}| recording | {} | places | why not |\n|---|{}---|---|\n",
        ASPECTS.join(" | "),
        "---|".repeat(ASPECTS.len())
    );
    let (mut unexpected, mut seen) = (Vec::new(), 0);
    for recording in framework_recordings() {
        let trees = trees(&recording.requests);
        let shown = right_aspects(&trees, &recording.truth);
        let known = EXCEPTIONS.iter().find(|(name, ..)| *name == recording.name);
        for (aspect, is_right) in ASPECTS.iter().zip(shown) {
            let is_exception = known.is_some_and(|(_, aspects, _)| aspects.contains(aspect));
            if is_right == is_exception {
                unexpected.push(format!("{} {aspect}: {is_right}", recording.name));
            }
        }
        let marks: Vec<&str> = shown.iter().map(|is_right| if *is_right { "✓" } else { "✗" }).collect();
        let why = known.map_or("", |(.., why)| why);
        let places = places(&trees);
        page += &format!("| `{}` | {} | {places} | {why} |\n", recording.name, marks.join(" | "));
        seen += 1;
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    assert_eq!(seen, 21);
    subscope_testkit::generated::check(PAGE, &page);
}

/// How many agents have a place that is inferred, or took over from their parent.
fn places(trees: &[Tree]) -> String {
    let count =
        |flag: Flag| trees.iter().flat_map(|tree| &tree.agents).filter(|agent| agent.has(flag)).count();
    let known = [Flag::Inferred, Flag::Handoff].map(|flag| (count(flag), flag.words()));
    let words = known.into_iter().filter(|(count, _)| *count > 0);
    words.map(|(count, words)| format!("{count} {words}")).collect::<Vec<_>>().join(", ")
}

/// The rows of a reduced case: id or name, parent, status, calls.
fn sketched(case: &str) -> Vec<(String, Option<String>, &'static str, usize)> {
    let trees = trees(&reduced_case(case));
    let [tree] = &trees[..] else { panic!("{case}: {} sessions", trees.len()) };
    let row = |row: &subscope_model::Agent| {
        let name = row.agent_type.as_deref().unwrap_or(row.id.as_str()).to_owned();
        let parent = row.parent_id.as_ref().and_then(|id| tree.agents.iter().find(|other| other.id == *id));
        let parent =
            parent.map(|parent| parent.agent_type.as_deref().unwrap_or(parent.id.as_str()).to_owned());
        (name, parent, row.status.as_str(), row.tools.len())
    };
    tree.agents.iter().map(row).collect()
}

#[test]
fn reduced_cases_show_what_they_say() {
    let root = |name: &str, status, calls| (name.to_owned(), None, status, calls);
    let below = |name: &str, status, calls| (name.to_owned(), Some("main".to_owned()), status, calls);
    // The agent's own span says how it ended, before the last of its responses.
    assert_eq!(sketched("root-failed-after-stop"), [root("main", "failed", 0)]);
    assert_eq!(sketched("error")[1].2, "failed");
    // Below the span of a web server is the root, all the same.
    assert_eq!(sketched("web"), [root("main", "completed", 0)]);
    // A word in the place of an id is none, and the id of a definition is that of no run.
    let agents = sketched("placeholder-call-id");
    assert_eq!((agents.len(), agents[0].3), (3, 2), "{agents:?}");
    assert_eq!(sketched("error")[0], root("main", "completed", 0));
    // The span around calls that ran side by side is no call.
    assert_eq!(sketched("merged-calls"), [root("main", "completed", 1)]);
    // An agent whose span has not come is not the one that a call of another started.
    let agents = sketched("pending-beside-workflow");
    assert_eq!(
        agents.iter().map(|row| (row.0.as_str(), row.3)).collect::<Vec<_>>(),
        [("main", 1), ("beta", 0), ("alpha", 1)]
    );
    assert_eq!(
        sketched("one-agent-id"),
        [root("main", "completed", 0), below("alpha", "completed", 0), below("beta", "completed", 0)]
    );
    // One session, whatever conversations its agents name.
    assert!(sketched("conversation-per-agent").len() > 1);
    for case in ["prompt-direct", "prompt-below-step"] {
        let trees = trees(&reduced_case(case));
        assert!(trees[0].agents[1].prompt.is_some(), "{case}");
    }
}

#[test]
fn any_order_gives_the_same_rows() {
    let mut wrong = Vec::new();
    for recording in framework_recordings() {
        let expected = facts_of_trees(&trees(&recording.requests));
        for (way, requests) in deliveries(&recording.requests) {
            let found = facts_of_trees(&trees(&requests));
            if found != expected {
                wrong.push(format!("{} {way}:\n - {expected}\n + {found}", recording.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The requests as turn `turn` of one conversation: other traces and spans, days later, with the same ids of calls.
fn as_turn(requests: &[String], turn: u64) -> Vec<String> {
    let in_turn = |id: &mut Value| {
        if let Some(hex) = id.as_str().filter(|hex| !hex.is_empty()) {
            // The first digit of an id that is random, of a run of an agent too.
            *id = Value::from(format!("{turn}{}", &hex[1..]));
        }
    };
    let later = |time: &mut Value| {
        let nanos = time.as_str().map(|nanos| nanos.parse::<u64>().unwrap());
        *time = Value::from((nanos.unwrap() + turn * 86_400_000_000_000).to_string());
    };
    let session = json!({ "key": "session.id", "value": { "stringValue": "conversation" } });
    let moved = |request: &String| {
        let mut request: Value = serde_json::from_str(request).unwrap();
        let groups = request["resourceSpans"].as_array_mut().unwrap().iter_mut();
        let scopes = groups.flat_map(|group| group["scopeSpans"].as_array_mut().unwrap());
        for span in scopes.flat_map(|scope| scope["spans"].as_array_mut().unwrap()) {
            for name in ["traceId", "spanId", "parentSpanId"] {
                span.get_mut(name).into_iter().for_each(in_turn);
            }
            ["startTimeUnixNano", "endTimeUnixNano"].iter().for_each(|name| later(&mut span[*name]));
            let attributes = span["attributes"].as_array_mut().unwrap();
            attributes.retain(|attribute| attribute["key"] != "session.id");
            let runs = attributes.iter_mut().filter(|attribute| attribute["key"] == "gen_ai.agent.call.id");
            runs.for_each(|run| in_turn(&mut run["value"]["stringValue"]));
            attributes.push(session.clone());
        }
        request.to_string()
    };
    requests.iter().map(moved).collect()
}

/// Subagents, calls, and agents whose parent or call is not one of this tree.
fn counts(trees: &[Tree]) -> (usize, usize, usize) {
    let [tree] = trees else { panic!("{} sessions", trees.len()) };
    let calls = tree.agents.iter().map(|row| row.tools.len()).sum();
    let has = |row: &subscope_model::Agent| {
        let parent = tree.agents.iter().find(|other| Some(&other.id) == row.parent_id.as_ref());
        let call = row.spawned_by.as_ref();
        parent.is_some_and(|parent| {
            call.is_none_or(|id| parent.tools.iter().any(|call| call.id.as_ref() == Some(id)))
        })
    };
    let lost = tree.agents.iter().skip(1).filter(|row| !has(row)).count();
    (tree.agents.len() - 1, calls, lost)
}

#[test]
fn turn_whose_calls_have_the_ids_of_an_earlier_one_adds_all_its_agents_and_calls() {
    for recording in framework_recordings() {
        let once = counts(&trees(&as_turn(&recording.requests, 1)));
        let turns = [1, 2].map(|turn| as_turn(&recording.requests, turn));
        for order in [[0, 1], [1, 0]] {
            let both = order.iter().flat_map(|turn| turns[*turn].clone()).collect::<Vec<_>>();
            let expected = (2 * once.0, 2 * once.1, 2 * once.2);
            assert_eq!(counts(&trees(&both)), expected, "{} {order:?}", recording.name);
        }
    }
}

/// The spans one by one, in the order in which they ended.
fn by_end(requests: &[String]) -> Vec<String> {
    let mut spans = split_by_span(requests);
    let ended = |request: &String| -> u64 {
        let request: Value = serde_json::from_str(request).unwrap();
        let span = &request["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        span["endTimeUnixNano"].as_str().unwrap().parse().unwrap()
    };
    spans.sort_by_cached_key(ended);
    spans
}

/// The tree at the moment when the last of some spans came.
fn growing(requests: &[String]) -> Option<Tree> {
    let lines = requests.iter().map(|line| format!("{line}\n")).collect::<String>();
    let router = read(&[Part::new("otlp.jsonl", lines)], options(false));
    let prices = subscope_model::PriceTable::default();
    let session = router.sessions().next()?.clone();
    let rows = router.tree(&session, &now(LATER, &prices))?.agents;
    let last = rows.iter().filter_map(|row| row.last_event_at_ms).max()?;
    router.tree(&session, &subscope_session::Now { is_growing: true, ..now(last + 1, &prices) })
}

/// Recordings in which a subagent ends before any work above it: until a span above it comes, it seems to be the topmost
/// agent.
const GUESSED_ROOTS: [&str; 3] = ["autogen.native", "crewai.traceloop", "mastra.otel"];

/// Spans that may follow that of the root: frames around it.
const ROOT_TAIL: usize = 4;

/// What a tree that grows says, and the tree at the end does not.
fn false_states(seen: &[(Tree, BTreeSet<String>)]) -> Vec<String> {
    use subscope_model::{Agent, AgentId, AgentStatus};
    let (last, all) = seen.last().unwrap();
    let at_end = |id: &AgentId| last.agents.iter().find(|row| row.id == *id);
    let name = |row: &Agent| row.agent_type.clone().unwrap_or_default();
    // The first agent of a conversation ends before the one that it hands over to.
    let hands_over = last.agents.iter().any(|row| row.has(Flag::Handoff));
    let mut wrong = BTreeSet::new();
    for (tree, spans) in seen {
        for row in &tree.agents {
            let Some(end) = at_end(&row.id) else {
                wrong.insert(format!("a row {} that vanishes", name(row)));
                continue;
            };
            let is_unnamed =
                row.agent_type.is_none() || row.id.is_root() && row.agent_type.as_deref() == Some("main");
            if !is_unnamed && name(row) != name(end) {
                wrong.insert(format!("{} is called {}", name(end), name(row)));
            }
            let is_marked = row.has(Flag::Inferred) || row.has(Flag::Orphan);
            if !is_marked && row.parent_id != end.parent_id {
                wrong.insert(format!("{} has another parent", name(row)));
            }
            // Its span is its end; that of the root is the last of an agent.
            let has_ended = spans.contains(row.id.as_str())
                || row.id.is_root() && (hands_over || spans.len() + ROOT_TAIL >= all.len());
            if row.status != AgentStatus::Running && !has_ended {
                wrong.insert(format!("{} is {} before its span", name(row), row.status.as_str()));
            }
        }
        let owners = |tree: &Tree| -> BTreeMap<String, AgentId> {
            let calls = tree.agents.iter().flat_map(|row| row.tools.iter().map(move |call| (row, call)));
            calls.filter_map(|(row, call)| Some((call.id.clone()?.to_string(), row.id.clone()))).collect()
        };
        let known = owners(last);
        for (call, owner) in owners(tree) {
            if !owner.is_root() && known.get(&call) != Some(&owner) {
                wrong.insert(format!("a call of {owner} is another's"));
            }
        }
    }
    wrong.into_iter().collect()
}

#[test]
fn what_a_growing_tree_shows_stays_true() {
    let mut wrong = Vec::new();
    for recording in framework_recordings() {
        let spans = by_end(&recording.requests);
        let id = |request: &String| -> String {
            let request: Value = serde_json::from_str(request).unwrap();
            request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"].as_str().unwrap().to_owned()
        };
        let seen = (1..=spans.len())
            .filter_map(|count| Some((growing(&spans[..count])?, spans[..count].iter().map(id).collect())));
        let found = false_states(&seen.collect::<Vec<_>>());
        if found.is_empty() == GUESSED_ROOTS.contains(&recording.name.as_str()) {
            wrong.push(format!("{}:\n  {}", recording.name, found.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Recordings whose agent spans have sums. A sum counts until a response of the agent is known, which ends before: only spans
/// that come before those that ended earlier may lower what is shown.
const SUMS: [&str; 4] = ["agent-framework.native", "ai-sdk.v6", "smolagents.openinference", "strands.native"];

#[test]
fn no_span_lowers_the_tokens_of_its_session() {
    let tokens = |trees: &[Tree]| -> u64 {
        trees.iter().filter_map(|tree| tree.summary.usage).map(|usage| usage.total_tokens).sum()
    };
    let mut wrong = Vec::new();
    for recording in framework_recordings() {
        let ways =
            deliveries(&recording.requests).into_iter().filter(|(way, _)| !way.starts_with("requests"));
        for (way, spans) in ways.chain([("by end".to_owned(), by_end(&recording.requests))]) {
            let (mut most, mut lowered) = (0, 0);
            for count in 1..=spans.len() {
                let found = tokens(&trees(&spans[..count]));
                lowered += usize::from(found < most);
                most = most.max(found);
            }
            let sums_first = SUMS.contains(&recording.name.as_str())
                && ["backwards", "spans shuffled"].iter().any(|odd| way.starts_with(odd));
            if lowered > 0 && !sums_first {
                wrong.push(format!("{} {way}: {lowered} times", recording.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn running_agents_have_rows_that_those_below_them_name() {
    let recordings = framework_recordings();
    let recording = recordings.iter().find(|recording| recording.name == "pydantic-ai.native").unwrap();
    let mut seen = Vec::new();
    for count in 1..=recording.requests.len() {
        let lines = recording.requests[..count].iter().map(|line| format!("{line}\n")).collect::<String>();
        let router = read(&[Part::new("otlp.jsonl", lines)], options(false));
        let prices = subscope_model::PriceTable::default();
        let session = router.sessions().next().unwrap().clone();
        let rows = router.tree(&session, &now(LATER, &prices)).unwrap().agents;
        let last = rows.iter().filter_map(|row| row.last_event_at_ms).max().unwrap();
        let growing = subscope_session::Now { is_growing: true, ..now(last + 1, &prices) };
        let tree = router.tree(&session, &growing).unwrap();
        let rows: Vec<String> = tree
            .agents
            .iter()
            .map(|row| format!("{} {}", row.agent_type.as_deref().unwrap_or("?"), row.status.as_str()))
            .collect();
        let is_below_root = tree
            .agents
            .iter()
            .skip(1)
            .all(|row| row.parent_id.is_some() && !row.has(subscope_model::Flag::Orphan));
        assert!(is_below_root, "{count}: {rows:?}");
        seen.push(rows.join(", "));
    }
    assert_eq!(seen.first().unwrap(), "main running");
    assert!(seen.contains(&"main running, alpha running".to_owned()), "{seen:#?}");
    assert_eq!(sorted_rows(&seen), "main completed, alpha completed, beta completed, gamma completed");
}

/// Returns the last rows, in order of their names behind that of the root.
fn sorted_rows(seen: &[String]) -> String {
    let mut rows: Vec<&str> = seen.last().unwrap().split(", ").collect();
    rows[1..].sort_unstable();
    rows.join(", ")
}
