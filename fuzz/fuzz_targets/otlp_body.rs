//! Any bytes as the body of an OpenTelemetry request, in each encoding: the lines made from the body can be decoded
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use subscope_harness::{Encoding, Signal, divide_otlp};

fuzz_target!(|data: &[u8]| {
    for signal in [Signal::Traces, Signal::Logs, Signal::Metrics] {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            let Ok(divided) = divide_otlp(signal, encoding, data) else { continue };
            for kept in divided.kept {
                assert!(!kept.line.contains(&b'\n'));
                subscope_fuzz::feed(kept.dialect, &kept.line);
            }
        }
    }
});
