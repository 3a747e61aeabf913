//! Any bytes, cut anywhere, as the rows of a session of Crush.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::crush::ROWS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(ROWS, data));
