//! The real Claude Code without its model: a stand-in for the Messages API on the loopback that plays the model from a
//! script, and a log of what it said to whom.
//!
//! [`Scenario`] is the script, [`StandIn`] the server, [`Exchange`] one line of the log. The log is the independent truth of a
//! run: which agents asked (by the headers of their requests), who started them, which calls they were told to make and how
//! many tokens they were told to have used. Nothing of the product has a part in it.
//!
//! What is made up: the model's words, its choice of tools, its pauses and its token counts. All else is the real program's.
//!
//! Dev-only: no production path depends on this crate. Of the product it uses what any program may use, the client.

mod answer;
mod choice;
mod clock;
mod log;
mod scenario;
mod server;
mod stream;

pub use clock::tick;
pub use log::{Called, Exchange, Outcome, Spent};
pub use scenario::{Actor, Failure, Scenario, ScenarioError, Step, Tool};
pub use server::{StandIn, StandInError};
