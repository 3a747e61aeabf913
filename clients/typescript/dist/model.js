// Made by `cargo xtask types` from crates/model: edit that.
export {};
