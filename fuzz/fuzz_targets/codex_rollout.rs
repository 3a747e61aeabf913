//! Any bytes, cut anywhere, as the rollout of a thread of Codex.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::codex::ROLLOUT;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(ROLLOUT, data));
