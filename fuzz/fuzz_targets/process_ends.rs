//! Any bytes, cut anywhere, as our own ends of processes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_decode::PROCESS_ENDS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(PROCESS_ENDS, data));
