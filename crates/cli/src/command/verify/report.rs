//! What `verify` prints: differences, totals, and the report that can be sent.

use std::{collections::BTreeMap, fmt::Write as _};

use schemars::JsonSchema;
use serde::Serialize;
use subscope_harness::harnesses;
use subscope_model::event_id;
use subscope_render::{safe, style::Style, text};

use super::{
    compare::Verified,
    sessions::{Subject, UnreadSession},
};

/// Schema version of the JSON.
const SCHEMA: &str = "subscope.verify/1";

/// The place of rows that are compared with trees.
pub(super) const LISTED: &str = "ls";

/// Most characters of a version that a report has.
const MAX_VERSION: usize = 32;

/// Why a figure differs from the harness's own and is right all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::command) enum Reason {
    /// subscope's figure is smaller and marked as a lower bound (`≥`).
    LowerBound,
    /// subscope shows that it is unknown (`—`).
    Unknown,
    /// More was done than the total is of: after it was written, or by a process that was killed.
    Later,
    /// The rest is of requests of the harness itself, which are in no transcript.
    OwnRequests,
    /// There are agents that the harness does not count.
    Uncounted,
    /// A part was copied from another session, and counts there.
    Copied,
    /// Transcripts were deleted.
    Gone,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::LowerBound => "shown as a lower bound",
            Self::Unknown => "shown as unknown",
            Self::Later => "more was done than the total is of",
            Self::OwnRequests => "the rest is of the harness itself",
            Self::Uncounted => "the harness does not count all",
            Self::Copied => "counted in the session that it was copied from",
            Self::Gone => "transcripts are gone",
        }
    }
}

/// Outcome of comparing one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Equal,
    Explained(Reason),
    Differs,
}

/// Something that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(in crate::command) struct Difference {
    /// The session; empty if it is about all of them.
    pub(super) session: String,
    /// Its harness.
    pub(super) harness: Option<String>,
    /// The harness's version.
    pub(super) version: Option<String>,
    /// The agent, if it is not the root; or the call that should have started one.
    pub(super) agent: Option<String>,
    /// The place of the harness's own figure, or what is wrong.
    pub(super) what: &'static str,
    /// What the figures count.
    pub(super) figure: Option<&'static str>,
    /// The harness's own figure; of lists, that of `ls`.
    pub(super) stated: Option<u64>,
    /// subscope's figure.
    pub(super) found: Option<u64>,
}

impl Difference {
    /// A difference that is about no single session.
    pub(super) fn of_all(what: &'static str) -> Self {
        Self { what, ..Self::default() }
    }

    /// A difference of a session.
    pub(super) fn of(subject: &Subject, what: &'static str) -> Self {
        let session = &subject.tree.session;
        Self {
            session: subject.session.to_string(),
            harness: session.harness.as_deref().map(str::to_owned),
            version: session.harness_version.as_deref().map(str::to_owned),
            what,
            ..Self::default()
        }
    }

    /// Returns what differs, without whose.
    fn words(&self) -> String {
        let mut out = self.what.to_owned();
        if let Some(agent) = &self.agent {
            // Writing to a String cannot fail.
            let _ = write!(out, " of agent {agent}");
        }
        match (self.figure, self.stated, self.found) {
            (Some(figure), Some(stated), Some(found)) => {
                let _ = write!(out, ": {figure} {stated}, subscope has {found}");
            }
            (Some(figure), Some(stated), None) => {
                let _ = write!(out, ": {figure} {stated}, subscope has none");
            }
            (figure, stated, found) => {
                let number = stated.or(found).map(|number| number.to_string());
                let words = [figure.map(str::to_owned), number].into_iter().flatten().collect::<Vec<_>>();
                if !words.is_empty() {
                    let _ = write!(out, ": {}", words.join(" "));
                }
            }
        }
        out
    }
}

/// Outcomes of one place at which a harness states totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(in crate::command) struct PlaceReport {
    /// The harness.
    harness: String,
    /// The place, in the harness's own words; `ls` for rows that were compared with trees.
    place: &'static str,
    /// Number of figures that are equal.
    equal: u64,
    /// Number of figures that differ for a known reason.
    explained: BTreeMap<Reason, u64>,
    /// Number of figures that differ.
    differ: u64,
}

/// What was verified (subscope.verify/1).
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(in crate::command) struct VerifyReport {
    schema: &'static str,
    /// Number of sessions.
    pub(super) sessions: u64,
    /// Number of sessions of each harness and version.
    versions: BTreeMap<String, u64>,
    /// Number of files.
    files: u64,
    /// Number of files below the path that end in `.jsonl`, `.ndjson` or `.json` and gave no session.
    pub(super) files_left_out: u64,
    /// Number of lines.
    lines: u64,
    /// Number of lines that the rows use something of.
    lines_used: u64,
    /// Number of lines that are no JSON.
    lines_damaged: u64,
    /// Number of lines that were not understood.
    lines_not_understood: u64,
    /// Totals of harnesses.
    places: Vec<PlaceReport>,
    /// What differs.
    pub(super) differences: Vec<Difference>,
}

impl VerifyReport {
    /// Adds what was found of a session.
    pub(super) fn add(&mut self, subject: &Subject, verified: Verified) {
        let session = &subject.tree.session;
        let harness = self.add_session(session.harness.as_deref(), session.harness_version.as_deref());
        self.files += verified.files;
        self.lines += verified.lines.all;
        self.lines_used += verified.lines.observed;
        self.lines_damaged += verified.lines.damaged;
        self.lines_not_understood += verified.not_understood;
        for (place, outcome) in verified.outcomes {
            self.count(harness, place, outcome);
        }
        self.differences.extend(verified.differences);
    }

    /// Adds a session that is listed and whose sources give no rows.
    pub(super) fn add_unread(&mut self, UnreadSession { row, is_cut }: &UnreadSession) {
        let harness = self.add_session(row.harness.as_deref(), None);
        if *is_cut {
            return self.count(harness, LISTED, Outcome::Explained(Reason::Gone));
        }
        self.count(harness, LISTED, Outcome::Differs);
        self.differences.push(Difference {
            session: row.id.to_string(),
            harness: row.harness.as_deref().map(str::to_owned),
            ..Difference::of_all("`ls` lists it, and its files give no session")
        });
    }

    /// Counts a session. Returns its harness.
    fn add_session<'s>(&mut self, harness: Option<&'s str>, version: Option<&str>) -> &'s str {
        let (harness, version) = (harness.unwrap_or("unknown"), version.unwrap_or("?"));
        self.schema = SCHEMA;
        self.sessions += 1;
        *self.versions.entry(format!("{harness} {version}")).or_default() += 1;
        harness
    }

    fn count(&mut self, harness: &str, place: &'static str, outcome: Outcome) {
        let is_it = |row: &PlaceReport| row.harness == harness && row.place == place;
        let index = self.places.iter().position(is_it).unwrap_or_else(|| {
            self.places.push(PlaceReport { harness: harness.to_owned(), place, ..PlaceReport::default() });
            self.places.len() - 1
        });
        let Some(row) = self.places.get_mut(index) else { return };
        match outcome {
            Outcome::Equal => row.equal += 1,
            Outcome::Explained(reason) => *row.explained.entry(reason).or_default() += 1,
            Outcome::Differs => row.differ += 1,
        }
    }

    /// Adds what differs between lists.
    pub(super) fn check(&mut self, found: Vec<Difference>) {
        self.differences.extend(found);
    }

    /// Returns the number of differences.
    pub(super) fn differing(&self) -> usize {
        self.differences.len()
    }

    /// Returns the text for a terminal: a line for each session that differs, then totals.
    pub(super) fn render(&self, style: &Style) -> String {
        safe::lines(&self.to_text(), style.charset())
    }

    /// Returns the text: a line for each session that differs, then totals.
    pub(super) fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        for (session, all) in self.by_session() {
            let of = all.iter().find_map(|difference| difference.harness.as_deref()).unwrap_or_default();
            let version = all.iter().find_map(|difference| difference.version.as_deref()).unwrap_or_default();
            let head =
                [session, of, version].iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>();
            let words = all.iter().map(|difference| difference.words()).collect::<Vec<_>>();
            let head = if head.is_empty() { "all sessions".to_owned() } else { head.join(" ") };
            let _ = writeln!(out, "{head}: {}", words.join("; "));
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let [sessions, files, lines] =
            [(self.sessions, "session"), (self.files, "file"), (self.lines, "line")]
                .map(|(number, of)| text::plural(number, of));
        let _ = writeln!(
            out,
            "{sessions}, {files}, {lines}: {} used, {} damaged, {} not understood",
            self.lines_used, self.lines_damaged, self.lines_not_understood
        );
        if self.files_left_out > 0 {
            let _ =
                writeln!(out, "left out: {} without a session", text::plural(self.files_left_out, "file"));
        }
        for row in &self.places {
            let _ = write!(out, "  {} {}: {} equal", row.harness, row.place, row.equal);
            for (reason, number) in &row.explained {
                let _ = write!(out, ", {number} {}", reason.as_str());
            }
            let _ = writeln!(out, ", {} differ", row.differ);
        }
        let _ = match self.differing() {
            0 => writeln!(out, "nothing differs"),
            some => {
                let [differences, sessions] = [(some, "difference"), (self.by_session().len(), "session")]
                    .map(|(number, of)| text::plural(number, of));
                writeln!(out, "{differences} in {sessions}")
            }
        };
        out
    }

    fn by_session(&self) -> BTreeMap<&str, Vec<&Difference>> {
        let mut all: BTreeMap<&str, Vec<&Difference>> = BTreeMap::new();
        for difference in &self.differences {
            all.entry(&difference.session).or_default().push(difference);
        }
        all
    }

    /// Returns the report as it may be sent: ids are hashed, and nothing is left that a person or an agent has named.
    pub(super) fn without_ids(&self) -> SentReport {
        let hashed = |id: &String| {
            if id.is_empty() { String::new() } else { event_id("verify", id).chars().take(12).collect() }
        };
        let harness =
            |name: &str| harnesses().find(|known| known.name() == name).map_or("other", |known| known.name());
        let mut report = self.clone();
        for difference in &mut report.differences {
            difference.session = hashed(&difference.session);
            difference.agent = difference.agent.as_ref().map(hashed);
            difference.harness = difference.harness.as_deref().map(|name| harness(name).to_owned());
            difference.version = difference.version.as_deref().map(plain_version);
        }
        for place in &mut report.places {
            place.harness = harness(&place.harness).to_owned();
        }
        report.versions.clear();
        for (name, number) in &self.versions {
            let (name, version) = name.split_once(' ').unwrap_or((name, "?"));
            *report.versions.entry(format!("{} {}", harness(name), plain_version(version))).or_default() +=
                number;
        }
        SentReport(report)
    }
}

/// Returns a version if it looks like one.
fn plain_version(version: &str) -> String {
    let is_plain = version.len() <= MAX_VERSION
        && version.starts_with(|first: char| first.is_ascii_digit())
        && version.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '+'));
    if is_plain { version.to_owned() } else { "?".to_owned() }
}

/// A report without ids and texts.
pub(super) struct SentReport(VerifyReport);

impl SentReport {
    /// Returns its text.
    pub(super) fn to_text(&self) -> String {
        let Self(report) = self;
        let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
        let mut out = format!("subscope {} verify, {system} {machine}\n", env!("CARGO_PKG_VERSION"));
        for (version, number) in &report.versions {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {version}: {}", text::plural(*number, "session"));
        }
        out.push('\n');
        out + &report.to_text()
    }
}

#[cfg(test)]
mod tests {
    use subscope_testkit::sessions::{Telling, parts_of, tree};

    use super::*;

    #[test]
    fn a_listed_session_that_its_files_do_not_give_is_a_difference() {
        let recorded = subscope_testkit::fixtures::recording("2.1.330", "c-nested");
        let row = subscope_model::SessionRow::of(&tree(&parts_of(&recorded, &[Telling::Transcript])));
        let mut report = VerifyReport::default();
        report.add_unread(&UnreadSession { row: row.clone(), is_cut: true });
        assert_eq!((report.sessions, report.differing()), (1, 0));
        report.add_unread(&UnreadSession { row, is_cut: false });
        assert_eq!((report.sessions, report.differing()), (2, 1));
        assert!(
            report.to_text().contains("`ls` lists it, and its files give no session"),
            "{}",
            report.to_text()
        );
    }
}
