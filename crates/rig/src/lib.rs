//! Runs real harnesses without their models: a fake server of model APIs on the loopback that answers from a script,
//! and a log of its requests and answers.
//!
//! [`Scenario`] is the script, [`StandIn`] the server, [`Exchange`] one entry of the log. The log is the independent
//! ground truth of a run: which agents sent requests (Claude Code's by their headers, all by their prompts), their
//! parents, the calls that the model made, and the token counts. It shares no code with the product.
//!
//! Scripted: the model's texts, tool calls, pauses and token counts. Everything else is the real program.
//!
//! Dev-only: no production path depends on this crate. Of the product it uses what any program may use, the client.

mod answer;
mod api;
mod choice;
mod clock;
mod log;
mod scenario;
mod server;

pub use clock::tick;
pub use log::{Called, Exchange, Outcome, Spent};
pub use scenario::{Actor, Failure, Scenario, ScenarioError, Step, Tool};
pub use server::{StandIn, StandInError};
