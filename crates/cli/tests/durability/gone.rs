//! A data folder that is removed or replaced under a hub that runs: it takes nothing more, leaves, and the next one
//! ingests what was spooled meanwhile.

use std::{fs, io::ErrorKind, net::TcpStream, path::Path, thread, time::Duration};

use subscope_hub::clock;
use subscope_testkit::env::TestEnv;

use crate::{
    common::{
        env,
        serving::{LIMIT, Serving, posting},
    },
    ingest::is_taken,
    kept::{data, is_whole},
};

fn call(name: &str) -> String {
    format!(
        r#"{{"session_id":"s","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"{name}","tool_input":{{"file_path":"/x"}}}}"#
    )
}

fn post(address: &str, name: &str) -> bool {
    let delivery = format!("x-subscope-delivery: {name}\r\n");
    let request = posting(address, "/hooks/claude", &delivery, call(name).as_bytes());
    TcpStream::connect(address).is_ok_and(|stream| is_taken(stream, &request))
}

/// Which calls the log has, in order of their names.
fn calls(serving: &Serving) -> Vec<String> {
    let (status, log) = serving.get("/api/v1/sessions/s/events?limit=10000");
    if status != 200 {
        return Vec::new();
    }
    let log: serde_json::Value = serde_json::from_str(&log).unwrap();
    let events = log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "tool.pre");
    let mut names: Vec<String> =
        events.map(|event| event["data"]["tool_use_id"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Removes the store of a running hub; checks that it exits and that the next one has everything that was spooled, in
/// addition to `kept`.
fn hub_leaves(env: &TestEnv, break_it: impl FnOnce(&Path), kept: &[&str]) {
    let mut serving = Serving::start(env, "");
    assert!(post(&serving.address, "before"));
    assert_eq!(calls(&serving), ["before"]);
    break_it(&data(env));
    // Refused, or the hub has exited already. Input that only that hub knew is no longer a repeat.
    assert!(!post(&serving.address, "refused"));
    assert!(!post(&serving.address, "before"));
    let mut expected: Vec<String> = kept.iter().map(|name| (*name).to_owned()).collect();
    for number in 0..20 {
        let name = format!("spooled-{number:02}");
        let ran = env.run_with_stdin(&["hook"], call(&name).as_bytes());
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
        expected.push(name);
    }
    let began = clock::tick();
    let status = loop {
        match serving.child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(began.elapsed() < LIMIT, "it does not leave"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    let errors = serving.errors.take().unwrap().join().unwrap();
    assert_eq!(status.code(), Some(1), "{errors}");
    let said = format!("the store in {} was removed or replaced while it was open", data(env).display());
    assert!(errors.contains(&said), "{errors}");
    let next = Serving::start(env, "");
    let began = clock::tick();
    while calls(&next) != expected {
        assert!(began.elapsed() < LIMIT, "{:?}", calls(&next));
        thread::sleep(Duration::from_millis(50));
    }
    next.end("-TERM");
    is_whole(&data(env));
}

#[test]
fn hub_whose_folder_is_deleted_takes_nothing_more_and_the_next_one_takes_the_spool() {
    // The hub may just have made a file in it.
    let delete = |folder: &Path| {
        while let Err(error) = fs::remove_dir_all(folder) {
            assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty, "{error}");
        }
    };
    hub_leaves(&env(), delete, &[]);
}

#[test]
fn hub_whose_folder_is_replaced_leaves_the_spool_of_the_other_alone() {
    let env = env();
    let copy = |folder: &Path| {
        let old = folder.with_file_name("old");
        fs::rename(folder, &old).unwrap();
        fs::create_dir(folder).unwrap();
        for entry in fs::read_dir(&old).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
            }
        }
    };
    hub_leaves(&env, copy, &["before"]);
}

#[test]
fn hub_whose_database_is_deleted_leaves() {
    let delete = |folder: &Path| {
        for name in ["store.db", "store.db-wal", "store.db-shm"] {
            fs::remove_file(folder.join(name)).unwrap();
        }
    };
    hub_leaves(&env(), delete, &[]);
}
