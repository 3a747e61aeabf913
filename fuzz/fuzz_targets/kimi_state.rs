//! Any bytes, cut anywhere, as what Kimi Code notes of a session.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::kimi::STATE;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(STATE, data));
