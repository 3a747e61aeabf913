//! The program.

fn main() -> std::process::ExitCode {
    subscope::main()
}
