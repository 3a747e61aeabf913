//! Any bytes, cut anywhere, as a workflow's journal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::claude_code::JOURNAL;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(JOURNAL, data));
