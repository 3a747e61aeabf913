//! Compares the lists with each other: `ls` with `stats`, and the rows of `ls` among themselves.

use std::collections::BTreeMap;

use subscope_model::{SessionRow, Stats};

use super::report::Difference;

/// Whether a title begins as what a program puts before a prompt does: with a heading or an element.
fn is_heading(title: &str) -> bool {
    let is_element = |rest: &str| rest.starts_with(|first: char| first.is_ascii_alphabetic());
    title.trim_start_matches('#').starts_with(' ') && title.starts_with('#')
        || title.strip_prefix('<').is_some_and(is_element)
}

/// Returns what differs.
pub(super) fn check(rows: &[SessionRow], stats: &Stats) -> Vec<Difference> {
    let mut found = Vec::new();
    let count = |of: &dyn Fn(&SessionRow) -> u64| rows.iter().map(of).sum::<u64>();
    let listed = [
        ("tool calls", count(&|row| u64::from(row.tool_calls)), stats.total.tool_calls),
        (
            "tokens",
            count(&|row| row.usage.map_or(0, |usage| usage.total_tokens)),
            stats.total.usage.total_tokens,
        ),
    ];
    for (figure, in_list, in_stats) in listed {
        if in_list != in_stats {
            found.push(Difference {
                stated: Some(in_list),
                found: Some(in_stats),
                figure: Some(figure),
                ..Difference::of_all("the sum of `ls` is not that of `stats`")
            });
        }
    }
    let mut ids = BTreeMap::<&str, u64>::new();
    let mut titles = BTreeMap::<&str, Vec<&SessionRow>>::new();
    for row in rows {
        *ids.entry(&row.id).or_default() += 1;
        if let Some(title) = row.title.as_deref().filter(|title| is_heading(title)) {
            titles.entry(title).or_default().push(row);
        }
    }
    for (id, times) in ids.into_iter().filter(|(_, times)| *times > 1) {
        let difference = Difference::of_all("the session has several rows in `ls`");
        found.push(Difference { session: id.to_owned(), found: Some(times), ..difference });
    }
    for rows in titles.values().filter(|rows| rows.len() > 1) {
        for row in rows {
            found.push(Difference {
                session: row.id.to_string(),
                harness: row.harness.as_deref().map(str::to_owned),
                ..Difference::of_all("its title is a heading that other sessions have too")
            });
        }
    }
    found
}
