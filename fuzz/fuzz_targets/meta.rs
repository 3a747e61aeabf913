//! Any bytes, cut anywhere, as `agent-<id>.meta.json`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::claude_code::META;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(META, data));
