//! The rules that say what a secret looks like, and the search for what they describe.
//!
//! `rules/gitleaks.toml` is the published rule set of gitleaks, `rules/subscope.toml` has the same form and adds what that
//! lacks. A rule is tried only where one of its keywords occurs, and is compiled when that happens first: all of
//! them at once would cost more time than most exports take.

use std::{
    ops::Range,
    sync::{Arc, LazyLock, OnceLock},
};

use aho_corasick::AhoCorasick;
use regex::bytes::{Captures, Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;

/// All rules, read when the first text is searched.
pub(super) static RULES: LazyLock<Rules> = LazyLock::new(|| {
    Rules::read(&[include_str!("../../rules/subscope.toml"), include_str!("../../rules/gitleaks.toml")])
});

/// How rules of gitleaks end that want to see the end of a secret. It knows quotes and blanks only, as source code has
/// them; prose, addresses and markup end words otherwise.
const END: &str = r#"(?:[\x60'"\s;]|\\[nr]|$)"#;
const ANY_END: &str = r"(?:[^\w+/=\-]|$)";

/// The shortest part of a match that is taken for the secret in it. Shorter groups of the rules are no secrets but
/// parts of the pattern that repeat.
const SHORTEST_SECRET: usize = 6;

/// The rules of all files.
pub(super) struct Rules {
    rules: Vec<Rule>,
    keywords: Option<AhoCorasick>,
    /// The rules of each keyword.
    by_keyword: Vec<Vec<usize>>,
}

/// One file of rules, as gitleaks writes them. What says where on a disk a rule holds has no meaning here.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    allowlist: RawAllowed,
    rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    regex: Option<String>,
    entropy: Option<f64>,
    secret_group: Option<usize>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    allowlists: Vec<RawAllowed>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAllowed {
    condition: Option<String>,
    #[serde(default)]
    regex_target: Target,
    #[serde(default)]
    regexes: Vec<String>,
    #[serde(default)]
    stopwords: Vec<String>,
}

/// What the expressions of an allowlist are tried on.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Target {
    #[default]
    Secret,
    Match,
    Line,
}

struct Rule {
    source: String,
    regex: OnceLock<Option<Regex>>,
    /// The least entropy of a secret, in bits a byte.
    entropy: f64,
    group: Option<usize>,
    allowed: Vec<Arc<Allowed>>,
}

/// What a rule matches and is no secret all the same.
struct Allowed {
    raw: RawAllowed,
    compiled: OnceLock<(Option<RegexSet>, Option<AhoCorasick>)>,
}

impl Rules {
    fn read(files: &[&str]) -> Self {
        let mut rules = Vec::new();
        let mut keywords: Vec<String> = Vec::new();
        let mut by_keyword: Vec<Vec<usize>> = Vec::new();
        // What a file allows, it allows in the rules of files behind it too.
        let mut common: Vec<Arc<Allowed>> = Vec::new();
        // Both files are part of the program: that they can be read is tested.
        for file in files.iter().filter_map(|text| toml::from_str::<File>(text).ok()) {
            common.extend(Allowed::of(file.allowlist));
            for raw in file.rules {
                let Some(source) = raw.regex else { continue };
                for keyword in raw.keywords {
                    let keyword = keyword.to_ascii_lowercase();
                    let number = keywords.iter().position(|known| *known == keyword).unwrap_or_else(|| {
                        keywords.push(keyword);
                        by_keyword.push(Vec::new());
                        keywords.len() - 1
                    });
                    if let Some(of) = by_keyword.get_mut(number) {
                        of.push(rules.len());
                    }
                }
                // Under which paths something is allowed cannot be known.
                let own = raw.allowlists.into_iter().filter(|list| list.condition.as_deref() != Some("AND"));
                let mut allowed: Vec<_> = own.filter_map(Allowed::of).collect();
                allowed.extend(common.iter().cloned());
                rules.push(Rule {
                    source: translated(&source),
                    regex: OnceLock::new(),
                    entropy: raw.entropy.unwrap_or(0.0),
                    group: raw.secret_group,
                    allowed,
                });
            }
        }
        let keywords = AhoCorasick::builder().ascii_case_insensitive(true).build(&keywords).ok();
        Self { rules, keywords, by_keyword }
    }

    /// Whether a text has a keyword of any rule.
    pub(super) fn have_keyword_in(&self, text: &str) -> bool {
        self.keywords.as_ref().is_some_and(|keywords| keywords.is_match(text))
    }

    /// Adds the stretches of a text that are secrets, in no order. Stretches may overlap.
    pub(super) fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let Some(keywords) = &self.keywords else { return };
        let mut tried = vec![false; self.rules.len()];
        for hit in keywords.find_overlapping_iter(text) {
            for number in self.by_keyword.get(hit.pattern().as_usize()).into_iter().flatten() {
                let (Some(tried), Some(rule)) = (tried.get_mut(*number), self.rules.get(*number)) else {
                    continue;
                };
                if !std::mem::replace(tried, true) {
                    rule.find(text, found);
                }
            }
        }
    }
}

impl Rule {
    fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| RegexBuilder::new(&self.source).unicode(false).build().ok()).as_ref()
    }

    fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let Some(regex) = self.regex() else { return };
        for captures in regex.captures_iter(text.as_bytes()) {
            let Some(whole) = captures.get(0) else { continue };
            let secret = self.secret(&captures).unwrap_or(whole.range());
            let bytes = text.as_bytes();
            let (Some(spelled), Some(matched)) = (bytes.get(secret.clone()), bytes.get(whole.range())) else {
                continue;
            };
            let is_random = self.entropy == 0.0 || entropy(spelled) > self.entropy;
            let is_allowed =
                || self.allowed.iter().any(|list| list.allows(spelled, matched, line(bytes, &whole.range())));
            if is_random && !is_allowed() {
                found.push(secret);
            }
        }
    }

    /// The group that is the secret: the one that the rule names, else the first without a name that took part.
    fn secret(&self, captures: &Captures<'_>) -> Option<Range<usize>> {
        let names = self.regex()?.capture_names().collect::<Vec<_>>();
        let group = match self.group {
            Some(number) => captures.get(number),
            None => (1..captures.len())
                .filter(|number| names.get(*number).is_some_and(Option::is_none))
                .find_map(|number| captures.get(number).filter(|group| !group.is_empty())),
        };
        group.map(|group| group.range()).filter(|range| range.len() >= SHORTEST_SECRET)
    }
}

impl Allowed {
    fn of(raw: RawAllowed) -> Option<Arc<Self>> {
        let says_something = !raw.regexes.is_empty() || !raw.stopwords.is_empty();
        says_something.then(|| Arc::new(Self { raw, compiled: OnceLock::new() }))
    }

    fn compiled(&self) -> &(Option<RegexSet>, Option<AhoCorasick>) {
        self.compiled.get_or_init(|| {
            let sources = self.raw.regexes.iter().map(|source| translated(source));
            let words = AhoCorasick::builder().ascii_case_insensitive(true).build(&self.raw.stopwords);
            (
                RegexSetBuilder::new(sources).unicode(false).build().ok(),
                words.ok().filter(|_| !self.raw.stopwords.is_empty()),
            )
        })
    }

    fn allows(&self, secret: &[u8], matched: &[u8], line: &[u8]) -> bool {
        let (regexes, stopwords) = self.compiled();
        let target = match self.raw.regex_target {
            Target::Secret => secret,
            Target::Match => matched,
            Target::Line => line,
        };
        regexes.as_ref().is_some_and(|set| set.is_match(target))
            || stopwords.as_ref().is_some_and(|words| words.is_match(secret))
    }
}

/// The lines that a stretch stands in.
fn line<'t>(text: &'t [u8], range: &Range<usize>) -> &'t [u8] {
    let is_end = |byte: &u8| *byte == b'\n';
    let begin =
        text.get(..range.start).and_then(|before| before.iter().rposition(is_end)).map_or(0, |at| at + 1);
    let behind = text.get(range.end..).and_then(|after| after.iter().position(is_end));
    text.get(begin..behind.map_or(text.len(), |at| range.end + at)).unwrap_or_default()
}

/// Shannon's entropy in bits a byte, as gitleaks measures it.
fn entropy(secret: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in secret {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let length = secret.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length)
        .map(|p| -p * p.log2())
        .sum()
}

/// Translates an expression of Go's syntax into that of `regex`: in Go a brace that counts nothing is a letter, and so
/// is a bracket in a class.
fn translated(source: &str) -> String {
    let source = source.replace(END, ANY_END);
    let mut out = String::with_capacity(source.len());
    let mut in_class = false;
    let mut rest = source.as_str();
    while let Some(character) = rest.chars().next() {
        let mut length = character.len_utf8();
        match character {
            '\\' => {
                length += rest.chars().nth(1).map_or(0, char::len_utf8);
                if rest.starts_with(r"\x{") || rest.starts_with(r"\p{") || rest.starts_with(r"\P{") {
                    length = rest.find('}').map_or(length, |end| end + 1);
                }
            }
            '[' if in_class && rest.starts_with("[:") => {
                length = rest.find(":]").map_or(length, |end| end + 2)
            }
            '[' if in_class => out.push('\\'),
            '[' => {
                in_class = true;
                // A bracket that comes first in a class does not end it.
                length = ["[^]", "[]", "[^"]
                    .iter()
                    .find(|begin| rest.starts_with(**begin))
                    .map_or(1, |begin| begin.len());
            }
            ']' => in_class = false,
            '{' if !in_class && !counts(rest) => out.push('\\'),
            _ => {}
        }
        let (taken, behind) = rest.split_at(length);
        out.push_str(taken);
        rest = behind;
    }
    out
}

/// Whether a text begins with `{2}`, `{2,}` or `{2,5}`.
fn counts(text: &str) -> bool {
    let inner = text.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inner, _)| inner);
    inner.is_some_and(|inner| {
        let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
        !least.is_empty() && least.bytes().chain(most.bytes()).all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_read_compiles_and_has_a_keyword() {
        // 222 of gitleaks, of which one has no expression: it is for names of files.
        assert!(RULES.rules.len() > 221 + 20, "{}", RULES.rules.len());
        for (number, rule) in RULES.rules.iter().enumerate() {
            assert!(rule.regex().is_some(), "{}", rule.source);
            assert!(RULES.by_keyword.iter().any(|of| of.contains(&number)), "{}", rule.source);
            for list in &rule.allowed {
                let (regexes, words) = list.compiled();
                assert!(
                    regexes.is_some() && words.is_some() != list.raw.stopwords.is_empty(),
                    "{}",
                    rule.source
                );
            }
        }
        let ends = RULES.rules.iter().filter(|rule| rule.source.contains(ANY_END)).count();
        assert!(ends >= 151, "gitleaks ends its expressions otherwise now: {ends}");
    }

    #[test]
    fn expressions_of_go_mean_the_same() {
        for (go, own) in [
            (r"a{2,5}b{3,}[{]c{2}", r"a{2,5}b{3,}[{]c{2}"),
            (r"\$?{{[^}]+}}", r"\$?\{\{[^}]+}}"),
            (r"[^]]+[]x]", r"[^]]+[]x]"),
            (r"[[:alnum:]]{14}[a[b]", r"[[:alnum:]]{14}[a\[b]"),
            (r"\x{41}\{", r"\x{41}\{"),
        ] {
            assert_eq!(translated(go), own);
            assert!(Regex::new(&translated(go)).is_ok(), "{go}");
        }
    }

    #[test]
    fn entropy_is_shannons() {
        assert!(entropy(b"aaaa").abs() < 1e-9);
        assert!((entropy(b"abcd") - 2.0).abs() < 1e-9);
        assert!((entropy(b"0123456789abcdef") - 4.0).abs() < 1e-9);
    }
}
