//! HTTP over a hub, for programs of the same user on the same machine: ingest routes, queries and live feeds.
//!
//! Flow of a request: accept → whose is the peer (`peer`) → doors (`doors`: host, origin, fetch site) → route → body
//! (`body`: type, cap, budget, patience) → the hub's handle → answer. A live feed is a bounded queue that the hub fills;
//! a reader that is too slow is told what it missed, and one that stops reading is cut off.
//!
//! Absent on purpose: attribution, rows and what keeps them; logs (nothing that was handed over is ever printed); any
//! connection of its own. No id that comes from outside becomes a part of a path.

mod active_agents;
mod api_error;
mod ask;
mod body;
mod connection_count;
mod connection_limiter;
mod counters;
mod event_listener;
mod listen;
mod peer;
mod request_guard;
mod routes;
mod session_reader;
mod state;
mod token;
mod write_timeout;

pub use connection_count::ConnectionCount;
pub use event_listener::{EventListener, Taker};
pub use listen::{Identity, Patience, ServeError, Server, ServerOptions};
pub use peer::CAN_TELL as PEERS_ARE_KNOWN;
pub use session_reader::{ReadOutcome, SessionHistory, SessionReader, Wanted};
pub use token::{Token, TokenError};
