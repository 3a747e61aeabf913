//! Any bytes, cut anywhere, as Claude Code's stdout.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_decode::Dialect;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(Dialect::ClaudeStream, data));
