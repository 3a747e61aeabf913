//! `watch`: from a line's being written to its being shown, and the cost of waiting.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::sync_channel,
    time::Duration,
};

use subscope_testkit::{clock, corpus};

use subscope_testkit::figures::{Row, now, percentile, processor_time};

fn watch(program: &Path, home: &Path, arguments: &[&str]) -> Child {
    Command::new(program)
        .arg("watch")
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("CLAUDE_CONFIG_DIR", home.join(".claude"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("watch starts")
}

fn line(number: usize) -> String {
    format!(
        r#"{{"parentUuid":null,"isSidechain":false,"sessionId":"bench","version":"2.1.330","type":"assistant","uuid":"u{number}","timestamp":"2026-11-21T20:00:00.000Z","message":{{"id":"m{number}","type":"message","role":"assistant","model":"m","content":[{{"type":"tool_use","id":"toolu_{number}","name":"Read","input":{{"file_path":"/a/{number}.rs"}}}}],"stop_reason":"tool_use","usage":{{"input_tokens":1,"output_tokens":1}}}}}}"#
    )
}

/// From the write of a line to its line on watch's output.
pub(crate) fn latency(program: &Path, lines: usize) -> Vec<Row> {
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = home.path().join("bench.jsonl");
    fs::write(&file, format!("{}\n", line(0))).expect("room for a line");
    let mut child = watch(program, home.path(), &[&file.display().to_string(), "--json"]);
    let stdout = child.stdout.take().expect("stdout is piped");
    let (sender, seen) = sync_channel(1024);
    std::thread::spawn(move || {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            if text.contains("\"tool.pre\"") && sender.send((now(), text)).is_err() {
                return;
            }
        }
    });
    let wait = |number: usize| {
        let needle = format!("toolu_{number}\"");
        loop {
            let (at, text) = seen.recv_timeout(Duration::from_secs(10)).expect("watch shows the line");
            if text.contains(&needle) {
                return at;
            }
        }
    };
    wait(0);
    let mut out = OpenOptions::new().append(true).open(&file).expect("the file is there");
    let mut times = Vec::new();
    for number in 1..=lines {
        std::thread::sleep(Duration::from_millis(15));
        let began = now();
        out.write_all(format!("{}\n", line(number)).as_bytes()).expect("room for a line");
        times.push(wait(number).duration_since(began).as_secs_f64() * 1000.0);
    }
    let _ = child.kill();
    let _ = child.wait();
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    let p99 = percentile(&sorted, 99);
    let row = |figure: &str, values, budget| Row {
        question: "`watch` shows a line after its being written".to_owned(),
        figure: figure.to_owned(),
        values,
        unit: " ms",
        budget,
        is_floor: false,
    };
    vec![row("delay", times, Some(5.0)), row("99th percentile", vec![p99], None)]
}

/// How long a watch has to settle before it is measured, each window, and how many there are.
const SETTLES: Duration = Duration::from_secs(15);
const WINDOW: Duration = Duration::from_secs(20);
const WINDOWS: usize = 7;

/// The processor time of a watch over files in which nothing happens: long ago written ones, as most are, and ones
/// written just now, whose sessions all count as live. Two watches run side by side: the second is the A/A.
pub(crate) fn idle(program: &Path, files: usize) -> Vec<Row> {
    let hour = 3_600_000;
    let long_ago = |number: usize| clock::START - i64::try_from(number).unwrap_or(0) * hour;
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
    let mut rows = idle_over(program, files, "written long ago", &long_ago);
    rows.extend(idle_over(program, files, "written just now", &|_| now));
    rows
}

fn idle_over(program: &Path, files: usize, age: &str, written: &dyn Fn(usize) -> i64) -> Vec<Row> {
    let home = tempfile::tempdir().expect("a temporary folder");
    corpus::idle_files(&home.path().join(".claude"), files / 2, written).expect("room for small files");
    let mut watches = [watch(program, home.path(), &["--json"]), watch(program, home.path(), &["--json"])];
    let readers: Vec<_> = watches
        .iter_mut()
        .map(|child| {
            let stdout = child.stdout.take().expect("stdout is piped");
            std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).count())
        })
        .collect();
    std::thread::sleep(SETTLES);
    let mut before = watches.each_ref().map(|child| processor_time(child.id()));
    let mut values = [Vec::new(), Vec::new()];
    for _ in 0..WINDOWS {
        std::thread::sleep(WINDOW);
        let after = watches.each_ref().map(|child| processor_time(child.id()));
        for (values, (after, before)) in values.iter_mut().zip(after.iter().zip(before)) {
            values.push((*after - before).as_secs_f64() / WINDOW.as_secs_f64() * 100.0);
        }
        before = after;
    }
    for child in &mut watches {
        let _ = child.kill();
        let _ = child.wait();
    }
    for reader in readers {
        let _ = reader.join();
    }
    let question = format!("`watch` over {files} files {age}, nothing happens");
    let [first, second] = values;
    let row = |figure: &str, values| Row {
        question: question.clone(),
        figure: figure.to_owned(),
        values,
        unit: " %",
        budget: Some(0.1),
        is_floor: false,
    };
    vec![row("processor time", first), row("processor time, A/A", second)]
}
