//! Fake secrets of many shapes, and texts that only look like secrets, for tests of redaction.
//!
//! No complete secret is in this source: each is generated from a pattern, so that scanners of this repository find
//! none. In a pattern `«…»` encloses a secret, `~` is nothing and keeps words apart, `~~` is a tilde, and `{A36}` is 36
//! characters of the alphabet `A` (see [`alphabet`]).

mod look_alikes;
mod samples;

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
};

use crate::random::Random;

/// A text with made-up secrets in it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What kind of secret it is.
    pub name: &'static str,
    /// The whole text.
    pub text: String,
    /// Byte ranges of the secrets in the text.
    pub secrets: Vec<Range<usize>>,
}

/// Length in bytes from which a common substring is not a coincidence. Of a secret of less than twice this length, half
/// is too much.
const MIN_LEAK_BYTES: usize = 10;

/// Returns the names of the samples with a part of a secret in a text.
pub fn left_in(samples: &[Sample], text: &str) -> Vec<&'static str> {
    let mut by_length: BTreeMap<usize, HashSet<&[u8]>> = BTreeMap::new();
    let mut is_left = |secret: &[u8]| {
        let length = MIN_LEAK_BYTES.min(secret.len().div_ceil(2));
        let stretches = by_length.entry(length).or_insert_with(|| text.as_bytes().windows(length).collect());
        secret.windows(length).any(|stretch| stretches.contains(stretch))
    };
    let has_left = |sample: &&Sample| {
        sample.secrets.iter().any(|secret| is_left(&sample.text.as_bytes()[secret.clone()]))
    };
    samples.iter().filter(has_left).map(|sample| sample.name).collect()
}

/// Returns the samples of secrets, one list per author. Other seeds give other values.
pub fn secrets(seed: u64) -> [Vec<Sample>; 4] {
    [samples::FIRST, samples::SECOND, samples::THIRD, samples::FOURTH].map(|list| {
        let numbered = list.iter().zip(seed << 32..);
        numbered.map(|((name, pattern), seed)| sample(name, pattern, seed)).collect()
    })
}

/// Returns texts that hold no secret, one list per author.
pub fn look_alikes(seed: u64) -> [Vec<String>; 4] {
    [look_alikes::FIRST, look_alikes::SECOND, look_alikes::THIRD, look_alikes::FOURTH].map(|list| {
        let numbered = list.iter().zip(seed << 32..);
        numbered.map(|(pattern, seed)| sample("", pattern, seed).text).collect()
    })
}

/// Makes a sample of a pattern.
fn sample(name: &'static str, pattern: &str, seed: u64) -> Sample {
    let marked = fill(pattern, seed).replace("~~", "\u{1}").replace('~', "").replace('\u{1}', "~");
    let (mut text, mut secrets) = (String::new(), Vec::new());
    for piece in marked.split_inclusive(['«', '»']) {
        match piece.strip_suffix('»') {
            Some(secret) => {
                secrets.push(text.len()..text.len() + secret.len());
                text.push_str(secret);
            }
            None => text.push_str(piece.trim_end_matches('«')),
        }
    }
    Sample { name, text, secrets }
}

fn fill(pattern: &str, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        let asked = behind.find('}').and_then(|end| {
            let (kind, length) = behind[1..end].split_at_checked(1)?;
            Some((alphabet(kind)?, length.parse::<usize>().ok()?, end + 1))
        });
        match asked {
            Some((letters, length, taken)) => {
                out.extend((0..length).map(|_| char::from(random.pick(letters))));
                rest = &behind[taken..];
            }
            None => {
                out.push('{');
                rest = &behind[1..];
            }
        }
    }
    out + rest
}

/// The characters of a kind: letters and digits (`A`), small ones (`l`), those and `_-` (`w`), base64 (`b`), hexadecimal
/// (`h`, `X`), capitals and digits of base32 (`u`), all of them (`U`), digits (`d`), Bech32's capitals (`Q`), what
/// passwords (`p`) and passwords in addresses (`q`) are made of.
fn alphabet(kind: &str) -> Option<&'static [u8]> {
    const ALL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567abcdefghijklmnopqrstuvwxyz0189";
    const WORD: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const BASE64: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/";
    match kind {
        "A" => Some(ALL),
        "l" => Some(b"abcdefghijklmnopqrstuvwxyz0123456789"),
        "w" => Some(WORD),
        "b" => Some(BASE64),
        "h" => Some(b"0123456789abcdef"),
        "X" => Some(b"0123456789ABCDEF"),
        "u" => Some(&ALL[..32]),
        "U" => Some(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
        "d" => Some(b"1234567890"),
        "Q" => Some(b"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
        "p" => Some(b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789!#$%&*+-.@^_"),
        "q" => Some(b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789!*-._"),
        _ => None,
    }
}
