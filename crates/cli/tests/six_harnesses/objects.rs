//! A session of objects and of rows in a database is found by each of its paths.

use subscope_testkit::{fixtures, others::differences};

use crate::{
    common::{env, json as parsed},
    home::{recorded, write},
};

const RECORDING: &str = "cline/3.0.65/two_parallel";

#[test]
fn each_path_of_a_session_of_rows_and_objects_is_the_session() {
    let env = env();
    let recording = recorded(RECORDING);
    let session = recording.truth["session"]["id"].as_str().unwrap();
    for file in fixtures::files_below(&recording.on_disk) {
        let below = file.strip_prefix(&recording.on_disk).unwrap();
        write(&env.path("copy").join(below), &fixtures::bytes(&file));
    }
    let folder = format!("sessions/{session}");
    let targets = [
        folder.clone(),
        format!("{folder}/{session}.json"),
        format!("{folder}/{session}.messages.json"),
        "db/sessions.db".to_owned(),
        format!("db/sessions.db/{session}"),
        String::new(),
    ];
    for target in targets {
        let path = env.path("copy").join(&target).display().to_string();
        let tree = parsed(&env.run(&["tree", path.trim_end_matches('/'), "--json"]).success());
        assert_eq!(differences(&tree, &recording.truth, true), [""; 0], "{target}");
    }
}
