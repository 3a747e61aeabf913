//! Any bytes, cut anywhere, as posted events.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_decode::SUBAGENT_EVENTS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(SUBAGENT_EVENTS, data));
