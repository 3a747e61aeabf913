//! Any bytes, cut anywhere, as the rows of Cline CLI's database about a session.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::cline::ROWS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(ROWS, data));
