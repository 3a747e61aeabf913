//! Parts of paths by which programs are known.

/// Whether a path with these parts has folders in a row, the name of a file, or with a `*` the end of one.
pub(crate) fn has_in_row(parts: &[&str], marks: &str) -> bool {
    if let Some(ending) = marks.strip_prefix('*') {
        return parts.last().is_some_and(|name| name.ends_with(ending));
    }
    let is_row = |row: &[&str]| marks.split('/').eq(row.iter().copied());
    parts.windows(marks.split('/').count()).any(is_row)
}
