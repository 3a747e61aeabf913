//! Generated files that are committed, mostly pages of the documentation: a test compares each with its generator, and
//! writes it if [`WRITES`] is set (`cargo xtask types` does that).

use std::{fs, path::Path};

/// Environment variable with which [`check`] writes the file first.
pub const WRITES: &str = "SUBSCOPE_WRITE_GENERATED";

/// Panics unless a file, named from the root of the repository, has this text.
pub fn check(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if std::env::var_os(WRITES).is_some() {
        fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write {name}: {error}"));
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{name} differs from what generates it: run `cargo xtask types`");
}
