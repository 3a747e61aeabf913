//! The table of `cargo xtask truth` as Markdown.

use super::score::{COLUMNS, Figure, Score};

/// All scores.
#[derive(Debug)]
pub(super) struct Table {
    /// The recordings, in the order of each row's scores.
    recordings: Vec<String>,
    /// One row for each tool that was run.
    pub(super) rows: Vec<Row>,
    /// Tools that were not run, with the reasons.
    pub(super) not_run: Vec<(String, String)>,
}

/// Scores of one tool.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name.
    pub(super) name: String,
    /// Its version.
    pub(super) version: String,
    /// Its score on each recording.
    pub(super) scores: Vec<Score>,
    /// The recordings on which it gave no answer, with its message.
    pub(super) unanswered: Vec<(String, String)>,
}

impl Row {
    /// The sum over all recordings.
    pub(super) fn total(&self) -> Score {
        let mut total = Score::default();
        self.scores.iter().for_each(|score| total.add(*score));
        total
    }
}

impl Table {
    /// Returns a table of these recordings, without rows.
    pub(super) fn new(recordings: Vec<String>) -> Self {
        Self { recordings, rows: Vec::new(), not_run: Vec::new() }
    }

    /// Returns the whole page.
    pub(super) fn to_markdown(&self) -> String {
        let mut page = format!(
            "# Who is right\n\nWritten by `cargo xtask truth`; do not edit. {} recordings of real sessions, read from their \
             transcripts alone, against an oracle that is a separate small program (`xtask/oracle/oracle.py`) and agrees \
             with the `truth.json` of each recording. Smaller is better; `—`: the tool says nothing about it.\n\n",
            self.recordings.len()
        );
        self.write_totals(&mut page);
        self.write_recordings(&mut page);
        self.write_remarks(&mut page);
        page
    }

    fn write_totals(&self, page: &mut String) {
        let columns: String = COLUMNS.iter().map(|column| format!(" wrong {column} |")).collect();
        page.push_str(&format!("| tool | version |{columns}\n|---|---|---|---|---|---|\n"));
        for row in &self.rows {
            let cell = |figure: Option<Figure>| {
                figure.map_or("—".to_owned(), |f| format!("{} of {}", f.wrong, f.all))
            };
            let cells = row.total().0.map(cell).join(" | ");
            page.push_str(&format!("| {} | {} | {cells} |\n", row.name, row.version));
        }
    }

    fn write_recordings(&self, page: &mut String) {
        let names: String = self.rows.iter().map(|row| format!(" {} |", row.name)).collect();
        let line = "---|".repeat(self.rows.len());
        page.push_str(&format!("\n## Each recording\n\nWrong {}.\n\n", COLUMNS.join(" · ")));
        page.push_str(&format!("| recording |{names}\n|---|{line}\n"));
        for (index, recording) in self.recordings.iter().enumerate() {
            page.push_str(&format!("| {recording} |"));
            for row in &self.rows {
                let is_mute = row.unanswered.iter().any(|(name, _)| name == recording);
                let cell = row.scores.get(index).map_or(String::new(), |score| score.to_cell());
                page.push_str(&format!(" {cell}{} |", if is_mute { " ✗" } else { "" }));
            }
            page.push('\n');
        }
    }

    fn write_remarks(&self, page: &mut String) {
        page.push_str(REMARKS);
        for row in self.rows.iter().filter(|row| !row.unanswered.is_empty()) {
            let mut reasons: Vec<&str> = row.unanswered.iter().map(|(_, why)| why.as_str()).collect();
            reasons.sort_unstable();
            reasons.dedup();
            let count = row.unanswered.len();
            page.push_str(&format!("* {} gave no answer on {count}: {}\n", row.name, reasons.join("; ")));
        }
        page.push_str("\n## Not run\n\n| tool | why |\n|---|---|\n");
        for (name, why) in &self.not_run {
            page.push_str(&format!("| {name} | {} |\n", why.replace('|', "/")));
        }
    }
}

const REMARKS: &str = "
## How it is counted

* **parents**: subagents with another parent, missing, or invented. Warm-up agents of 2.0.x may be left out.
* **owners**: tool calls (the main thread's too) that stand with another agent or with none; agents-tree tells only
  how many calls of each tool an agent made: those that lack.
* **endings**: agents whose ending is another than the oracle's (completed, failed, stopped or lost); the main
  thread only where the tool speaks of its ending.
* **tokens**: agents with another sum in any kind of tokens that the tool tells (agents-tree: output only).
* ✗: the tool gave no answer; everything in the recording counts as missing.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_totals_cells_and_reasons() {
        let figure = |wrong| Some(Figure { wrong, all: 4 });
        let mut table = Table::new(vec!["1.0/a".to_owned(), "1.0/b".to_owned()]);
        table.rows.push(Row {
            name: "tool".to_owned(),
            version: "7".to_owned(),
            scores: vec![
                Score([figure(1), None, figure(0), None]),
                Score([figure(2), None, figure(0), None]),
            ],
            unanswered: vec![("1.0/b".to_owned(), "it | broke".to_owned())],
        });
        table.not_run.push(("other".to_owned(), "no | package".to_owned()));
        let page = table.to_markdown();
        assert!(page.contains("| tool | 7 | 3 of 8 | — | 0 of 8 | — |\n"), "{page}");
        assert!(page.contains("| 1.0/a | 1 · — · 0 · — |\n| 1.0/b | 2 · — · 0 · — ✗ |\n"), "{page}");
        assert!(page.contains("tool gave no answer on 1: it | broke"), "{page}");
        assert!(page.contains("| other | no / package |"), "{page}");
    }
}
