//! Any bytes, cut anywhere, as what `kimi --output-format stream-json` prints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::kimi::STREAM;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(STREAM, data));
