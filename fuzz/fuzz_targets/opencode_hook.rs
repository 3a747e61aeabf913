//! Any bytes, cut anywhere, as what our plugin for OpenCode passes on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::opencode::HOOK;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(HOOK, data));
