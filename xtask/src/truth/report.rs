//! The table of `cargo xtask truth` as Markdown.

use super::{
    recordings::{HARNESSES, Recording},
    score::{COLUMNS, Figure, Score},
};

/// All scores.
#[derive(Debug)]
pub(super) struct Table {
    /// The harness and the name of each recording, in the order of each row's scores.
    recordings: Vec<(&'static str, String)>,
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
    /// Its score on each recording; `None` for those of a harness that it does not read.
    pub(super) scores: Vec<Option<Score>>,
    /// The numbers of the recordings on which it gave no answer, with its message.
    pub(super) unanswered: Vec<(usize, String)>,
}

impl Row {
    /// The sum over these recordings, by their numbers.
    pub(super) fn total(&self, is_counted: impl Fn(usize) -> bool) -> Score {
        let mut total = Score::default();
        let counted = self.scores.iter().enumerate().filter(|(at, _)| is_counted(*at));
        counted.filter_map(|(_, score)| *score).for_each(|score| total.add(score));
        total
    }
}

impl Table {
    /// Returns a table of these recordings, without rows.
    pub(super) fn new(recordings: &[Recording]) -> Self {
        let recordings = recordings.iter().map(|it| (it.harness, it.name.clone())).collect();
        Self { recordings, rows: Vec::new(), not_run: Vec::new() }
    }

    /// Returns the whole page.
    pub(super) fn to_markdown(&self) -> String {
        let mut page = format!(
            "# Who is right\n\nWritten by `cargo xtask truth`; do not edit. {} recordings of sessions of {} harnesses, \
             read from the harness's own files alone, against what is true of each. `wild` sessions are made up after public \
             ones: older versions, half of the files, copies, limits, a clock set back; their truth was worked out by hand. Of the others of Claude Code that is the word of a \
             separate small program (`xtask/oracle/oracle.py`), which agrees with the `truth.json` of each recording; for \
             others it is that file, which was worked out by such programs, for Qwen Code by hand. Each cell is mistakes of \
             cases: smaller is better; `—`: the tool says nothing about it.\n",
            self.recordings.len(),
            HARNESSES.len()
        );
        for (harness, title) in HARNESSES {
            self.write_harness(&mut page, harness, title);
        }
        self.write_remarks(&mut page);
        page
    }

    fn write_harness(&self, page: &mut String, harness: &str, title: &str) {
        let numbers: Vec<usize> = (0..self.recordings.len())
            .filter(|at| self.recordings.get(*at).is_some_and(|it| it.0 == harness))
            .collect();
        let is_counted = |at: usize| numbers.contains(&at);
        let reads = |row: &&Row| numbers.iter().any(|at| row.scores.get(*at).is_some_and(Option::is_some));
        let rows: Vec<&Row> = self.rows.iter().filter(reads).collect();
        let columns: String = COLUMNS.iter().map(|column| format!(" wrong {column} |")).collect();
        let s = if numbers.len() == 1 { "" } else { "s" };
        page.push_str(&format!(
            "\n## {title}: {} recording{s}\n\n| tool | version |{columns}\n",
            numbers.len()
        ));
        page.push_str(&format!("|---|---|{}\n", "---|".repeat(COLUMNS.len())));
        for row in &rows {
            let cell = |figure: Option<Figure>| {
                figure.map_or("—".to_owned(), |f| format!("{} of {}", f.wrong, f.all))
            };
            let cells = row.total(is_counted).0.map(cell).join(" | ");
            page.push_str(&format!("| {} | {} | {cells} |\n", row.name, row.version));
        }
        let names: String = rows.iter().map(|row| format!(" {} |", row.name)).collect();
        page.push_str(&format!("\nEach recording: wrong {}.\n\n", COLUMNS.join(" · ")));
        page.push_str(&format!("| recording |{names}\n|---|{}\n", "---|".repeat(rows.len())));
        for at in numbers {
            let name = self.recordings.get(at).map_or("", |it| it.1.as_str());
            page.push_str(&format!("| {name} |"));
            for row in &rows {
                let is_mute = row.unanswered.iter().any(|(mute, _)| *mute == at);
                let cell = row.scores.get(at).copied().flatten().map_or(String::new(), Score::to_cell);
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
* **endings**: agents whose ending is another than the true one (completed, failed, stopped or lost); the main
  thread only where the tool speaks of its ending. Where a process was killed and wrote nothing, stopped is as good as
  lost.
* **tokens**: agents with another sum in any kind of tokens that the tool tells (agents-tree: output only; agentsview:
  of OpenCode without output, which it tells without thoughts). Sessions of Copilot CLI before 1.0.102 do not say whose
  tokens they are.
* **sums**: sessions with another sum of tokens, in any kind that the tool tells. Of Claude
  Code it is not scored: some of its recordings have the sum in the stream alone. ccusage and tokscale count tokens of
  files; they do not say which agent a file belongs to.
* ✗: the tool gave no answer; everything in the recording counts as missing.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_totals_cells_and_reasons() {
        let figure = |wrong| Some(Figure { wrong, all: 4 });
        let recording = |name: &str| Recording {
            harness: "codex",
            name: name.to_owned(),
            folder: std::path::PathBuf::new(),
            session: None,
            truth: None,
        };
        let mut table = Table::new(&[recording("1.0/a"), recording("1.0/b")]);
        let score = |wrong| Some(Score([figure(wrong), None, figure(0), None, None]));
        table.rows.push(Row {
            name: "tool".to_owned(),
            version: "7".to_owned(),
            scores: vec![score(1), score(2)],
            unanswered: vec![(1, "it | broke".to_owned())],
        });
        table.rows.push(Row {
            name: "blind".to_owned(),
            version: "1".to_owned(),
            scores: vec![None, None],
            unanswered: vec![],
        });
        table.not_run.push(("other".to_owned(), "no | package".to_owned()));
        let page = table.to_markdown();
        assert!(page.contains("| tool | 7 | 3 of 8 | — | 0 of 8 | — | — |\n"), "{page}");
        assert!(page.contains("| 1.0/a | 1 · — · 0 · — · — |\n| 1.0/b | 2 · — · 0 · — · — ✗ |\n"), "{page}");
        assert!(page.contains("tool gave no answer on 1: it | broke"), "{page}");
        assert!(page.contains("| other | no / package |") && !page.contains("blind"), "{page}");
    }
}
