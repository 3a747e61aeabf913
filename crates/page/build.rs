//! Has the page embedded anew when it was built anew: files of `dist` come and go with their names.

fn main() {
    println!("cargo::rerun-if-changed=dist");
}
