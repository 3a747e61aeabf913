//! Links the program at a fixed place on Linux: an agent waits for each of its hooks, and a third of a millisecond of
//! that was the relocation of a program that can stand anywhere. Its libraries still can.

fn main() {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
