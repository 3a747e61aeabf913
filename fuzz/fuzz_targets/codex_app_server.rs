//! Any bytes, cut anywhere, as what Codex's app server writes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::codex::APP_SERVER;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(APP_SERVER, data));
