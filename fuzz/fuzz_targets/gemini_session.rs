//! Any bytes, cut anywhere, as a chat of Gemini as one object.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::gemini::SESSION;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(SESSION, data));
