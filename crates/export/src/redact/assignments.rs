//! Values assigned to names of secrets: `password: …`, `API_KEY=…`, `--token …`, `<secret>…</secret>`.
//!
//! One scanner for all syntaxes. It searches for words that names of secrets contain. The whole name decides what is
//! assigned (`token_limit` is not a token); operator and quotes decide where the value ends; the value's form decides
//! whether it is a secret, or a word, a placeholder or code.

use std::ops::Range;

use super::rules::{RULES, entropy};

/// Parts of names that are looked at, whatever their case.
pub(super) const NAME_PARTS: [&str; 11] =
    ["pass", "pwd", "pw", "psk", "secret", "token", "key", "credential", "auth", "salt", "_pat"];

/// Ends of names whose value is a password, whatever it looks like.
const PASSWORDS: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "pwd",
    "secret",
    "userpass",
    "storepass",
    "keypass",
];
/// The same as whole words.
const SHORT_PASSWORDS: [&str; 4] = ["pass", "pw", "psk", "secrets"];
/// Words before `key` that make it a secret; other keys name something.
const SECRET_KEYS: [&str; 36] = [
    "access",
    "account",
    "admin",
    "api",
    "app",
    "application",
    "auth",
    "client",
    "consumer",
    "credential",
    "decryption",
    "deploy",
    "encrypt",
    "encryption",
    "function",
    "hmac",
    "host",
    "ingestion",
    "integration",
    "jwt",
    "license",
    "master",
    "primary_access",
    "private",
    "secret",
    "security",
    "server",
    "service",
    "shared",
    "signing",
    "ssh",
    "storage",
    "subscription",
    "tls",
    "webhook",
    "write",
];
/// Words before `KEY` in names of constants and variables that are no secrets.
const OTHER_KEYS: [&str; 20] = [
    "cache",
    "column",
    "foreign",
    "group",
    "hash",
    "hot",
    "idempotency",
    "index",
    "lookup",
    "map",
    "object",
    "partition",
    "primary",
    "public",
    "publishable",
    "registry",
    "row",
    "search",
    "sort",
    "unique",
];
/// Words before `token` with which it is not a credential.
const OTHER_TOKENS: [&str; 16] = [
    "cancel",
    "cancellation",
    "class",
    "continuation",
    "cursor",
    "end",
    "eos",
    "input",
    "lexer",
    "max",
    "next",
    "output",
    "page",
    "pad",
    "stop",
    "total",
];
/// Last words of names that do not decide whether the name is that of a secret.
const QUALIFIERS: [&str; 16] = [
    "b64",
    "base",
    "base64",
    "data",
    "default",
    "dev",
    "env",
    "live",
    "new",
    "old",
    "prod",
    "production",
    "staging",
    "str",
    "test",
    "value",
];
/// What a word with a number begins with that names a type or an algorithm.
const NUMBERED: [&str; 16] = [
    "aes", "argon", "base", "char", "ed", "es", "float", "hs", "int", "md", "oauth", "rs", "sha", "uint",
    "utf", "varchar",
];

/// Longest name, longest value in bytes, and most blanks on each side of an operator.
const MAX_NAME_BYTES: usize = 80;
const MAX_VALUE_BYTES: usize = 4 << 10;
const MAX_BLANKS: usize = 16;
/// Shortest values.
const MIN_PASSWORD_BYTES: usize = 6;
const MIN_QUOTED_KEY_BYTES: usize = 12;
const MIN_BARE_KEY_BYTES: usize = 16;
const MIN_ENVIRONMENT_KEY_BYTES: usize = 10;
/// Minimum entropy of a key in bits per byte.
const MIN_KEY_ENTROPY: f64 = 3.0;

/// Kind of secret that a name suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretKind {
    /// Chosen by a person: of any form.
    Password,
    /// Made by a program: long and random.
    Key,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueStyle {
    Quoted,
    Bare,
    /// Bare, and only next to the name: a word of a sentence unless it looks like nothing else than a secret.
    Adjacent,
    /// Bare, and assigned to a name in capitals: a line of an environment.
    Environment,
}

/// Names of a text, found by their parts.
pub(super) struct Names<'t> {
    text: &'t str,
    /// End of the last name.
    looked_at: usize,
}

impl<'t> Names<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, looked_at: 0 }
    }

    /// Appends the byte range of the secret that is assigned to the name around a part, if one is; parts come in the
    /// order of their ends.
    pub(super) fn look_at(&mut self, part: Range<usize>, found: &mut Vec<Range<usize>>) {
        let text = self.text;
        if part.start < self.looked_at {
            return;
        }
        let name = name_around(text.as_bytes(), part);
        self.looked_at = name.end;
        if name.len() > MAX_NAME_BYTES {
            return;
        }
        // The cheap test first: most names are assigned short values.
        if let Some((value, style)) = assigned(text.as_bytes(), &name)
            && value.len() >= MIN_PASSWORD_BYTES
            && let Some(kind) = kind_of(text, &name)
            && text.get(value.clone()).is_some_and(|value| is_secret(kind, style, value))
        {
            found.push(value);
        }
    }
}

/// Whether the value of a key is a secret by the key's name.
pub(super) fn is_secret_of(key: &str, value: &str) -> bool {
    let kind = if key.len() <= MAX_NAME_BYTES { kind_of(key, &(0..key.len())) } else { None };
    kind.is_some_and(|kind| is_secret(kind, ValueStyle::Quoted, value))
}

/// Returns the name that a part belongs to: letters, digits, `_`, `-`, and dots before letters.
fn name_around(bytes: &[u8], part: Range<usize>) -> Range<usize> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let mut start = part.start;
    while start > 0
        && part.end - start <= MAX_NAME_BYTES
        && (is_inner(bytes[start - 1]) || bytes[start - 1] == b'.')
    {
        start -= 1;
    }
    let mut end = part.end;
    let goes_on = |end: usize| match bytes.get(end) {
        Some(b'.') => bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric),
        Some(byte) => is_inner(*byte),
        None => false,
    };
    while end - start <= MAX_NAME_BYTES && goes_on(end) {
        end += 1;
    }
    start..end
}

/// Returns the kind of secret that a name suggests; `None` if it suggests none.
fn kind_of(text: &str, name: &Range<usize>) -> Option<SecretKind> {
    let words = words_of(&text[name.clone()]);
    let is = |word: &str, all: &[&str]| all.iter().any(|one| word.eq_ignore_ascii_case(one));
    let ends = |word: &str, end: &str| {
        word.len()
            .checked_sub(end.len())
            .and_then(|at| word.get(at..))
            .is_some_and(|tail| tail.eq_ignore_ascii_case(end))
    };
    let says_nothing = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit()) || is(word, &QUALIFIERS);
    let count = words.len() - words.iter().rev().take_while(|word| says_nothing(word)).count();
    let (last, before) = words[..count].split_last()?;
    let begins = &text[..name.start];
    // A name of one word goes with the word before it: `API key: …`.
    let owner =
        before.last().copied().or_else(|| begins.strip_suffix(' ')?.rsplit([' ', '\n', '"', '\'']).next());
    if PASSWORDS.iter().any(|end| ends(last, end)) || is(last, &SHORT_PASSWORDS) {
        return Some(SecretKind::Password);
    }
    let is_key = match *last {
        word if ends(word, "token") => !owner.is_some_and(|owner| is(owner, &OTHER_TOKENS)),
        word if is(word, &["auth", "authorization", "credential", "credentials", "salt"]) => true,
        "PAT" => true,
        word if is(word, &["key"]) => {
            let is_constant = word == "KEY" && owner.is_some_and(|owner| !is(owner, &OTHER_KEYS));
            is_constant || owner.is_some_and(|owner| is(owner, &SECRET_KEYS)) || begins.ends_with(['?', '&'])
        }
        word => ends(word, "key") && SECRET_KEYS.iter().any(|owner| ends(&word[..word.len() - 3], owner)),
    };
    is_key.then_some(SecretKind::Key)
}

/// Splits a name at punctuation, at capitals after small letters, and before numbers.
fn words_of(name: &str) -> Vec<&str> {
    let bytes = name.as_bytes();
    let mut words = Vec::new();
    let mut start = 0;
    for at in 0..=bytes.len() {
        let is_end = match bytes.get(at) {
            None => true,
            Some(byte) if !byte.is_ascii_alphanumeric() => true,
            Some(_) if at == start => false,
            Some(byte) => {
                let (last, next) = (bytes[at - 1], bytes.get(at + 1));
                let is_small_behind = next.is_some_and(u8::is_ascii_lowercase);
                byte.is_ascii_uppercase()
                    && (last.is_ascii_lowercase() || last.is_ascii_uppercase() && is_small_behind)
                    || byte.is_ascii_digit() && !last.is_ascii_digit()
            }
        };
        if is_end {
            words.extend(name.get(start..at).filter(|word| !word.is_empty()));
            start = at + usize::from(bytes.get(at).is_some_and(|byte| !byte.is_ascii_alphanumeric()));
        }
    }
    words
}

/// Returns the value that is assigned to a name, without quotes.
fn assigned(bytes: &[u8], name: &Range<usize>) -> Option<(Range<usize>, ValueStyle)> {
    let blanks = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take(MAX_BLANKS).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    };
    let rest = |at: usize| bytes.get(at..).unwrap_or_default();
    let mut at = name.end;
    let before = name.start.checked_sub(1).map(|at| bytes[at]);
    if before == Some(b'<') && bytes.get(at) == Some(&b'>') {
        // An element: its text up to its end tag. A type in angle brackets has none.
        let length = rest(at + 1).iter().take(MAX_VALUE_BYTES).position(|byte| *byte == b'<')?;
        let tag = rest(at + 1 + length).strip_prefix(b"</")?;
        let is_closed = tag.starts_with(&bytes[name.clone()]);
        return is_closed.then_some((at + 1..at + 1 + length, ValueStyle::Bare));
    }
    let is_quoted = bytes.get(at).is_some_and(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    at += usize::from(is_quoted);
    at += rest(at).iter().take(2).take_while(|byte| matches!(byte, b']' | b'*')).count();
    let operator = blanks(at);
    let (mut is_assignment, mut is_adjacent) = (false, false);
    let is_option = bytes[name.start] == b'-' || is_set(&bytes[..name.start]);
    let pair = value_of_pair(&bytes[..name.start], rest(name.end)).map(|at| name.end + at);
    let value = match rest(operator) {
        _ if pair.is_some() => {
            is_assignment = true;
            pair?
        }
        [b':', b':', ..] => return None,
        [b'=', b'=', b'=', ..] => operator + 3,
        [b'=', b'>', ..] | [b'=', b'=', ..] | [b':', b'=', ..] | [b'?', b'=', ..] | [b'!', b'=', ..] => {
            operator + 2
        }
        [b'=', ..] => {
            is_assignment = true;
            operator + 1
        }
        [b':', ..] if is_quoted => operator + 1,
        [b':', ..] => behind_type(bytes, operator + 1),
        [b'i', b's', b' ', ..] if operator > at => operator + 2,
        [b'w', b'a', b's', b' ', ..] if operator > at => operator + 3,
        // `set("password", "…")`, and `key="password" value="…"`.
        [b',', ..] if is_quoted => {
            Some(blanks(operator + 1)).filter(|at| matches!(bytes.get(*at), Some(b'"' | b'\'')))?
        }
        [b'v', b'a', b'l', b'u', b'e', b'=', ..] if is_quoted && operator > at => operator + 6,
        // A property list: `<key>password</key><string>…`.
        [b'<', b'/', b'k', b'e', b'y', b'>', inner @ ..] => {
            let blanks = inner.iter().take(MAX_BLANKS).take_while(|byte| byte.is_ascii_whitespace()).count();
            let text = inner[blanks..].strip_prefix(b"<string>")?;
            let length = text.iter().take(MAX_VALUE_BYTES).position(|byte| *byte == b'<')?;
            let value = bytes.len() - text.len();
            return Some((value..value + length, ValueStyle::Quoted));
        }
        // An option, `--password …`, or a command that sets a name.
        [byte, ..] if is_option && operator > at && !matches!(byte, b'-' | b'|' | b'>' | b'&') => operator,
        // A prompt: `Password for me: …`.
        [b'f', b'o', b'r', b' ', prompt @ ..] if operator > at => {
            is_adjacent = true;
            let prompt = &prompt[..prompt.len().min(MAX_NAME_BYTES)];
            let line = prompt.split(|byte| *byte == b'\n').next().unwrap_or_default();
            operator + 4 + line.windows(2).position(|pair| pair == b": ")? + 1
        }
        // A table, or nothing.
        [b'|', ..] => {
            is_adjacent = true;
            operator + 1
        }
        [byte, ..] if operator > at && byte.is_ascii_graphic() => {
            is_adjacent = true;
            operator
        }
        _ => return None,
    };
    let mut value = blanks(value);
    value += rest(value).iter().take(2).take_while(|byte| **byte == b'*').count();
    value = blanks(value);
    // String literals of some languages have a letter before the quote.
    if let [b'b' | b'r' | b'f' | b'u' | b'L' | b'@' | b'$', b'"' | b'\'', ..] = rest(value) {
        value += 1;
    }
    let is_small = bytes[name.clone()].iter().any(u8::is_ascii_lowercase);
    let is_environment = is_assignment && !is_small;
    match rest(value) {
        [quote @ (b'"' | b'\'' | b'`'), inner @ ..] => {
            let length = quoted_length(inner, *quote)?;
            let style = match pair.is_some() && is_environment {
                true => ValueStyle::Environment,
                false => ValueStyle::Quoted,
            };
            Some((value + 1..value + 1 + length, style))
        }
        inner => {
            let length = bare_length(inner)?;
            let style = match (is_adjacent, is_environment) {
                (true, _) => ValueStyle::Adjacent,
                (false, true) => ValueStyle::Environment,
                (false, false) => ValueStyle::Bare,
            };
            Some((value..value + length, style))
        }
    }
}

/// Returns where the value of a pair begins in `behind`, if a name is a value itself: `- name: DB_PASSWORD`, then
/// `value: …` on the next line; `"name": "DB_PASSWORD", "value": …`.
fn value_of_pair(before: &[u8], behind: &[u8]) -> Option<usize> {
    const MAX_BETWEEN_BYTES: usize = 64;
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'');
    let unquoted = |text: &'_ [u8]| text.len() - usize::from(text.last().is_some_and(is_quote));
    let operator = before[..unquoted(before)].trim_ascii_end();
    let key = operator.strip_suffix(b":").or_else(|| operator.strip_suffix(b"="))?.trim_ascii_end();
    let key = &key[..unquoted(key)];
    let (word, is_key) = (key.len().checked_sub(4)?, |word: &[u8]| word.eq_ignore_ascii_case(b"name"));
    if !is_key(&key[word..]) || word > 0 && key[word - 1].is_ascii_alphanumeric() {
        return None;
    }
    let is_between = |byte: &&u8| byte.is_ascii_whitespace() || is_quote(byte) || **byte == b',';
    let length = behind.iter().take(MAX_BETWEEN_BYTES).take_while(is_between).count();
    let member = behind[length..].get(..5).filter(|word| word.eq_ignore_ascii_case(b"value"))?;
    let mut at = length + member.len();
    at += usize::from(behind.get(at).is_some_and(is_quote));
    at += behind[at..].iter().take(MAX_BLANKS).take_while(|byte| **byte == b' ').count();
    matches!(behind.get(at), Some(b':' | b'=')).then_some(at + 1)
}

/// Whether a text ends with a command that assigns the name after it, with options: `set -x `, `ENV `.
fn is_set(before: &[u8]) -> bool {
    const COMMANDS: [&[u8]; 5] = [b"set", b"setx", b"setenv", b"ENV", b"ARG"];
    const MAX_COMMAND_BYTES: usize = 40;
    let line = &before[before.len().saturating_sub(MAX_COMMAND_BYTES)..];
    let line = line.rsplit(|byte| matches!(byte, b'\n' | b';' | b'|' | b'&')).next().unwrap_or_default();
    line.ends_with(b" ") && line.split(|byte| *byte == b' ').any(|word| COMMANDS.contains(&word))
}

/// Returns the position after a type annotation and its equals sign (`api_key: str = …`), or `from` if there is none.
fn behind_type(bytes: &[u8], from: usize) -> usize {
    const MAX_TYPE_BYTES: usize = 32;
    let is_of_type = |byte: &&u8| byte.is_ascii_alphabetic() || b" &<>[]|'_.:".contains(byte);
    let rest = bytes.get(from..).unwrap_or_default();
    let length = rest.iter().take(MAX_TYPE_BYTES).take_while(is_of_type).count();
    match rest.get(length..) {
        Some([b'=', next, ..]) if length > 0 && !matches!(next, b'=' | b'>') => from + length + 1,
        _ => from,
    }
}

/// Returns the length of a quoted text up to its closing quote; `None` if there is none on its line.
fn quoted_length(text: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    while at <= MAX_VALUE_BYTES {
        match *text.get(at)? {
            b'\n' => return None,
            b'\\' => at += 2,
            byte if byte == quote => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// Returns the length of a value without quotes; `None` if it is the begin of a call or an index.
fn bare_length(text: &[u8]) -> Option<usize> {
    let is_parameter = |rest: &[u8]| {
        let length =
            rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte)).count();
        length > 0 && rest.get(length) == Some(&b'=')
    };
    let is_end = |at: usize, byte: u8| match byte {
        b'&' => is_parameter(&text[at + 1..]),
        _ => byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'`<>\\|,;(){}[]".contains(&byte),
    };
    let length = text.iter().enumerate().take(MAX_VALUE_BYTES).position(|(at, byte)| is_end(at, *byte));
    let mut length = length.unwrap_or(text.len().min(MAX_VALUE_BYTES));
    if matches!(text.get(length), Some(b'(' | b'[')) {
        return None;
    }
    // The end of a sentence.
    while length > 0 && matches!(text[length - 1], b'.' | b':') {
        length -= 1;
    }
    Some(length)
}

/// Whether a value is a secret, and not a placeholder for one.
fn is_secret(kind: SecretKind, style: ValueStyle, value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    let is_long = match (kind, style) {
        (SecretKind::Password, _) => value.len() >= MIN_PASSWORD_BYTES,
        (SecretKind::Key, ValueStyle::Quoted) => value.len() >= MIN_QUOTED_KEY_BYTES,
        (SecretKind::Key, ValueStyle::Environment) => value.len() >= MIN_ENVIRONMENT_KEY_BYTES,
        (SecretKind::Key, ValueStyle::Bare | ValueStyle::Adjacent) => value.len() >= MIN_BARE_KEY_BYTES,
    };
    if !is_long || value.len() > MAX_VALUE_BYTES || is_reference(value) || RULES.stands_for_secret(value) {
        return false;
    }
    let is_mixed = || {
        let signs = value.bytes().any(|byte| byte.is_ascii_punctuation() && !b"-_./:,@'".contains(&byte));
        let cases = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
        has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && (signs || cases)
    };
    match (kind, style) {
        (_, ValueStyle::Adjacent) => is_mixed() && !is_wording(value),
        (SecretKind::Password, ValueStyle::Environment) => true,
        (SecretKind::Password, _) | (SecretKind::Key, ValueStyle::Environment) => !is_wording(value),
        (SecretKind::Key, _) => {
            let is_random = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
            is_random
                && !has(u8::is_ascii_whitespace)
                && entropy(value.as_bytes()) >= MIN_KEY_ENTROPY
                && !is_wording(value)
        }
    }
}

/// Whether capitals and small letters are mixed as no name of code mixes them.
fn has_random_case(letters: &str) -> bool {
    let capitals = letters.bytes().filter(u8::is_ascii_uppercase).count();
    let turns = letters.as_bytes().windows(2);
    let turns = turns.filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()).count();
    turns * 3 > letters.len() || turns >= 2 && capitals * 3 > letters.len()
}

/// Whether a value is the Base64 of random bytes, of which every 64th begins with `/` as a path does.
fn is_base64(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    value.len() >= 32
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
        && value.bytes().filter(|byte| *byte == b'/').count() * 8 <= value.len()
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
}

/// Whether a value is a path, an address, a number, a version, the name of a constant or a file, or is put together.
fn is_reference(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_number =
        bytes.iter().all(|byte| byte.is_ascii_digit() || b".:,_-%".contains(byte)) && value.len() < 10;
    let is_path = ["/", "./", "../", "~/"].iter().any(|begin| value.starts_with(begin))
        && !value.ends_with('=')
        && !is_base64(value);
    let is_address = value.contains("://") && !value.contains('@');
    let is_constant =
        value.contains('_') && bytes.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    let is_template = ["${", "$(", "{{", "<%"].iter().any(|part| value.contains(part));
    let is_resource = value.starts_with("arn:") || value.starts_with("projects/");
    let ending = value.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_file = [
        "json", "yaml", "yml", "toml", "pem", "key", "crt", "txt", "env", "ts", "js", "py", "go", "rs", "md",
    ]
    .contains(&ending);
    is_number || is_path || is_address || is_constant || is_template || is_resource || is_file
}

/// Whether a value is made of words: prose, identifiers, words followed by short numbers.
fn is_wording(value: &str) -> bool {
    let value = value.trim_end_matches(['!', '?', '.', ':', ',', '*', '=']);
    let is_separator =
        |character: char| matches!(character, ' ' | '_' | '.' | ':' | '/' | '-' | ',' | '@' | '\'' | '’');
    let words: Vec<&str> = value.split(is_separator).filter(|word| !word.is_empty()).collect();
    let is_word = |word: &&str| {
        let letters = word.trim_end_matches(|character: char| character.is_ascii_digit());
        let digits = word.len() - letters.len();
        let is_type = || NUMBERED.iter().any(|begin| letters.eq_ignore_ascii_case(begin));
        // One word with a number is a password that people choose; several are a name.
        let is_numbered = digits == 0 || (words.len() > 1 && digits <= 3) || is_type();
        is_numbered && letters.chars().all(char::is_alphabetic) && !has_random_case(letters)
    };
    words.iter().all(is_word)
}
