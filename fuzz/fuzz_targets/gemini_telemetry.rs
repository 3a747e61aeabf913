//! Any bytes, cut anywhere, as Gemini's telemetry file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::gemini::TELEMETRY;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(TELEMETRY, data));
