//! Detection rate and false positives of redaction: samples in all contexts of a text, and all recordings.

#![allow(clippy::unwrap_used)]

use std::{fs, io::Write, path::Path, slice};

use serde_json::{Value, json};
use subscope_export::Redacted;
use subscope_testkit::{
    fixtures,
    secrets::{left_in, look_alikes, secrets},
};

/// Masks a value as in JSON exports.
fn masked(value: &Value) -> Value {
    let mut out = Redacted::new(Vec::new());
    out.write_all(value.to_string().as_bytes()).unwrap();
    serde_json::from_slice(&out.finish().unwrap()).unwrap()
}

fn masked_text(text: &str) -> String {
    masked(&json!(text)).as_str().unwrap().to_owned()
}

/// Name of a context, and the function that puts a text into it.
type TextContext = (&'static str, fn(&str) -> String);

const CONTEXTS: [TextContext; 9] = [
    ("alone", str::to_owned),
    ("in a sentence", |text| format!("He said: {text} and went on.")),
    ("behind a line end", |text| format!("first\n{text}\nlast")),
    ("behind a line end of Windows", |text| format!("first\r\n{text}\r\nlast")),
    ("in a string of JSON", |text| json!({ "content": format!("first\n{text}\nlast") }).to_string()),
    ("in JSON in JSON", |text| {
        json!({ "a": json!({ "b": format!("first\n{text}\n") }).to_string() }).to_string()
    }),
    ("behind two letters for a line end", |text| format!(r"first\n{text}\nlast")),
    ("coloured", |text| format!("\u{1b}[32m{text}\u{1b}[0m")),
    ("numbered, in a table of markup", |text| format!("     7→{text}\n<td>x</td>")),
];

#[test]
fn nearly_every_secret_is_masked_wherever_it_stands() {
    let samples = secrets();
    assert!(samples.len() >= 60);
    let mut missed = Vec::new();
    for sample in &samples {
        for (place, put) in CONTEXTS {
            let text = put(&sample.text);
            let out = masked_text(&text);
            if !left_in(slice::from_ref(sample), &out).is_empty() {
                missed.push(format!("{} {place}: {out}", sample.name));
            }
        }
    }
    let tried = samples.len() * CONTEXTS.len();
    let recall = 1.0 - missed.len() as f64 / tried as f64;
    println!("recall {:.1} % of {tried}; missed {missed:#?}", recall * 100.0);
    assert!(recall >= 0.98, "{recall} {missed:#?}");
}

#[test]
fn hardly_anything_is_masked_that_only_looks_like_a_secret() {
    let texts = look_alikes();
    assert!(texts.len() >= 60);
    let mut wrong = Vec::new();
    for text in &texts {
        for (place, put) in CONTEXTS {
            let text = put(text);
            let out = masked_text(&text);
            if out != text {
                wrong.push(format!("{place}: {text}\n    {out}"));
            }
        }
    }
    let share = wrong.len() as f64 / (texts.len() * CONTEXTS.len()) as f64;
    println!("false alarms {:.1} %: {wrong:#?}", share * 100.0);
    assert!(share <= 0.02, "{share} {wrong:#?}");
}

/// Collects the strings of a value that are masked.
fn alarms(before: &Value, after: &Value, strings: &mut usize, found: &mut Vec<String>) {
    match (before, after) {
        (Value::String(before), Value::String(after)) => {
            *strings += 1;
            if before != after {
                found.push(after.clone());
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            before.iter().zip(after).for_each(|(before, after)| alarms(before, after, strings, found));
        }
        (Value::Object(before), Value::Object(after)) => {
            assert!(before.keys().eq(after.keys()), "a key is masked");
            before
                .values()
                .zip(after.values())
                .for_each(|(before, after)| alarms(before, after, strings, found));
        }
        _ => {}
    }
}

fn files(folder: &Path, all: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            all.push(path);
        }
    }
}

#[test]
fn nothing_of_the_recordings_is_taken_for_a_secret() {
    let mut all = Vec::new();
    files(&fixtures::root(), &mut all);
    let (mut strings, mut found) = (0, Vec::new());
    for path in &all {
        let text = fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&text);
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let mut own = Vec::new();
            alarms(&line, &masked(&line), &mut strings, &mut own);
            // One recording contains a fake key.
            own.retain(|text| !text.contains("AWS_ACCESS_KEY_ID=[redacted]"));
            found.extend(own.iter().map(|text| {
                let at = text.find("[redacted]").unwrap_or(0);
                let around: String = text[..at].chars().rev().take(80).collect();
                let behind: String = text[at..].chars().take(60).collect();
                format!("{}: {}{behind}", path.display(), around.chars().rev().collect::<String>())
            }));
        }
    }
    println!("{strings} strings, {} masked", found.len());
    assert!(strings > 10_000);
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{} of {strings}: {found:#?}", found.len());
}
