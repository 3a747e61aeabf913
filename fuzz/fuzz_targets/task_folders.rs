//! Any bytes, cut anywhere, as the lines of tasks of an extension.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::task_folders::roo::TASKS;

fuzz_target!(|data: &[u8]| subscope_fuzz::feed(TASKS, data));
