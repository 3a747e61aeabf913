//! Any bytes, cut anywhere, as messages of an editor and an agent over ACP.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::acp::MESSAGES;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(MESSAGES, data));
