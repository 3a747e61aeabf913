//! Any bytes, cut anywhere, as a conversation of Cline CLI.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::cline::MESSAGES;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(MESSAGES, data));
