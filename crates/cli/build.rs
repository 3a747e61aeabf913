//! Links the program at a fixed address on Linux.
//!
//! An agent waits for each hook. The loader of a position-independent program writes every pointer of its tables anew:
//! two thirds of the page faults of a hook, and more than half of its processor time, in a program of this size.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of_target = |key: &str| std::env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let is_static = of_target("FEATURE").split(',').any(|feature| feature == "crt-static");
    if of_target("OS") == "linux" && of_target("ENV") == "gnu" && !is_static {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
