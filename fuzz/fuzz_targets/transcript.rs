//! Any bytes, cut anywhere, as Claude Code's transcripts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::claude_code::TRANSCRIPT;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(TRANSCRIPT, data));
