//! Any bytes, cut anywhere, as lines of OpenTelemetry records of Codex.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::codex::OTEL;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(OTEL, data));
