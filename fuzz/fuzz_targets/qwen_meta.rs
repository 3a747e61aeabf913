//! Any bytes, cut anywhere, as a note of Qwen Code about an agent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::qwen::META;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(META, data));
