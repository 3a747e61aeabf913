//! Any bytes, cut anywhere, as our own feed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_decode::FEED;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(FEED, data));
