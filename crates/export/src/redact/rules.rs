//! Secret detection rules and the search with them.
//!
//! `rules/gitleaks.toml` is the published rule set of gitleaks; `rules/subscope.toml` adds rules in the same format. A
//! rule is only tried if one of its keywords occurs, and compiled on first use: compiling all would take longer than
//! most exports.

use std::{
    ops::Range,
    sync::{Arc, LazyLock, OnceLock},
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Captures, Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;

use super::assignments::{NAME_PARTS, Names};

/// All rules, loaded when the first text is searched.
pub(super) static RULES: LazyLock<RuleSet> = LazyLock::new(|| {
    RuleSet::read(&[include_str!("../../rules/subscope.toml"), include_str!("../../rules/gitleaks.toml")])
});

/// Suffix of gitleaks rules that matches the end of a secret. It only accepts quotes and blanks, as in source code;
/// prose, URLs and markup end words in other ways ([`ANY_END`]).
const END: &str = r#"(?:[\x60'"\s;]|\\[nr]|$)"#;
const ANY_END: &str = r"(?:[^\w+/=\-]|$)";

/// Begin of gitleaks rules whose secret is known by the name that it is assigned to, not by its own form.
const NAMED: &str = r"(?i)[\w.-]";

/// Rules that are left out: the first makes sense in the files only that its path condition names; the second takes a
/// path behind a web token as part of it, so that our rules have their own.
const LEFT_OUT: [&str; 2] = ["hashicorp-tf-password", "jwt"];

/// Minimum length of a capture group that is a secret; shorter groups are repeated parts of a pattern.
const MIN_SECRET_BYTES: usize = 6;

/// Rules of all files.
pub(super) struct RuleSet {
    rules: Vec<SecretRule>,
    /// Finds the keywords and, numbered after them, the parts of names of secrets: one pass over a text for both.
    words: Option<AhoCorasick>,
    /// Rule indexes by keyword.
    by_keyword: Vec<Vec<usize>>,
    #[cfg(test)]
    keywords: Vec<String>,
    /// Global allowlists of the files.
    common: Vec<Arc<Allowlist>>,
}

/// A rule file in the format of gitleaks; path conditions are ignored.
#[derive(Deserialize)]
struct RuleFile {
    #[serde(default)]
    allowlist: RawAllowlist,
    rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    id: String,
    regex: Option<String>,
    entropy: Option<f64>,
    secret_group: Option<usize>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    allowlists: Vec<RawAllowlist>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAllowlist {
    condition: Option<String>,
    #[serde(default)]
    regex_target: AllowTarget,
    #[serde(default)]
    regexes: Vec<String>,
    #[serde(default)]
    stopwords: Vec<String>,
}

/// Text that the expressions of an allowlist are matched against.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum AllowTarget {
    #[default]
    Secret,
    Match,
    Line,
}

struct SecretRule {
    source: String,
    regex: OnceLock<Option<Regex>>,
    /// Minimum entropy of a secret in bits per byte.
    entropy: f64,
    group: Option<usize>,
    allowed: Vec<Arc<Allowlist>>,
}

/// Allowlist: matches of a rule that are not secrets.
struct Allowlist {
    raw: RawAllowlist,
    compiled: OnceLock<(Option<RegexSet>, Option<AhoCorasick>)>,
}

impl RuleSet {
    fn read(files: &[&str]) -> Self {
        let mut rules = Vec::new();
        let mut keywords: Vec<String> = Vec::new();
        let mut by_keyword: Vec<Vec<usize>> = Vec::new();
        // A file's global allowlist also applies to the rules of later files.
        let mut common: Vec<Arc<Allowlist>> = Vec::new();
        // Both files are compiled in; a test checks that they parse.
        for file in files.iter().filter_map(|text| toml::from_str::<RuleFile>(text).ok()) {
            common.extend(Allowlist::of(file.allowlist));
            for raw in file.rules {
                let Some(source) = raw.regex.filter(|_| !LEFT_OUT.contains(&raw.id.as_str())) else {
                    continue;
                };
                for keyword in raw.keywords {
                    let keyword = keyword.to_ascii_lowercase();
                    let number = keywords.iter().position(|known| *known == keyword).unwrap_or_else(|| {
                        keywords.push(keyword);
                        by_keyword.push(Vec::new());
                        keywords.len() - 1
                    });
                    by_keyword[number].push(rules.len());
                }
                // An `AND` list may require a path, which is unknown here.
                let own = raw.allowlists.into_iter().filter(|list| list.condition.as_deref() != Some("AND"));
                let mut allowed: Vec<_> = own.filter_map(Allowlist::of).collect();
                allowed.extend(common.iter().cloned());
                rules.push(SecretRule {
                    source: translate_regex(&with_any_boundaries(&source)),
                    regex: OnceLock::new(),
                    entropy: raw.entropy.unwrap_or(0.0),
                    group: raw.secret_group,
                    allowed,
                });
            }
        }
        let patterns = keywords.iter().map(String::as_str).chain(NAME_PARTS);
        // Every text is searched with it: a DFA is about three times as fast as the default for so many words.
        let words = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(patterns)
            .ok();
        Self {
            rules,
            words,
            by_keyword,
            #[cfg(test)]
            keywords,
            common,
        }
    }

    /// Whether a text contains a keyword of any rule.
    pub(super) fn have_keyword_in(&self, text: &str) -> bool {
        let Some(words) = &self.words else { return false };
        words.find_overlapping_iter(text).any(|hit| hit.pattern().as_usize() < self.by_keyword.len())
    }

    /// Whether a value is not a secret by the global allowlists: a placeholder, a variable, an id.
    pub(super) fn stands_for_secret(&self, value: &str) -> bool {
        self.common.iter().any(|list| list.allows(value.as_bytes(), value.as_bytes(), value.as_bytes()))
    }

    /// Appends the byte ranges of secrets by rules and of those assigned to names, unordered; they may overlap.
    pub(super) fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let Some(words) = &self.words else { return };
        let mut names = Names::new(text);
        let mut tried: Vec<bool> = Vec::new();
        for hit in words.find_overlapping_iter(text) {
            let Some(numbers) = self.by_keyword.get(hit.pattern().as_usize()) else {
                names.look_at(hit.range(), found);
                continue;
            };
            tried.resize(self.rules.len(), false);
            for &number in numbers {
                if !std::mem::replace(&mut tried[number], true) {
                    self.rules[number].find(text, found);
                }
            }
        }
    }
}

impl SecretRule {
    fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| RegexBuilder::new(&self.source).unicode(false).build().ok()).as_ref()
    }

    fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let Some(regex) = self.regex() else { return };
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(captures) = (at <= bytes.len()).then(|| regex.captures_at(bytes, at)).flatten() {
            let Some(whole) = captures.get(0) else { return };
            let secret = self.secret(&captures).unwrap_or(whole.range());
            // The character that ends a match may be the one before the next secret.
            at = if secret.end > at { secret.end } else { whole.end().max(at + 1) };
            let spelled = &bytes[secret.clone()];
            let lines = || lines_around(bytes, &whole.range());
            let is_random = self.entropy == 0.0 || entropy(spelled) > self.entropy;
            if is_random && !self.allowed.iter().any(|list| list.allows(spelled, whole.as_bytes(), lines())) {
                found.push(secret);
            }
        }
    }

    /// Returns the range of the secret: the rule's `secretGroup`, else the first unnamed non-empty group.
    fn secret(&self, captures: &Captures<'_>) -> Option<Range<usize>> {
        let names = self.regex()?.capture_names().collect::<Vec<_>>();
        if let Some(number) = self.group {
            return captures.get(number).map(|group| group.range());
        }
        let group = (1..captures.len())
            .filter(|number| names.get(*number).is_some_and(Option::is_none))
            .find_map(|number| captures.get(number).filter(|group| !group.is_empty()));
        group.map(|group| group.range()).filter(|range| range.len() >= MIN_SECRET_BYTES)
    }
}

impl Allowlist {
    fn of(raw: RawAllowlist) -> Option<Arc<Self>> {
        let has_conditions = !raw.regexes.is_empty() || !raw.stopwords.is_empty();
        has_conditions.then(|| Arc::new(Self { raw, compiled: OnceLock::new() }))
    }

    fn compiled(&self) -> &(Option<RegexSet>, Option<AhoCorasick>) {
        self.compiled.get_or_init(|| {
            let sources = self.raw.regexes.iter().map(|source| translate_regex(source));
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
            AllowTarget::Secret => secret,
            AllowTarget::Match => matched,
            AllowTarget::Line => line,
        };
        regexes.as_ref().is_some_and(|set| set.is_match(target))
            || stopwords.as_ref().is_some_and(|words| words.is_match(secret))
    }
}

/// Returns the lines that contain a range.
fn lines_around<'t>(text: &'t [u8], range: &Range<usize>) -> &'t [u8] {
    let is_end = |byte: &u8| *byte == b'\n';
    let begin = text[..range.start].iter().rposition(is_end).map_or(0, |at| at + 1);
    let length = text[range.end..].iter().position(is_end);
    &text[begin..length.map_or(text.len(), |length| range.end + length)]
}

/// Shannon entropy in bits per byte, as in gitleaks.
pub(super) fn entropy(secret: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in secret {
        counts[usize::from(*byte)] += 1;
    }
    let length = secret.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length);
    shares.map(|share| -share * share.log2()).sum()
}

/// Returns a rule's expression with other boundaries: a secret that is known by its own form also begins behind `_`, and
/// ends before what it is not made of.
fn with_any_boundaries(source: &str) -> String {
    let end = match source.rsplit_once(END) {
        Some((secret, _)) if !source.starts_with(NAMED) => end_of(secret),
        Some(_) | None => ANY_END.to_owned(),
    };
    let source = source.replace(END, &end);
    let Some(rest) = source.strip_prefix(r"\b") else { return source };
    // The group keeps the `_` out of what is masked.
    let begins_group = |at: usize| !rest[..at].ends_with('\\') && !rest[at + 1..].starts_with('?');
    if rest.match_indices('(').any(|(at, _)| begins_group(at)) {
        format!(r"(?:\b|_){rest}")
    } else {
        format!(r"(?:\b|_)({rest})")
    }
}

/// Returns the expression for the end of a secret, by the last class of characters in its expression.
fn end_of(secret: &str) -> String {
    let class = secret.rsplit_once('[').map_or("", |(_, class)| class.split(']').next().unwrap_or_default());
    let has = |any: &[char]| class.contains(any);
    let word = if has(&['_']) || class.contains(r"\w") { "_" } else { "" };
    let signs = if has(&['+', '/', '=']) { "+/=" } else { "" };
    format!(r"(?:[^0-9A-Za-z{word}{signs}\-]|$)")
}

/// Translates a Go regular expression into the syntax of `regex`: Go treats a brace without a count, and a bracket in a
/// class, as literals.
fn translate_regex(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut in_class = false;
    let mut rest = source;
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
                // A leading bracket does not end a class.
                length = ["[^]", "[]", "[^"]
                    .iter()
                    .find(|begin| rest.starts_with(**begin))
                    .map_or(1, |begin| begin.len());
            }
            ']' => in_class = false,
            '{' if !in_class && !is_repetition(rest) => out.push('\\'),
            _ => {}
        }
        let (taken, behind) = rest.split_at(length);
        out.push_str(taken);
        rest = behind;
    }
    out
}

/// Whether a text begins with `{2}`, `{2,}` or `{2,5}`.
fn is_repetition(text: &str) -> bool {
    let inner = text.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inner, _)| inner);
    inner.is_some_and(|inner| {
        let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
        !least.is_empty() && least.bytes().chain(most.bytes()).all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl RuleSet {
        /// Returns the keywords, with the rules of each.
        fn keywords(&self) -> impl Iterator<Item = (&str, &[usize])> {
            self.keywords.iter().map(String::as_str).zip(self.by_keyword.iter().map(Vec::as_slice))
        }

        /// Applies each rule of which a keyword occurs on its own.
        pub(in crate::redact) fn find_each(&self, text: &str, found: &mut Vec<Range<usize>>) {
            let lower = text.to_ascii_lowercase();
            let occurring = self.keywords().filter(|(keyword, _)| lower.contains(keyword));
            let mut numbers: Vec<usize> = occurring.flat_map(|(_, numbers)| numbers).copied().collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers.into_iter().for_each(|number| self.rules[number].find(text, found));
        }

        /// Whether a text contains a keyword, searched one by one.
        pub(in crate::redact) fn has_keyword_in(&self, text: &str) -> bool {
            let lower = text.to_ascii_lowercase();
            self.keywords().any(|(keyword, _)| lower.contains(keyword))
        }
    }

    #[test]
    fn every_rule_is_read_compiles_and_has_a_keyword() {
        // 222 rules of gitleaks, one of which has no expression but a file name; one is left out.
        assert!(RULES.rules.len() > 220 + 20, "{}", RULES.rules.len());
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
        let ends = RULES.rules.iter().filter(|rule| rule.source.ends_with("|$)")).count();
        assert!(ends >= 150, "gitleaks ends its expressions otherwise now: {ends}");
    }

    #[test]
    fn go_expressions_are_translated() {
        for (go, own) in [
            (r"a{2,5}b{3,}[{]c{2}", r"a{2,5}b{3,}[{]c{2}"),
            (r"\$?{{[^}]+}}", r"\$?\{\{[^}]+}}"),
            (r"[^]]+[]x]", r"[^]]+[]x]"),
            (r"[[:alnum:]]{14}[a[b]", r"[[:alnum:]]{14}[a\[b]"),
            (r"\x{41}\{", r"\x{41}\{"),
        ] {
            assert_eq!(translate_regex(go), own);
            assert!(Regex::new(&translate_regex(go)).is_ok(), "{go}");
        }
    }

    #[test]
    fn boundaries_are_those_of_what_a_secret_is_made_of() {
        for (rule, own) in [
            (r"\bAK[0-9A-Z]{16}", r"(?:\b|_)(AK[0-9A-Z]{16})".to_owned()),
            (r"\b(?:a|b)([a-z]{9})", r"(?:\b|_)(?:a|b)([a-z]{9})".to_owned()),
            (r"(?i)\bbearer\s+(\w+)", r"(?i)\bbearer\s+(\w+)".to_owned()),
            (
                &format!(r"\b(pul-[a-f0-9]{{40}}){END}"),
                r"(?:\b|_)(pul-[a-f0-9]{40})(?:[^0-9A-Za-z\-]|$)".to_owned(),
            ),
            (&format!(r"(k_[\w-]{{40}}){END}"), r"(k_[\w-]{40})(?:[^0-9A-Za-z_\-]|$)".to_owned()),
            (&format!(r"(k_[a-z+/]{{40}}){END}"), r"(k_[a-z+/]{40})(?:[^0-9A-Za-z+/=\-]|$)".to_owned()),
            (
                &format!(r"{NAMED}{{0,9}}=([a-z]{{40}}){END}"),
                format!(r"{NAMED}{{0,9}}=([a-z]{{40}}){ANY_END}"),
            ),
        ] {
            assert_eq!(with_any_boundaries(rule), own);
        }
    }

    #[test]
    fn entropy_is_shannons() {
        assert!(entropy(b"aaaa").abs() < 1e-9);
        assert!((entropy(b"abcd") - 2.0).abs() < 1e-9);
        assert!((entropy(b"0123456789abcdef") - 4.0).abs() < 1e-9);
    }
}
