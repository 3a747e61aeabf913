//! Any bytes, cut anywhere, as lines of OpenTelemetry records of Gemini CLI.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::gemini::OTEL;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(OTEL, data));
