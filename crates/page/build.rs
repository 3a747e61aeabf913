//! Makes Cargo embed the page again after it was rebuilt: the names of the files in `dist` change.

fn main() {
    println!("cargo::rerun-if-changed=dist");
}
