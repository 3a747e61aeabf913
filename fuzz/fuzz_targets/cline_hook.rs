//! Any bytes, cut anywhere, as payloads of Cline CLI's hooks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::cline::HOOK;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(HOOK, data));
