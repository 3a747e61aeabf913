//! Any bytes, cut anywhere, as rows of OpenCode's database.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::opencode::DATABASE;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(DATABASE, data));
