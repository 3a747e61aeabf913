//! Cost of one rewritten file of 200 bytes among 115 MB of followed files: a harness rewrites one at each agent's end.
//! Budgets: 5 ms of a processor, and no row of another session.

use std::{fs, io::Write, time::Duration};

use subscope_client::{Address, Client, LiveFeed};
use subscope_hub::clock;
use subscope_model::{Feed, FeedItem, SessionId, Update, iso8601};
use subscope_testkit::{
    corpus,
    figures::{Row, now, processor_time},
};

use crate::server::Server;

const SESSIONS: u64 = 60;
const BYTES: u64 = 1_900_000;
/// How long nothing may happen before it counts as quiet, and how long the cost of a file is looked for.
const QUIET: Duration = Duration::from_secs(3);
const WINDOW: Duration = Duration::from_secs(2);

pub(crate) fn meta() -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".claude");
    let mut made = Vec::new();
    for seed in 0..SESSIONS {
        let options = corpus::Options { seed, main_bytes: BYTES, ..corpus::session_of(0) };
        let start = clock::now_ms() - 600_000;
        made.push(corpus::on_disk(&corpus::Options { start, ..options }, &folder).expect("room for 2 MB"));
    }
    let own = &made[0];
    let session = SessionId::from(own.session.as_str());
    let main = own.main(&folder);
    let metas = main.with_extension("").join("subagents");
    let metas: Vec<_> =
        fs::read_dir(metas).expect("subagents").filter_map(Result::ok).map(|it| it.path()).collect();
    let is_meta = |path: &&std::path::PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let metas: Vec<_> = metas.iter().filter(is_meta).collect();
    // As the harness leaves them while agents work.
    const FINISHED: &str = ",\"finished\":true}";
    for meta in &metas {
        let text = fs::read_to_string(meta).expect("a meta file");
        fs::write(meta, text.replace(FINISHED, "}")).expect("a meta file");
    }
    let server = Server::subscope(home.path());
    let address = Address::Tcp(server.address.parse().expect("an address"));
    let mut feed = LiveFeed::open(Box::new(move || Client::connect(address.clone()))).expect("a feed");
    // Indexing publishes nothing. The processor time of threads that have ended is not counted.
    let mut rest = || loop {
        let before = processor_time(server.child.id());
        while feed.next(QUIET) != FeedItem::Idle {}
        let spent = processor_time(server.child.id()).checked_sub(before);
        if spent.is_some_and(|spent| spent < QUIET / 100) {
            break;
        }
    };
    rest();
    // It is at work: an idle session is read again when it continues.
    let prompt = serde_json::json!({
        "type": "user", "sessionId": own.session, "uuid": "last", "parentUuid": null, "isSidechain": false,
        "timestamp": iso8601(own.ended + 1_000), "version": corpus::VERSION, "cwd": own.cwd, "promptId": "last",
        "message": { "role": "user", "content": "and now the rest" },
    });
    let file = fs::File::options().append(true).open(&main);
    writeln!(file.expect("a transcript"), "{prompt}").expect("a line");
    rest();
    let mut window = |act: &dyn Fn()| {
        let (began, before) = (now(), processor_time(server.child.id()));
        act();
        let (mut all, mut others) = (0.0, 0.0);
        while let Some(wait) = WINDOW.checked_sub(began.elapsed()) {
            if let FeedItem::Update(Update::Change(change)) = feed.next(wait) {
                all += 1.0;
                others += f64::from(u8::from(change.session().id != session));
            }
        }
        let spent = processor_time(server.child.id()).saturating_sub(before);
        (spent.as_secs_f64() * 1_000.0, all, others)
    };
    let (idle, ..) = window(&|| ());
    let (mut cost, mut frames, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
    for meta in metas {
        let text = fs::read_to_string(meta).expect("a meta file");
        let more = text.replace('}', FINISHED);
        let (spent, all, others) = window(&|| fs::write(meta, &more).expect("a meta file"));
        cost.push((spent - idle).max(0.0));
        frames.push(all);
        foreign.push(others);
    }
    let row = |figure: &str, values, unit, budget| Row {
        question: format!(
            "a meta file is rewritten among {SESSIONS} sessions of {} MB",
            SESSIONS * BYTES / 1_000_000
        ),
        figure: figure.to_owned(),
        values,
        unit,
        budget,
        is_floor: false,
    };
    vec![
        row("processor time beyond an idle hub's", cost, " ms", Some(5.0)),
        row("changes published", frames, "", None),
        row("changes published of other sessions", foreign, "", Some(0.0)),
    ]
}
