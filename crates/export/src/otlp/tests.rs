//! Tests of spans: ids, tree, tokens and contents over all recordings.

use std::collections::{BTreeMap, BTreeSet};

use subscope_model::{Event, Payload, PriceTable, SessionText};
use subscope_session::{EventScope, FactDetail, RouterOptions};
use subscope_testkit::{
    fixtures::{recording, recordings},
    sessions::{LATER, Part, Telling, now, only_session, parts_of, read},
};

use super::*;

mod growth;
mod ids;
mod round_trip;

/// A session that was read.
struct Read {
    tree: Tree,
    detail: SessionDetail,
    events: Vec<Event>,
}

/// Reads sources as they were at a moment, long after it, so that nothing runs any more.
fn read_at(parts: &[Part], cutoff: Option<Millis>) -> Option<Read> {
    let mut router =
        read(parts, RouterOptions { keep: FactDetail::Payloads, cutoff, events: EventScope::All });
    if router.sessions().count() != 1 {
        return None;
    }
    let (session, prices) = (only_session(&router), PriceTable::default());
    let now = now(LATER, &prices);
    let (tree, detail) = (router.tree(&session, &now)?, router.detail(&session, &now)?);
    Some(Read { tree, detail, events: router.whole_feed(&session, &now) })
}

fn texts(read: &Read) -> Vec<SessionText> {
    read.events.iter().filter_map(|event| SessionText::of_record(&event.clone().into())).collect()
}

/// Returns the JSON that a payload has itself.
fn inline(payload: &Payload) -> Option<&str> {
    match payload {
        Payload::Inline(text) => Some(text),
        Payload::At { .. } => None,
    }
}

fn provider(model: Option<&str>) -> Option<&'static str> {
    model.map(|_| "vendor")
}

fn requests(read: &Read, contents: Option<Contents<'_>>) -> Vec<ExportTraceServiceRequest> {
    let source = SpanSource {
        tree: &read.tree,
        detail: &read.detail,
        provider: &provider,
        contents,
        mask: Mask::Secrets,
    };
    SpanWriter::new(&source).requests(MAX_REQUEST_BYTES).collect()
}

/// Writes requests as JSON, one per line.
fn write_otlp(requests: &[ExportTraceServiceRequest], out: &mut Vec<u8>) {
    for request in requests {
        serde_json::to_writer(&mut *out, request).unwrap();
        out.push(b'\n');
    }
}

fn spans_in(requests: &[ExportTraceServiceRequest]) -> Vec<Span> {
    let scopes = requests.iter().flat_map(|request| &request.resource_spans).flat_map(|it| &it.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

fn spans(read: &Read) -> Vec<Span> {
    spans_in(&requests(read, None))
}

fn value<'s>(span: &'s Span, key: &str) -> Option<&'s Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.as_ref()?.value.as_ref()
}

fn text<'s>(span: &'s Span, key: &str) -> Option<&'s str> {
    if let Value::StringValue(text) = value(span, key)? { Some(text) } else { None }
}

fn int(span: &Span, key: &str) -> Option<i64> {
    if let Value::IntValue(int) = value(span, key)? { Some(*int) } else { None }
}

fn is(span: &Span, operation: &str) -> bool {
    text(span, "gen_ai.operation.name") == Some(operation)
}

fn agent_of(span: &Span) -> &str {
    text(span, "subscope.agent.id").unwrap()
}

#[test]
fn every_recording_has_its_agents_calls_and_tokens_once() {
    let mut seen = 0;
    for recording in recordings() {
        let what = recording.name();
        let read = read_at(&parts_of(&recording, &[Telling::Transcript]), None).unwrap();
        let all = spans(&read);
        let ids: BTreeSet<&[u8]> = all.iter().map(|span| span.span_id.as_slice()).collect();
        assert_eq!(ids.len(), all.len(), "{what}: each span has an id of its own");
        assert!(all.iter().all(|span| span.trace_id.len() == 16 && span.span_id.len() == 8), "{what}");
        check_tree(&what, &read.tree, &all);
        for agent in &read.tree.agents {
            let of_agent = |operation| {
                all.iter().filter(move |span| is(span, operation) && agent_of(span) == agent.id.as_str())
            };
            let calls: Vec<_> =
                of_agent("execute_tool").filter_map(|span| text(span, "gen_ai.tool.call.id")).collect();
            let expected: Vec<_> = agent.tools.iter().filter_map(|call| call.id.as_deref()).collect();
            assert_eq!(
                calls.iter().collect::<BTreeSet<_>>(),
                expected.iter().collect(),
                "{what} {}",
                agent.id
            );
            let sum = |key| of_agent("chat").filter_map(|span| int(span, key)).sum::<i64>();
            let usage = agent.usage.unwrap_or_default();
            let [fresh, output, cache_read, cache_write] =
                usage.kinds().map(|count| i64::try_from(count).unwrap());
            assert_eq!(
                sum("gen_ai.usage.input_tokens"),
                fresh + cache_read + cache_write,
                "{what} {}",
                agent.id
            );
            assert_eq!(sum("gen_ai.usage.output_tokens"), output, "{what} {}", agent.id);
            assert_eq!(sum("gen_ai.usage.cache_read.input_tokens"), cache_read, "{what} {}", agent.id);
            for key in ["gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens"] {
                assert_eq!(sum(key), cache_write, "{what} {}", agent.id);
            }
        }
        let with_tokens =
            all.iter().filter(|span| span.attributes.iter().any(|it| it.key.starts_with("gen_ai.usage.")));
        assert!(with_tokens.clone().all(|span| is(span, "chat")), "{what}: tokens are on chat spans only");
        seen += with_tokens.count();
    }
    assert!(seen > 300, "{seen}");
}

/// Spans hang below their agents', and those as the tree says.
fn check_tree(what: &str, tree: &Tree, all: &[Span]) {
    let by_id: BTreeMap<&[u8], &Span> = all.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    for span in all.iter().filter(|span| !span.parent_span_id.is_empty()) {
        let parent = by_id[span.parent_span_id.as_slice()];
        assert_eq!(parent.trace_id, span.trace_id, "{what}: {} below {}", span.name, parent.name);
        if !is(span, "invoke_agent") {
            assert!(
                is(parent, "invoke_agent") && agent_of(parent) == agent_of(span),
                "{what}: {}",
                span.name
            );
        }
    }
    for agent in &tree.agents {
        let total = all.iter().rfind(|span| is(span, "invoke_agent") && agent_of(span) == agent.id.as_str());
        let total = int(total.unwrap(), "subscope.subtree.total_tokens");
        let is_whole = tree.session.runs <= 1 && tree.agents.iter().all(|agent| agent.intervals.len() <= 1);
        let expected = agent.subtree.usage.map(|usage| i64::try_from(usage.total_tokens).unwrap());
        assert!(!is_whole || total == expected, "{what} {}: {total:?} {expected:?}", agent.id);
        let own: Vec<&Span> = all
            .iter()
            .filter(|span| is(span, "invoke_agent") && agent_of(span) == agent.id.as_str())
            .collect();
        let runs = tree.session.runs.max(1) as usize;
        let count = if agent.id.is_root() { runs } else { agent.intervals.len().max(1) };
        assert_eq!(own.len(), count, "{what} {}", agent.id);
        for span in &own {
            let node = (text(span, "graph.node.id"), text(span, "graph.node.parent_id"));
            assert_eq!(node, (Some(agent.id.as_str()), agent.parent_id.as_deref()), "{what}: the graph");
        }
        let Some(span) = own.first().filter(|_| !agent.id.is_root()) else { continue };
        let parent = by_id[span.parent_span_id.as_slice()];
        let above = agent.parent_id.as_deref().unwrap_or(subscope_model::AgentId::ROOT);
        assert_eq!(agent_of(parent), above, "{what} {}", agent.id);
        let call = agent.spawned_by.as_deref();
        assert_eq!(text(parent, "gen_ai.tool.call.id"), call, "{what} {}", agent.id);
    }
}

#[test]
fn a_session_that_grows_keeps_all_ids() {
    for (version, scenario) in [("2.1.330", "c-nested"), ("2.1.330", "g-resume"), ("2.1.330", "d-background")]
    {
        let recording = recording(version, scenario);
        let parts = parts_of(&recording, &[Telling::Transcript]);
        let names = |read: &Read| -> BTreeMap<Vec<u8>, (Vec<u8>, String)> {
            let name = |span: Span| (span.span_id, (span.trace_id, span.name));
            spans(read).into_iter().map(name).collect()
        };
        let read = read_at(&parts, None).unwrap();
        let whole = names(&read);
        let moments: BTreeSet<Millis> = read.events.iter().filter_map(|event| event.at_ms).collect();
        let mut seen = 0;
        for moment in moments {
            let Some(earlier) = read_at(&parts, Some(moment)) else { continue };
            for (id, (trace, name)) in names(&earlier) {
                let known = whole.get(&id).unwrap_or_else(|| panic!("{scenario} {moment}: {name} is gone"));
                assert_eq!(trace, known.0, "{scenario} {moment}: {name}");
                seen += 1;
            }
        }
        assert!(seen > 100, "{scenario}: {seen}");
    }
}

#[test]
fn running_agents_and_those_above_are_left_out_until_they_have_ended() {
    let (mut read, whole) = {
        let parts = parts_of(&recording("2.1.330", "c-nested"), &[Telling::Transcript]);
        let read = || read_at(&parts, None).unwrap();
        (read(), spans(&read()))
    };
    let deepest = read.tree.agents.iter().max_by_key(|agent| agent.depth).unwrap();
    let (id, mut above) = (deepest.id.clone(), deepest.parent_id.clone());
    let mut left_out = BTreeSet::from([id.clone()]);
    while let Some(parent) = above {
        above = read.tree.agents.iter().find(|agent| agent.id == parent).unwrap().parent_id.clone();
        left_out.insert(parent);
    }
    let running = read.tree.agents.iter_mut().find(|agent| agent.id == id).unwrap();
    (running.status, running.ended_at_ms) = (AgentStatus::Running, None);
    let some = spans(&read);
    let agents = |spans: &[Span]| spans.iter().map(|span| agent_of(span).to_owned()).collect::<BTreeSet<_>>();
    let expected: BTreeSet<String> =
        agents(&whole).into_iter().filter(|agent| left_out.iter().all(|out| out.as_str() != agent)).collect();
    assert!(!expected.is_empty() && left_out.len() > 2);
    assert_eq!(agents(&some), expected);
    assert!(some.iter().all(|span| whole.contains(span)), "what is exported early is what is exported later");
}

#[test]
fn statuses_are_errors_with_a_type() {
    let tree = crate::sample::session();
    let detail = SessionDetail::default();
    let all = spans(&Read { tree, detail, events: Vec::new() });
    let of = |agent: &str, operation| {
        let span = all.iter().find(|span| agent_of(span) == agent && is(span, operation)).unwrap();
        (text(span, "error.type"), span.status.as_ref().unwrap().code)
    };
    assert_eq!(of("lead", "invoke_agent"), (None, 0));
    assert_eq!(of("lead", "execute_tool"), (None, 0));
    assert_eq!(of("inner", "invoke_agent"), (Some("_OTHER"), 2));
    assert_eq!(of("inner", "execute_tool"), (Some("denied"), 2));
    assert_eq!(of("halted", "invoke_agent"), (Some("cancelled"), 2));
    assert_eq!(of("gone", "invoke_agent"), (Some("_OTHER"), 2));
    assert!(
        !all.iter().any(|span| ["root", "busy", "asked"].contains(&agent_of(span))),
        "they run, or above"
    );
    let text = r#"API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"x"}}"#;
    assert_eq!(api_error(text), "overloaded_error");
    assert_eq!(api_error("an _error"), OTHER);
}

#[test]
fn contents_are_there_on_request_masked_and_cut() {
    let mut read =
        read_at(&parts_of(&recording("2.1.330", "c-nested"), &[Telling::Transcript]), None).unwrap();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    read.tree.agents[1].prompt = Some(format!("push with {secret} {}", "\"é".repeat(60 << 10)).into());
    let result = serde_json::json!({ "token": secret, "long": "é".repeat(60 << 10) }).to_string();
    let (texts, resolve) =
        (texts(&read), |payload: &Payload| Some(inline(payload).unwrap_or(&result).to_owned()));
    let contents = Contents { texts: &texts, resolve: &resolve };
    let all = spans_in(&requests(&read, Some(contents)));
    let keys = |spans: &[Span]| -> BTreeSet<String> {
        spans.iter().flat_map(|span| &span.attributes).map(|attribute| attribute.key.clone()).collect()
    };
    let more: Vec<String> = keys(&all).difference(&keys(&spans(&read))).cloned().collect();
    assert_eq!(
        more,
        [
            "gen_ai.input.messages",
            "gen_ai.output.messages",
            "gen_ai.tool.call.arguments",
            "gen_ai.tool.call.result"
        ]
    );
    let texts = |key: &'static str| all.iter().filter_map(move |span| text(span, key));
    for text in more.iter().flat_map(|key| all.iter().filter_map(|span| text(span, key))) {
        assert!(text.len() <= 60 << 10 && !text.contains(secret), "{}", text.len());
    }
    for text in texts("gen_ai.input.messages").chain(texts("gen_ai.output.messages")) {
        let messages: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(messages[0]["parts"][0]["content"].is_string(), "{text}");
    }
    let prompted = texts("gen_ai.input.messages").filter(|text| text.contains("push with [redacted]"));
    assert_eq!(prompted.count(), 1);
}

#[test]
fn requests_are_lines_of_at_most_4_mib_and_equal_each_time() {
    let mut read = read_at(&parts_of(&recording("2.1.330", "k-big"), &[Telling::Transcript]), None).unwrap();
    let written = |requests: &[ExportTraceServiceRequest]| {
        let mut out = Vec::new();
        write_otlp(requests, &mut out);
        String::from_utf8(out).unwrap()
    };
    let one = requests(&read, None);
    assert_eq!((one.len(), written(&one)), (1, written(&requests(&read, None))));
    let back: ExportTraceServiceRequest = serde_json::from_str(&written(&one)).unwrap();
    assert_eq!(back, one[0], "it is read again");
    assert!(!written(&one).contains(":null"));
    let long = "x".repeat(100 << 10);
    read.tree.agents.iter_mut().for_each(|agent| agent.description = Some(long.as_str().into()));
    let result = serde_json::Value::from(long.as_str()).to_string();
    let (texts, resolve) =
        (texts(&read), |payload: &Payload| Some(inline(payload).unwrap_or(&result).to_owned()));
    let several = requests(&read, Some(Contents { texts: &texts, resolve: &resolve }));
    assert!(several.len() > 3, "{}", several.len());
    assert!(several.iter().all(|request| encode_otlp(request).len() <= MAX_REQUEST_BYTES));
    assert_eq!(spans_in(&several).len(), spans_in(&one).len());
    assert_eq!(written(&several).lines().count(), several.len());
}

#[test]
fn lines_are_the_requests_of_every_recording() {
    let secret = "token ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let long = serde_json::json!({ "said": secret, "more": "é\n".repeat(3 << 10) }).to_string();
    let mut several = 0;
    for recording in recordings() {
        let read = read_at(&parts_of(&recording, &[Telling::Transcript]), None).unwrap();
        let texts = texts(&read);
        let resolve = |_: &Payload| Some(long.clone());
        for contents in [None, Some(Contents { texts: &texts, resolve: &resolve })] {
            let source = SpanSource {
                tree: &read.tree,
                detail: &read.detail,
                provider: &provider,
                contents,
                mask: Mask::Secrets,
            };
            let writer = SpanWriter::new(&source);
            let requests: Vec<_> = writer.requests(MAX_LINE_BYTES).collect();
            let (mut lines, mut expected) = (Vec::new(), Vec::new());
            writer.write_lines(&mut lines).unwrap();
            write_otlp(&requests, &mut expected);
            let expected = String::from_utf8(expected).unwrap().replace("\"parentSpanId\":\"\",", "");
            assert!(lines == expected.into_bytes(), "{}", recording.name());
            several += usize::from(requests.len() > 1);
        }
    }
    assert!(several > 0, "no recording has several lines");
}
