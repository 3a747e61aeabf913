//! Any bytes, cut anywhere, as events of OpenCode's server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::opencode::EVENTS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(EVENTS, data));
