//! Has the page embedded anew when it was built anew: files of `web/dist` come and go with their names.

fn main() {
    println!("cargo::rerun-if-changed=../../web/dist");
}
