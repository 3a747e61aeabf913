//! Any bytes, cut anywhere, as lines of GenAI spans.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_decode::otlp::OTEL_GENAI;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(OTEL_GENAI, data));
