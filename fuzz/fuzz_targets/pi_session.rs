//! Any bytes, cut anywhere, as the lines of a file of pi or oh-my-pi.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::pi::omp::SESSION;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(SESSION, data));
