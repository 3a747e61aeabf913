//! `cargo xtask windows`: the crates that compile for Windows keep doing so, and the program prints there what it prints here.

mod wine;

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::step::{cargo, output, program, run, skip, succeeds};

/// The target whose linker and C compiler other systems have, too.
const TARGET: &str = "x86_64-pc-windows-gnu";

/// Compiler of the C in dependencies, and linker.
const COMPILER: &str = "x86_64-w64-mingw32-gcc";

/// What compiles for Windows: the program, with all that it is made of. The others are `guard`, which is of Unix, and the
/// server of a team.
const CRATES: &[&str] = &[
    "",
    "-client",
    "-collect",
    "-decode",
    "-export",
    "-harness",
    "-hub",
    "-mcp",
    "-model",
    "-page",
    "-platform",
    "-program",
    "-query",
    "-render",
    "-run",
    "-server",
    "-session",
    "-store",
    "-testkit",
    "-track",
    "-tui",
];

/// Checks the crates with clippy, and compares outputs under Wine; skipped where the target or its compiler is not installed,
/// because nothing here installs it.
pub(crate) fn check() -> Result<()> {
    if let Some(missing) = missing()? {
        skip("windows", &missing);
        return Ok(());
    }
    let packages = CRATES.iter().flat_map(|name| ["--package".to_owned(), format!("subscope{name}")]);
    let clippy = ["clippy", "--locked", "--target", TARGET];
    run("windows", cargo().args(clippy).args(packages).args(["--", "-D", "warnings"]))?;
    wine::compare()
}

/// Returns what this machine lacks; `None` if nothing.
fn missing() -> Result<Option<String>> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let library = output(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]))?;
    if !Path::new(library.trim()).exists() {
        return Ok(Some(format!("no standard library of it: `rustup target add {TARGET}`")));
    }
    let has_compiler = succeeds(program(COMPILER).arg("--version"));
    Ok((!has_compiler).then(|| format!("no {COMPILER}: Debian's package gcc-mingw-w64-x86-64")))
}
