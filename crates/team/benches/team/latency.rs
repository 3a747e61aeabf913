//! Latencies of queries through a server, at 300,000 sessions and 3,000,000 passages: of one reader, and of twenty who
//! have a view of the page open, which asks every ten seconds. The engine in this process answers one query at a time:
//! how fast a ClickHouse server answers several at once is not measured.

use std::time::Duration;

use serde_json::Value;
use subscope_client::{Client, Remote};
use subscope_hub::clock;

use subscope_testkit::figures::Row;

use crate::made::Developer;

/// Sessions and passages at which queries are measured.
const SESSIONS: usize = 300_000;
const PASSAGES: usize = 3_000_000;
/// Warm runs of each query.
const RUNS: usize = 20;
/// Readers at once, how often each asks, and the time between two questions of an open page.
const READERS: usize = 20;
const ROUNDS: usize = 5;
const PACE: Duration = Duration::from_secs(10);
/// What the page's views ask for.
const VIEWS: [&str; 5] = [
    "/api/v1/sessions?limit=50",
    "/api/v1/working",
    "/api/v1/people",
    "/api/v1/stats?by=project,day",
    "/api/v1/stats?by=team,model",
];
/// Time that the engine may take to multiply rows.
const FILL_TIMEOUT: Duration = Duration::from_secs(1200);

/// Multiplies the rows of the engine, then measures.
pub(crate) fn measure(engine: &str, server: &str, developers: &[Developer], sent: usize) {
    let times = SESSIONS.div_ceil(sent.max(1)).max(1);
    let columns = |table: &str| {
        let sql = format!(
            "SELECT name FROM system.columns WHERE database = 'subscope' AND table = '{table}' ORDER BY position"
        );
        ask(engine, &sql).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // Each copy has another id, which the row's JSON and the tree's name too.
    for table in ["sessions", "trees"] {
        let names = columns(table);
        let copied = names.iter().map(|name| match name.as_str() {
            "session_id" => "concat(session_id, '-', toString(n))".to_owned(),
            "row" | "body" => format!("replaceAll({name}, session_id, concat(session_id, '-', toString(n)))"),
            "agent_ids" => "arrayMap(id -> concat(id, '-', toString(n)), agent_ids)".to_owned(),
            other => other.to_owned(),
        });
        let copied = copied.collect::<Vec<_>>().join(", ");
        for copy in 1..times {
            let names = names.join(", ");
            let copied = copied.replace("toString(n)", &format!("'{copy}'"));
            ask(
                engine,
                &format!(
                    "INSERT INTO {table} ({names}) SELECT {copied} FROM {table} FINAL WHERE position(session_id, 'session-') = 0"
                ),
            );
        }
    }
    // Words by rank: the lower a rank, the more often.
    let each = PASSAGES / (sent * times).max(1);
    let word = "concat('word', toString(toUInt64(pow(20000, randCanonical(w + number * 64)))))";
    let text = format!("arrayStringConcat(arrayMap(w -> {word}, range(20 + rand() % 40)), ' ')");
    ask(
        engine,
        &format!(
            "INSERT INTO texts SELECT tenant, session_id, number, rev, 0, day, '', 'message', last_event_at_ms - number, {text}
             FROM (SELECT tenant, session_id, rev, day, last_event_at_ms, arrayJoin(range(toUInt64({each}))) AS number FROM sessions)"
        ),
    );
    let rows = |table: &str| ask(engine, &format!("SELECT count() FROM {table}")).trim().to_owned();
    let question = format!("a query at {} sessions and {} passages", rows("sessions"), rows("texts"));
    let row = |figure: String, value: Duration, budget: f64| {
        let values = vec![value.as_secs_f64() * 1000.0];
        let row = Row {
            question: question.clone(),
            figure,
            values,
            unit: " ms",
            budget: Some(budget),
            is_floor: false,
        };
        println!("{}", row.markdown());
    };
    let mut client = Client::of_team(Remote::new(server, &developers[0].token).unwrap());
    let page: Value = client.get("/api/v1/sessions?limit=50").unwrap();
    let next = page["next"].as_str().unwrap().to_owned();
    let id = page["sessions"][7]["id"].as_str().unwrap().to_owned();
    let tree: Value = client.get(&format!("/api/v1/sessions/{id}/tree")).unwrap();
    let agents = tree["agents"].as_array().unwrap();
    let agent = agents.last().unwrap()["id"].as_str().unwrap().to_owned();
    let prefix = id.get(..8).unwrap().to_owned();
    for (name, path) in [
        ("list, newest 50", "/api/v1/sessions?limit=50".to_owned()),
        ("list, second page", format!("/api/v1/sessions?limit=50&after={next}")),
        ("list, one developer", "/api/v1/sessions?limit=50&user=user-0007".to_owned()),
        ("list, live", "/api/v1/sessions?limit=50&live=true".to_owned()),
        ("one tree", format!("/api/v1/sessions/{id}/tree")),
        ("ids by prefix", format!("/api/v1/names?prefix={prefix}")),
        ("agent by id", format!("/api/v1/names?prefix={agent}")),
        ("search, a frequent word", "/api/v1/search?q=word1&limit=50".to_owned()),
        ("search, a rare word", "/api/v1/search?q=word19001&limit=50".to_owned()),
        ("search, two words", "/api/v1/search?q=word3%20word40&limit=50".to_owned()),
        ("cost by project and day", "/api/v1/stats?by=project,day".to_owned()),
        ("cost by team and model", "/api/v1/stats?by=team,model".to_owned()),
        ("cost of one developer by day", "/api/v1/stats?by=day&user=user-0007".to_owned()),
        ("people and machines", "/api/v1/people".to_owned()),
        ("sum of everything", "/api/v1/stats?by=".to_owned()),
        ("all statistics", "/api/v1/stats".to_owned()),
    ] {
        let mut times: Vec<Duration> = (0..=RUNS)
            .map(|_| {
                let began = clock::tick();
                let _: Value = client.get(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
                began.elapsed()
            })
            .skip(1)
            .collect();
        times.sort_unstable();
        row(format!("{name}: median"), times[RUNS / 2], 300.0);
        row(format!("{name}: 95th percentile"), times[RUNS * 95 / 100], 600.0);
    }
    let (times, _) = read_at_once(server, developers, PACE);
    let open = format!("{READERS} readers at once, each with a view of the page open");
    row(format!("{open}: median"), times[times.len() / 2], 300.0);
    row(format!("{open}: 95th percentile"), times[times.len() * 95 / 100], 600.0);
    let (times, took) = read_at_once(server, developers, Duration::ZERO);
    let figure = format!("{READERS} readers who ask without a pause: answers in a second");
    let values = vec![times.len() as f64 / took.as_secs_f64()];
    println!("{}", Row { question, figure, values, unit: "", budget: None, is_floor: false }.markdown());
}

/// Asks for the page's views as many readers do; their questions are spread over the time between two. Returns how long
/// each answer took, in order, and all of it.
fn read_at_once(server: &str, developers: &[Developer], pace: Duration) -> (Vec<Duration>, Duration) {
    let began = clock::tick();
    let read = |number: usize| {
        let token = &developers[number % developers.len()].token;
        let mut client = Client::of_team(Remote::new(server, token).unwrap());
        let begin = pace * u32::try_from(number).unwrap() / u32::try_from(READERS).unwrap();
        let view = VIEWS[number % VIEWS.len()];
        let ask = |round: u32| {
            std::thread::sleep((begin + pace * round).saturating_sub(began.elapsed()));
            let asked = clock::tick();
            let _: Value = client.get(view).unwrap_or_else(|error| panic!("{view}: {error}"));
            asked.elapsed()
        };
        (0..u32::try_from(ROUNDS).unwrap()).map(ask).collect::<Vec<_>>()
    };
    let mut times = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|number| scope.spawn(move || read(number))).collect();
        readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    times.sort_unstable();
    (times, began.elapsed())
}

/// Runs a statement in the engine.
fn ask(engine: &str, sql: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(engine.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(FILL_TIMEOUT)).unwrap();
    let head = format!(
        "POST /?database=subscope HTTP/1.1\r\nhost: engine\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{sql}",
        sql.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{sql}: {body}");
    body.to_owned()
}
