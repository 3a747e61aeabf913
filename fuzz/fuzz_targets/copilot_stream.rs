//! Any bytes, cut anywhere, as what Copilot prints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::copilot::STREAM;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(STREAM, data));
