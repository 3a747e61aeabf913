//! A killed and repeated index, of new and of grown files, equals an undisturbed one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use subscope_hub::clock;
use subscope_testkit::{
    corpus::{self, Dialects, Options},
    env::TestEnv,
    fixtures::recording,
    random::Random,
};

use crate::{
    common::env,
    kept::{data, difference, indexed, is_whole},
    kill_within, random, rounds,
};

/// Search terms: words of the recordings.
const WORDS: [&str; 5] = ["the", "pricing", "read", "error", "test*"];

const PROJECTS: &str = ".claude/projects";

/// All files below a folder, relative to it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { left.push(path) } else { all.push(path) }
        }
    }
    all.sort();
    all.iter().map(|path| path.strip_prefix(folder).unwrap().to_owned()).collect()
}

/// Real sessions and made ones.
fn fill(env: &TestEnv) {
    for scenario in ["k-big", "c-nested", "g-resume", "b-parallel", "m-twenty-bg"] {
        env.adopt(&recording("2.1.330", scenario));
    }
    for seed in 0..6 {
        let options = Options {
            seed,
            turns: 30,
            root_turns: 40,
            result_bytes: 5_000,
            cwd: format!("/home/user/made-{}", seed % 2),
            dialects: Dialects::Transcripts,
            ..Options::default()
        };
        corpus::on_disk(&options, &env.home().join(".claude")).unwrap();
    }
}

/// Copies as much of each file as has been written by now: all of it, a part cut anywhere, or nothing.
fn copy_some(from: &Path, to: &Path, random: &mut Random) {
    for file in files(from) {
        let bytes = fs::read(from.join(&file)).unwrap();
        let until = match random.below(3) {
            0 => continue,
            1 => random.below(bytes.len() as u64) as usize,
            _ => bytes.len(),
        };
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, &bytes[..until]).unwrap();
    }
}

/// Appends to all files until they are complete, as a harness does.
fn copy_rest(from: &Path, to: &Path) {
    for file in files(from) {
        let bytes = fs::read(from.join(&file)).unwrap();
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let mut open = fs::OpenOptions::new().create(true).append(true).open(&target).unwrap();
        let known = usize::try_from(open.metadata().unwrap().len()).unwrap();
        std::io::Write::write_all(&mut open, &bytes[known..]).unwrap();
    }
}

/// Begins to index and kills it within a span; returns whether it was still at work.
fn index_and_kill(env: &TestEnv, span: Duration, random: &mut Random) -> bool {
    let mut command = env.command();
    command.arg("index").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let was_alive = kill_within(&mut command.spawn().unwrap(), span, random);
    is_whole(&data(env));
    was_alive
}

fn index(env: &TestEnv) -> Value {
    let ran = env.run(&["index", "--json"]);
    assert_eq!(ran.stderr, "");
    serde_json::from_str(&ran.success()).unwrap()
}

#[test]
fn index_after_any_kill_is_that_of_an_undisturbed_one() {
    let undisturbed = env();
    fill(&undisturbed);
    let began = clock::tick();
    index(&undisturbed);
    let span = began.elapsed();
    println!("an undisturbed index takes {} ms", span.as_millis());
    let expected = indexed(&undisturbed, &WORDS);
    assert!(expected["rows"].as_array().unwrap().len() >= 11);
    assert!(WORDS.iter().all(|word| !expected["found"][word].as_array().unwrap().is_empty()));
    let mut random = random();
    let (mut kills, mut in_vain) = (0, 0);
    let rounds = rounds(8);
    let from = undisturbed.home().join(PROJECTS);
    while kills < rounds {
        let env = env();
        let to = env.home().join(PROJECTS);
        // Cold, warm, and warm again with all files complete.
        copy_some(&from, &to, &mut random);
        for is_last in [false, true] {
            if is_last {
                copy_rest(&from, &to);
            }
            for _ in 0..=random.below(2) {
                if index_and_kill(&env, span * 2 / 3, &mut random) { kills += 1 } else { in_vain += 1 }
            }
            if !is_last && random.below(2) == 0 {
                index(&env);
            }
        }
        index(&env);
        assert_eq!(difference(&indexed(&env, &WORDS), &expected), None);
        assert_eq!(index(&env)["bytes"], 0, "nothing is left to read");
    }
    println!(
        "{kills} kills while indexing, cold and warm ({in_vain} came too late): the same rows, figures and words; every store whole"
    );
}
