//! Digests of tool calls, by which calls without an id are matched.

use std::hash::{BuildHasher, Hasher};

/// Returns a digest of a tool's name and its arguments as written: equal for equal texts.
pub fn digest(name: &str, input: &str) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write(name.as_bytes());
    hasher.write_u8(0);
    hasher.write(input.as_bytes());
    hasher.finish()
}

/// Returns a digest that is equal for arguments that differ only in the order of their keys and in white space.
pub fn canonical_digest(name: &str, input: &str) -> u64 {
    match serde_json::from_str::<serde_json::Value>(input) {
        Ok(mut value) => {
            value.sort_all_objects();
            digest(name, &value.to_string())
        }
        Err(_) => digest(name, input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_digest_ignores_key_order() {
        assert_eq!(
            canonical_digest("Read", r#"{"a":1,"b":2}"#),
            canonical_digest("Read", r#"{ "b":2,"a":1 }"#)
        );
        assert_ne!(canonical_digest("Read", r#"{"a":1}"#), canonical_digest("Write", r#"{"a":1}"#));
    }
}
