//! Any bytes, cut anywhere, as what `cline --json` prints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::cline::STREAM;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(STREAM, data));
