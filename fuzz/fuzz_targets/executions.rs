//! Any bytes, cut anywhere, as our own execution traces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_decode::EXECUTIONS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(EXECUTIONS, data));
