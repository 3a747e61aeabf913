//! Any bytes, cut anywhere, as the lines of an agent of Kimi Code.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::kimi::WIRE;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(WIRE, data));
