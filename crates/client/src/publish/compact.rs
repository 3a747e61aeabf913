//! Compacts JSON text: removes whitespace outside strings; numbers, keys and their order stay as written.

/// Removes whitespace outside strings, the form of payloads on the wire. Invalid JSON is not detected.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut is_text, mut is_escaped) = (false, false);
    for character in json.chars() {
        if is_text || !matches!(character, ' ' | '\t' | '\n' | '\r') {
            out.push(character);
        }
        match character {
            '"' if !is_escaped => is_text = !is_text,
            _ => {}
        }
        is_escaped = is_text && character == '\\' && !is_escaped;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_go_and_what_is_said_stays() {
        let json = "{ \"a \\\" b\" : [ 1.10 ,\n\t\"\\\\\" , \"c d\" ] , \"e\" : 1e400 }";
        assert_eq!(compact(json), r#"{"a \" b":[1.10,"\\","c d"],"e":1e400}"#);
        assert_eq!(compact(" null "), "null");
    }
}
