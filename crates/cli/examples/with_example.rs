//! The program with the made-up harness `example`, for the test of what a second harness takes.

use subscope_testkit::example::register_example;

fn main() -> std::process::ExitCode {
    register_example();
    subscope::main()
}
