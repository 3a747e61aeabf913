//! Any bytes, cut anywhere, as a chat of Gemini.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::gemini::CHAT;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(CHAT, data));
