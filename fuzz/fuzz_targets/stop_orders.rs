//! Any bytes, cut anywhere, as our own orders that agents stop.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_decode::STOP_ORDERS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(STOP_ORDERS, data));
