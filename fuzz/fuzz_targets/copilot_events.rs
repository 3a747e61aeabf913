//! Any bytes, cut anywhere, as the events of a Copilot session.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::copilot::EVENTS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(EVENTS, data));
