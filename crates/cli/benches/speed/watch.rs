//! `watch`: from a line's being written to its being shown, and the cost of waiting.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::sync_channel,
    time::Duration,
};

use subscope_testkit::corpus;

use crate::rounds::{Row, now};

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
    let p99 = sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    let row = |figure: &str, values, budget| Row {
        question: "`watch` shows a line after its being written".to_owned(),
        figure: figure.to_owned(),
        values,
        unit: " ms",
        budget,
    };
    vec![row("delay", times, Some(5.0)), row("99th percentile", vec![p99], None)]
}

/// The processor time of a watch over idle files in which nothing happens.
pub(crate) fn idle(program: &Path, files: usize, seconds: u64) -> Vec<Row> {
    let home = tempfile::tempdir().expect("a temporary folder");
    corpus::idle_files(&home.path().join(".claude"), files / 2).expect("room for small files");
    let mut child = watch(program, home.path(), &["--json"]);
    std::thread::sleep(Duration::from_secs(3));
    let stat = format!("/proc/{}/stat", child.id());
    let before = ticks(&stat);
    std::thread::sleep(Duration::from_secs(seconds));
    let spent = ticks(&stat) - before;
    let _ = child.kill();
    let _ = child.wait();
    // A tick is 10 ms on every Linux this runs on.
    let percent = spent as f64 / seconds as f64;
    vec![Row {
        question: format!("`watch` over {files} idle files, {seconds} s in which nothing happens"),
        figure: "processor time".to_owned(),
        values: vec![percent],
        unit: " %",
        budget: Some(0.1),
    }]
}

fn ticks(stat: &str) -> u64 {
    let text = fs::read_to_string(stat).expect("watch still runs");
    let rest = text.rsplit(')').next().unwrap_or_default();
    let field = |number: usize| {
        rest.split_whitespace().nth(number).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    field(11) + field(12)
}
