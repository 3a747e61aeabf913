//! Any bytes, cut anywhere, as payloads of hooks of Kimi Code.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::kimi::HOOK;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(HOOK, data));
