//! Updates for subscribers: snapshot and changes together equal the current tree, whenever a subscriber joins.

#![allow(clippy::unwrap_used)]

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use proptest::{prelude::*, sample::Index};
use subscope_hub::{Driver, Hub, HubOptions, HubSubscription, MemoryStore, PollResult, Recording, Replay};
use subscope_model::{
    Agent, Event, Feed, FeedItem, LiveView, Millis, PriceTable, SessionId, SourceId, Tree, Update,
};
use subscope_session::SessionRouter;
use subscope_testkit::{
    fixtures::recording,
    sessions::{self, LATER, Part, Telling, parts_of},
    strategies::interleavings,
};

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(30);

fn options() -> HubOptions {
    HubOptions::default()
}

/// Index of a source, and a chunk of it.
type Piece = (usize, Vec<u8>);
/// State of a subscriber, built from its updates.
#[derive(Debug, Default)]
struct Reader {
    view: LiveView,
    events: Vec<Event>,
    missed: u64,
    caught_up: usize,
}

impl Reader {
    fn take(&mut self, update: Update) {
        if let Update::Change(change) = &update {
            let session = change.session();
            let known = self.view.get(&session.id);
            let known = known.unwrap_or_else(|| panic!("a change before its session's snapshot"));
            assert!(known.session.rev <= session.rev, "a session's rev never steps back");
            for row in &change.agents {
                let before = self.view.agent(&session.id, &row.id).and_then(|known| known.rev);
                assert!(
                    before < row.rev,
                    "a row that is published again has a higher rev: {before:?}, {:?}",
                    row.rev
                );
            }
        }
        match update {
            Update::Snapshot(_) | Update::Change(_) => self.view.apply(update),
            Update::Event(event) => self.events.push(event.into_inner()),
            Update::Missed(count) => self.missed += count,
            Update::Reset => panic!("a reset without a position"),
            Update::CaughtUp => self.caught_up += 1,
        }
    }

    /// Reads until the feed ends.
    fn read(mut self, feed: &mut HubSubscription) -> Self {
        loop {
            match feed.next(LIMIT) {
                FeedItem::Update(update) => self.take(update),
                FeedItem::Idle => panic!("nothing in {LIMIT:?}"),
                FeedItem::Closed => return self,
            }
        }
    }

    fn trees(&self) -> Vec<&Tree> {
        self.view.trees().collect()
    }

    fn ids(&self) -> Vec<&str> {
        self.events.iter().map(|event| &*event.id).collect()
    }
}

/// Rows as derived from files, without the revs that a store assigns.
fn unmarked(rows: &[Agent]) -> Vec<Agent> {
    rows.iter().map(|row| Agent { rev: None, ..row.clone() }).collect()
}

/// Driver that pushes chunks of sources on request, one at a time.
struct Stepper {
    parts: Vec<Part>,
    sources: Vec<SourceId>,
    pieces: std::vec::IntoIter<Piece>,
    /// Receives a message for each chunk to push.
    go: Receiver<()>,
    /// Notified after each chunk.
    done: SyncSender<()>,
}

impl Driver for Stepper {
    fn poll(&mut self, wait: Duration, router: &mut SessionRouter) -> PollResult {
        if self.sources.is_empty() {
            self.sources = self.parts.iter().map(|part| router.open(part.spec.clone())).collect();
        }
        if self.go.recv_timeout(wait.min(Duration::from_millis(1))).is_err() {
            return PollResult::default();
        }
        let polled = match self.pieces.next() {
            Some((source, bytes)) => {
                router.push(self.sources[source], &bytes);
                PollResult { has_pushed: true, ..PollResult::default() }
            }
            None => {
                self.sources.iter().for_each(|source| router.flush(*source));
                PollResult { is_caught_up: true, has_ended: true, ..PollResult::default() }
            }
        };
        // The receiver is gone if the test has failed.
        let _ = self.done.send(());
        polled
    }

    fn now(&self) -> Millis {
        LATER
    }
}

/// Recordings whose rows change in every way: nested agents, a background agent, a resumed agent, a stopped one, an old
/// version.
const SCENARIOS: [(&str, &str); 5] = [
    ("2.1.330", "c-nested"),
    ("2.1.330", "d-background"),
    ("2.1.330", "i-sendmessage-resume"),
    ("2.1.330", "e-taskstop"),
    ("2.0.76", "b-parallel"),
];

/// A scenario's sources, their lines in any order, and the times at which subscribers join.
fn scene() -> impl Strategy<Value = (Vec<Part>, Vec<Piece>, Vec<Index>)> {
    (any::<Index>(), 1..8u8).prop_flat_map(|(scenario, choice)| {
        let (version, name) = SCENARIOS[scenario.index(SCENARIOS.len())];
        let bits = Telling::ALL.iter().enumerate().filter(|(bit, _)| choice & (1 << bit) != 0);
        let tellings: Vec<Telling> = bits.map(|(_, telling)| *telling).collect();
        let parts = parts_of(&recording(version, name), &tellings);
        let order = interleavings(parts.iter().map(Part::lines).collect());
        (Just(parts), order, proptest::collection::vec(any::<Index>(), 3))
    })
}

/// The rows of these pieces, read at once after their sources have ended.
fn at_once(parts: &[Part], pieces: &[Piece]) -> (SessionId, Vec<Agent>) {
    let mut router = SessionRouter::new(sessions::options(false));
    let sources: Vec<_> = parts.iter().map(|part| router.open(part.spec.clone())).collect();
    for (part, bytes) in pieces {
        router.push(sources[*part], bytes);
    }
    sources.into_iter().for_each(|source| router.flush(source));
    let session = sessions::only_session(&router);
    let prices = PriceTable::default();
    let now = subscope_session::Now { has_ended: true, ..sessions::now(LATER, &prices) };
    let tree = router.tree(&session, &now).unwrap();
    (session, tree.agents)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 20, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn snapshot_and_changes_are_the_fresh_snapshot((parts, pieces, moments) in scene()) {
        let (session, expected) = at_once(&parts, &pieces);
        let (go, may_go) = sync_channel(1);
        let (done, is_done) = sync_channel(1);
        let steps = pieces.len() + 1;
        let moments: Vec<usize> = moments.iter().map(|moment| moment.index(steps)).collect();
        let stepper = Stepper { parts, sources: Vec::new(), pieces: pieces.into_iter(), go: may_go, done };
        let hub = Hub::start(Box::new(stepper), Box::new(MemoryStore::new()), options()).unwrap();
        let mut feeds = vec![hub.subscribe()];
        for step in 0..steps {
            feeds.extend(moments.iter().filter(|moment| **moment == step).map(|_| hub.subscribe()));
            go.send(()).unwrap();
            is_done.recv_timeout(LIMIT).unwrap();
        }
        for mut feed in feeds {
            let reader = Reader::default().read(&mut feed);
            prop_assert_eq!(reader.trees().len(), 1);
            let now = feed.tree(&session);
            prop_assert_eq!(reader.view.get(&session), now.as_ref());
            prop_assert_eq!(&unmarked(&now.unwrap().agents), &expected);
            prop_assert_eq!((reader.missed, reader.caught_up), (0, 1));
        }
    }
}

fn replayed() -> Vec<Recording> {
    let parts = parts_of(&recording("2.1.330", "c-nested"), &[Telling::Transcript]);
    let of = |agent: &Option<String>| {
        parts.iter().position(|part| part.spec.agent == *agent && part.spec.label.ends_with(".jsonl"))
    };
    parts
        .iter()
        .map(|part| {
            let is_meta = part.spec.label.ends_with(".meta.json");
            let appears_with = of(&part.spec.agent).filter(|_| is_meta);
            Recording { spec: part.spec.clone(), bytes: part.bytes.clone(), appears_with }
        })
        .collect()
}

#[test]
fn replay_at_any_speed_ends_in_the_tree_of_the_files() {
    let expected = sessions::tree(&parts_of(&recording("2.1.330", "c-nested"), &[Telling::Transcript]));
    for speed in [f64::INFINITY, 400.0] {
        let hub =
            Hub::start(Box::new(Replay::new(replayed(), speed)), Box::new(MemoryStore::new()), options())
                .unwrap();
        let mut feed = hub.subscribe();
        let reader = Reader::default().read(&mut feed);
        let tree = reader.view.get(&expected.session.id).unwrap();
        assert_eq!(tree.session.runs, expected.session.runs, "speed {speed}");
        assert_eq!(unmarked(&tree.agents), expected.agents, "speed {speed}");
        let mut ids = reader.ids();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "an event is told once");
        assert!(reader.events.iter().map(|event| event.seq).is_sorted());
    }
}

#[test]
fn subscribers_of_any_moment_end_with_the_same_rows() {
    let hub = Hub::start(Box::new(Replay::new(replayed(), 100.0)), Box::new(MemoryStore::new()), options())
        .unwrap();
    let readers: Vec<_> = (0..6u64)
        .map(|number| {
            thread::sleep(Duration::from_millis(number * 7));
            let mut feed = hub.subscribe();
            thread::spawn(move || {
                let reader = Reader::default().read(&mut feed);
                for tree in reader.trees() {
                    assert_eq!(feed.tree(&tree.session.id).as_ref(), Some(tree));
                }
                reader
            })
        })
        .collect();
    let readers: Vec<Reader> = readers.into_iter().map(|thread| thread.join().unwrap()).collect();
    for reader in &readers[1..] {
        assert_eq!(reader.trees(), readers[0].trees());
        // A later subscriber has missed the events published before, and nothing else.
        assert!(readers[0].ids().ends_with(&reader.ids()));
    }
}

#[test]
fn subscriber_after_the_end_gets_the_snapshot_and_the_end() {
    let hub =
        Hub::start(Box::new(Replay::new(replayed(), f64::INFINITY)), Box::new(MemoryStore::new()), options())
            .unwrap();
    let first = Reader::default().read(&mut hub.subscribe());
    let late = Reader::default().read(&mut hub.subscribe());
    assert_eq!(late.trees(), first.trees());
    assert_eq!((late.events.len(), late.caught_up), (0, 1));
}
