//! `cargo xtask fuzz [SECONDS [TARGET]]`: runs each fuzz target for a time, with the recordings as seeds.
//!
//! cargo-fuzz is installed below the target directory if it is missing. The sanitizer's flags are unstable:
//! RUSTC_BOOTSTRAP allows them, and nothing else in the repository needs that.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{announce, cargo, output, root, run as run_step, succeeds};

/// Largest seed; larger ones are split, because they slow the fuzzer down.
const SEED_BYTES: usize = 16 * 1024;

/// Memory limit; a decoder that needs more has a bug.
const MEMORY_MEGABYTES: u32 = 1024;

/// Predicate on the path of a recorded file.
type IsSeed = fn(&str) -> bool;

/// Recorded OpenTelemetry records: their words are the same in every dialect.
fn is_otel(name: &str) -> bool {
    name.contains("/otel") && name.ends_with(".jsonl")
}

/// The recorded files that seed each target; `fuzz/seeds` has hand-written lines for cases without a recording.
const SEEDS: &[(&str, IsSeed)] = &[
    ("transcript", |name| {
        name.contains("/projects/") && name.ends_with(".jsonl") && !name.ends_with("/journal.jsonl")
    }),
    ("meta", |name| name.ends_with(".meta.json")),
    ("journal", |name| name.ends_with("/journal.jsonl")),
    ("stream", |name| name.contains("/stream") && name.ends_with(".jsonl")),
    ("hook", |name| name.ends_with("/hooks.jsonl")),
    ("subagent_events", |name| name.ends_with("/subagent-events.jsonl")),
    ("feed", |name| name.ends_with("/feed.jsonl")),
    ("stop_orders", |name| name.ends_with("/stop-orders.jsonl")),
    ("executions", |name| name.ends_with("/executions.jsonl")),
    ("process_ends", |name| name.ends_with("/process-ends.jsonl")),
    ("codex_rollout", |name| name.contains("/rollout-")),
    ("codex_exec", |name| name.contains("/codex/") && name.contains("/stdout")),
    ("codex_hook", |name| name.contains("/codex/") && name.ends_with("/hooks.jsonl")),
    ("codex_app_server", |name| name.ends_with("/rpc.jsonl")),
    ("copilot_events", |name| name.ends_with("/events.jsonl")),
    ("copilot_stream", |name| name.contains("/copilot/") && name.contains("/stdout")),
    ("copilot_hook", |name| name.contains("/copilot/") && name.ends_with("/hooks.jsonl")),
    ("gemini_chat", |name| name.contains("/gemini/") && name.contains("/chats/")),
    // No recording has the chats of old versions: their words are those of newer chats.
    ("gemini_session", |name| name.contains("/gemini/") && name.contains("/chats/")),
    ("gemini_telemetry", |name| name.ends_with("/telemetry.log")),
    ("claude_otel", is_otel),
    ("gemini_otel", is_otel),
    ("codex_otel", is_otel),
    ("otel_genai", is_otel),
    ("otlp_body", is_otel),
    ("gemini_stream", |name| name.contains("/gemini/") && name.contains("/stdout")),
    ("gemini_hook", |name| name.contains("/gemini/") && name.ends_with("/hooks.jsonl")),
    ("qwen_chat", |name| name.contains("/qwen/") && name.contains("/chats/")),
    ("qwen_meta", |name| name.contains("/qwen/") && name.ends_with(".meta.json")),
    ("qwen_stream", |name| name.contains("/qwen/") && name.contains("/stdout")),
    ("qwen_hook", |name| name.contains("/qwen/") && name.ends_with("/hooks.jsonl")),
    ("kimi_wire", |name| name.ends_with("/wire.jsonl")),
    ("kimi_state", |name| name.contains("/kimi/") && name.ends_with("/state.json")),
    ("kimi_stream", |name| name.contains("/kimi/") && name.contains("/stdout")),
    ("kimi_hook", |name| name.contains("/kimi/") && name.ends_with("/hooks.jsonl")),
    ("task_folders", |name| name.ends_with("fuzz/seeds/task-folders.jsonl")),
    ("crush_rows", |name| name.ends_with("fuzz/seeds/crush-rows.jsonl")),
    ("cline_messages", |name| name.contains("/dot_cline/") && name.ends_with(".messages.json")),
    ("cline_rows", |name| {
        name.contains("/dot_cline/") && !name.contains("messages") && name.ends_with(".json")
    }),
    ("cline_stream", |name| name.contains("/cline/") && name.contains("/stdout")),
    ("cline_hook", |name| name.contains("/cline/") && name.ends_with("/hooks.jsonl")),
    ("pi_session", |name| name.contains("/dot_omp/")),
    ("pi_stream", |name| name.contains("/omp/") && name.contains("/stdout")),
    ("opencode_events", |name| name.contains("/opencode/") && name.contains("event")),
    ("opencode_hook", |name| name.contains("/opencode/") && name.ends_with("/hooks.jsonl")),
    ("opencode_stdout", |name| {
        (name.contains("/opencode/") || name.contains("/kilo/")) && name.contains("/stdout")
    }),
    ("acp_messages", |name| name.ends_with("/acp.jsonl")),
    ("opencode_database", |name| name.contains("/opencode/") && name.contains("event")),
];

/// Runs every target, or one, for some seconds each; stops at the first finding.
pub(crate) fn run(seconds: u64, only: Option<&str>) -> Result<()> {
    let tool = install()?;
    let targets: Vec<String> = output(fuzz(&tool).arg("list"))?.lines().map(str::to_owned).collect();
    let unseeded = targets.iter().find(|target| !SEEDS.iter().any(|(name, _)| name == target));
    if let Some(target) = unseeded {
        bail!("the fuzz target {target} has no row in the table of seeds (xtask/src/fuzz.rs)");
    }
    let mut recorded = Vec::new();
    visit(&root().join("fixtures"), &mut recorded)?;
    visit(&root().join("fuzz/seeds"), &mut recorded)?;
    if let Some(unknown) = only.filter(|only| !targets.iter().any(|target| target == only)) {
        bail!("no fuzz target {unknown:?}; there are {}", targets.join(", "));
    }
    for (target, is_seed) in SEEDS.iter().filter(|(target, _)| only.is_none_or(|only| only == *target)) {
        let seeds = seed(target, &recorded, *is_seed)?;
        announce(&format!("fuzz {target}: {seconds} s, {seeds} seeds"));
        let limits = [format!("-max_total_time={seconds}"), format!("-rss_limit_mb={MEMORY_MEGABYTES}")];
        let mut command = fuzz(&tool);
        command.args(["run", target, "--"]).args(limits).args([
            "-timeout=10",
            "-verbosity=0",
            "-print_final_stats=1",
        ]);
        run_step(&format!("fuzz {target}"), &mut command)?;
    }
    announce("fuzz: nothing found");
    Ok(())
}

/// Returns the path of cargo-fuzz; installs it first if it is missing.
fn install() -> Result<PathBuf> {
    if succeeds(Command::new("cargo-fuzz").arg("--version")) {
        return Ok("cargo-fuzz".into());
    }
    let folder = root().join("target/tools");
    let tool = folder.join("bin/cargo-fuzz");
    if !tool.exists() {
        let mut install = cargo();
        install.args(["install", "--locked", "--quiet", "--root"]).arg(&folder).arg("cargo-fuzz");
        run_step("install cargo-fuzz", &mut install)?;
    }
    Ok(tool)
}

fn fuzz(tool: &Path) -> Command {
    let mut command = Command::new(tool);
    command.current_dir(root().join("fuzz")).env("RUSTC_BOOTSTRAP", "1");
    command.arg("fuzz");
    command
}

/// Writes the corpus of a target; returns the number of seeds. The first two bytes of a seed choose where the target
/// splits its input.
fn seed(target: &str, recorded: &[PathBuf], is_seed: IsSeed) -> Result<usize> {
    let corpus = root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
    let mut seeds = 0;
    for path in recorded.iter().filter(|path| is_seed(&path.to_string_lossy())) {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        for piece in pieces(&bytes) {
            let mut hasher = DefaultHasher::new();
            piece.hash(&mut hasher);
            let hash = hasher.finish();
            let [high, low, ..] = hash.to_be_bytes();
            let seed = [&[high, low], piece].concat();
            fs::write(corpus.join(format!("seed-{hash:016x}")), seed).context("cannot write a seed")?;
            seeds += 1;
        }
    }
    Ok(seeds)
}

/// Splits at line ends into pieces of at most [`SEED_BYTES`]; longer lines are dropped.
fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let (mut start, mut end) = (0, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if end + line.len() - start > SEED_BYTES {
            pieces.push(&bytes[start..end]);
            start = end;
        }
        end += line.len();
        if end - start > SEED_BYTES {
            start = end;
        }
    }
    pieces.push(&bytes[start..end]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn visit(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            visit(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_seeds_at_ends_of_lines_and_leave_out_long_ones() {
        let short = format!("{}\n", "a".repeat(SEED_BYTES / 2));
        let long = format!("{}\n", "b".repeat(SEED_BYTES));
        let bytes = format!("{short}{short}{long}{short}tail");
        let found = pieces(bytes.as_bytes());
        assert_eq!(found, [short.as_bytes(), short.as_bytes(), format!("{short}tail").as_bytes()]);
        assert_eq!(pieces(b""), Vec::<&[u8]>::new());
    }

    #[test]
    fn find_seeds_for_every_target() {
        let mut recorded = Vec::new();
        visit(&root().join("fixtures"), &mut recorded).unwrap();
        visit(&root().join("fuzz/seeds"), &mut recorded).unwrap();
        for (target, is_seed) in SEEDS {
            assert!(recorded.iter().any(|path| is_seed(&path.to_string_lossy())), "{target} has no seeds");
        }
        let name =
            |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path().file_stem().unwrap().to_owned();
        let mut targets: Vec<_> = fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap().map(name).collect();
        targets.sort_unstable();
        let mut seeded: Vec<_> = SEEDS.iter().map(|(target, _)| std::ffi::OsString::from(target)).collect();
        seeded.sort_unstable();
        assert_eq!(seeded, targets);
    }
}
