//! HTTP over a hub, for programs of the same user on the same machine: ingest routes, queries and live feeds.
//!
//! Flow of a request: accept → whose is the peer (`peer`) → doors (`doors`: host, origin, fetch site) → route → body
//! (`body`: type, cap, budget, patience) → the hub's handle → answer. A live feed is a bounded queue that the hub fills;
//! a reader that is too slow is told what it missed, and one that stops reading is cut off.
//!
//! Absent on purpose: attribution, rows and what keeps them; logs (nothing that was handed over is ever printed); any
//! connection of its own. No id that comes from outside becomes a part of a path.

mod ask;
mod board;
mod body;
mod counters;
mod crowd;
mod doors;
mod guests;
mod listen;
mod mailbox;
mod peer;
mod refusal;
mod routes;
mod slow;
mod state;
mod teller;
mod token;

pub use guests::Guests;
pub use listen::{Identity, Patience, ServeError, Server, ServerOptions};
pub use mailbox::{Mailbox, Taker};
pub use peer::CAN_TELL as PEERS_ARE_KNOWN;
pub use teller::{Retold, Teller, Telling, Wanted};
pub use token::{Token, TokenError};
