//! Any bytes, cut anywhere, as what `opencode run --format json` prints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::opencode::STDOUT;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(STDOUT, data));
