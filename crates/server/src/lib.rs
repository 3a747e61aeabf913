//! HTTP over a hub, for programs of the same user on the same machine: ingest routes, queries and live feeds.
//!
//! Flow of a request: accept → user of the peer (`peer`) → `request_guard` (host, origin, fetch site, token) → route →
//! body (`body`: type, size limit, memory budget, timeouts) → the hub's handle → response. A live feed is a bounded
//! queue that the hub fills: a slow reader gets `missed` with a count, one that stops reading is disconnected. OTLP over
//! gRPC arrives on the same port: the first bytes of a connection tell HTTP/2 (`http2`).
//!
//! Absent on purpose: attribution, rows and storage; logs (received content is never printed); outgoing connections. No
//! id from outside becomes part of a path.

mod active_agents;
mod api_error;
mod ask;
mod body;
mod connection_limiter;
mod counters;
mod http2;
mod listen;
mod otlp_body;
mod parameters;
mod peer;
mod permissions;
mod public_names;
mod request_guard;
mod routes;
mod session_reader;
mod state;
mod token;

pub use api_error::{ApiError, ErrorBody};
pub use counters::ConnectionCount;
pub use listen::{HubIdentity, ListenError, Server, ServerOptions, Timeouts};
pub use peer::IDENTIFIES_TCP_PEERS;
pub use public_names::{PublicNameError, PublicNames};
pub use routes::{
    BodyTypes, FORMAT_SCHEMAS, QuestionServer, TimelinePage, list_routes, session_routes,
    team_page_not_found, team_page_routes,
};
pub use session_reader::{
    HistoryRequest, HistoryResult, PayloadReader, SessionHistory, SessionReader, UnreadableSession,
};
pub use state::{
    Demo, DemoReader, ForwardingReader, IndexRequest, Indexer, PostSink, RemotesReader, SendingReader,
    SetupReader, TerminalJumper,
};
pub use token::{Token, TokenError, random_hex};
