//! Reads the records of iterations that `subscope run` wrote.

use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde::Deserialize;
use subscope_model::{
    ITERATION_SCHEMA, ITERATIONS_SCHEMA, Iteration, IterationMeta, IterationStatus, Iterations, Millis,
    TraceStats,
};
use subscope_platform::is_alive;

/// Folder of all records, relative to the working folder.
pub const FOLDER: &str = ".subscope/iterations";
/// Lifecycle trace.
pub const TRACE: &str = "trace.json";
/// Metadata of the iteration.
pub const META: &str = "meta.json";

/// Most bytes of a record's metadata: a command line and some words.
const MAX_META_BYTES: u64 = 4 << 20;
/// Most bytes of a trace: hundreds of thousands of events.
const MAX_TRACE_BYTES: u64 = 64 << 20;

/// The part of a trace that a list shows.
#[derive(Deserialize)]
struct TraceFigures {
    stats: TraceStats,
}

/// Reads the metadata of a folder; `None` if it is not a record. A running one without its process is
/// [`IterationStatus::Cut`].
pub fn read_meta(folder: &Path) -> Option<IterationMeta> {
    let bytes = read_bounded(&folder.join(META), MAX_META_BYTES)?;
    let mut meta: IterationMeta = serde_json::from_slice(&bytes).ok()?;
    if meta.schema != ITERATION_SCHEMA {
        return None;
    }
    if meta.status == IterationStatus::Running && !is_alive(meta.pid) {
        meta.status = IterationStatus::Cut;
    }
    Some(meta)
}

/// Reads a regular file that is not larger than `limit`: a project's folder comes with its repository, and may hold a pipe
/// or a device.
fn read_bounded(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let found = fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > limit {
        return None;
    }
    fs::read(path).ok()
}

/// Returns the records below folders, newest first, without the figures of their traces.
pub fn list(bases: &[PathBuf]) -> Vec<(PathBuf, IterationMeta)> {
    let entries = bases.iter().flat_map(fs::read_dir).flatten().flatten();
    let mut found: Vec<(PathBuf, IterationMeta)> =
        entries.filter_map(|entry| Some((entry.path(), read_meta(&entry.path())?))).collect();
    found.sort_by(|(left, a), (right, b)| {
        (b.started_at_ms, b.iteration, right).cmp(&(a.started_at_ms, a.iteration, left))
    });
    found
}

/// Returns the newest iterations recorded in project folders, at most `limit`.
pub fn of_projects<'p>(folders: impl IntoIterator<Item = &'p str>, limit: usize) -> Iterations {
    let bases: Vec<PathBuf> = folders.into_iter().map(|folder| Path::new(folder).join(FOLDER)).collect();
    let newest = list(&bases).into_iter().take(limit);
    let rows = newest.map(|(folder, meta)| read_figures(&folder, meta));
    Iterations { schema: ITERATIONS_SCHEMA.to_owned(), iterations: rows.collect() }
}

/// Reads the figures of a record.
pub fn read_figures(folder: &Path, meta: IterationMeta) -> Iteration {
    let trace = folder.join(TRACE);
    let figures = read_bounded(&trace, MAX_TRACE_BYTES)
        .and_then(|json| serde_json::from_slice::<TraceFigures>(&json).ok());
    let stats = figures.map(|figures| figures.stats);
    let end = match meta.status {
        IterationStatus::Running => None,
        IterationStatus::Cut => modified_at(&trace),
        IterationStatus::Completed | IterationStatus::Failed => meta.ended_at_ms,
    };
    Iteration {
        folder: folder.to_string_lossy().into_owned(),
        agents: stats.as_ref().map(|stats| stats.total_subagents),
        failed: stats.as_ref().map(|stats| stats.failure_count),
        duration_ms: end.map(|end| (end - meta.started_at_ms).max(0)),
        meta,
    }
}

fn modified_at(path: &Path) -> Option<Millis> {
    let modified = fs::metadata(path).and_then(|found| found.modified()).ok()?;
    Millis::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(base: &Path, name: &str, meta: &IterationMeta, trace: &str) -> PathBuf {
        let folder = base.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(META), serde_json::to_vec(meta).unwrap()).unwrap();
        fs::write(folder.join(TRACE), trace).unwrap();
        folder
    }

    fn meta(status: IterationStatus) -> IterationMeta {
        IterationMeta {
            schema: ITERATION_SCHEMA.to_owned(),
            run: "0123abcd".to_owned(),
            iteration: 1,
            of: Some(2),
            name: "test".to_owned(),
            command: vec!["sh".to_owned()],
            cwd: "/".to_owned(),
            session_id: None,
            status,
            exit_code: None,
            started_at_ms: 1_000,
            ended_at_ms: None,
            pid: std::process::id(),
        }
    }

    #[test]
    fn record_without_its_process_is_cut() {
        let base = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let meta = IterationMeta { pid: gone.id(), ..meta(IterationStatus::Running) };
        let folder = record(base.path(), "a", &meta, "{");
        let meta = read_meta(&folder).unwrap();
        assert_eq!(meta.status, IterationStatus::Cut);
        let row = read_figures(&folder, meta);
        assert_eq!((row.agents, row.failed), (None, None));
        assert!(row.duration_ms.is_some());
    }

    #[test]
    fn pipe_device_or_huge_file_is_no_record_and_holds_nobody_up() {
        let base = tempfile::tempdir().unwrap();
        for (name, target) in [("pipe", None), ("zero", Some("/dev/zero")), ("stdin", Some("/dev/stdin"))] {
            let folder = base.path().join(name);
            fs::create_dir(&folder).unwrap();
            for file in [META, TRACE].map(|file| folder.join(file)) {
                match target {
                    Some(target) => std::os::unix::fs::symlink(target, file).unwrap(),
                    None => {
                        assert!(std::process::Command::new("mkfifo").arg(file).status().unwrap().success())
                    }
                }
            }
            assert_eq!(read_figures(&folder, meta(IterationStatus::Completed)).agents, None);
        }
        let huge = base.path().join("huge");
        fs::create_dir(&huge).unwrap();
        fs::File::create(huge.join(META)).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(list(&[base.path().to_owned()]), []);
    }

    #[test]
    fn figures_are_those_of_the_trace() {
        let base = tempfile::tempdir().unwrap();
        let stats = r#"{"totalSubagents":3,"byType":{},"totalDurationMs":9,"wallMs":9,"failureCount":1,"maxDepth":1}"#;
        let trace = format!(r#"{{"events":[],"hierarchy":[],"stats":{stats}}}"#);
        let running = record(base.path(), "a", &meta(IterationStatus::Running), &trace);
        let ended = IterationMeta { ended_at_ms: Some(3_500), iteration: 2, ..meta(IterationStatus::Failed) };
        record(base.path(), "b", &ended, &trace);
        let rows: Vec<Iteration> = list(&[base.path().to_owned()])
            .into_iter()
            .map(|(folder, meta)| read_figures(&folder, meta))
            .collect();
        let shown = |row: &Iteration| (row.meta.iteration, row.agents, row.failed, row.duration_ms);
        assert_eq!(
            rows.iter().map(shown).collect::<Vec<_>>(),
            [(2, Some(3), Some(1), Some(2_500)), (1, Some(3), Some(1), None)]
        );
        assert_eq!(rows.last().unwrap().folder, running.to_string_lossy());
    }
}
