//! Any bytes, cut anywhere, as Claude Code's stdout.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::claude_code::STREAM;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(STREAM, data));
