//! Any bytes, cut anywhere, as what Codex prints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::codex::EXEC;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(EXEC, data));
