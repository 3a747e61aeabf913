//! Any bytes, cut anywhere, as hook payloads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::claude_code::HOOK;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(HOOK, data));
