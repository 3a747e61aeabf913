//! Records of iterations.

use serde_json::{Value, json as value};

use super::*;

fn records(env: &TestEnv) -> Vec<Value> {
    let list = json(&env.run(&["ls", "--iterations", "--json"]).success());
    assert_eq!(list["schema"], "subscope.iterations/1");
    list["iterations"].as_array().unwrap().clone()
}

#[test]
fn each_iteration_has_a_record_that_tree_and_export_read() {
    let env = env();
    let file = printed(&env, "b-parallel");
    let script = format!("cat {}; echo told >&2; exit 2", file.display());
    let ran = run(&env, "--no-store --iterations 2 --name beads-123/sub:test", &["sh", "-c", &script]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stdout.as_bytes(), stream("b-parallel").repeat(2));
    assert!(ran.stderr.contains("iteration 2 of 2: ") && ran.stderr.contains("told\n"), "{}", ran.stderr);
    let all = records(&env);
    assert_eq!(all.len(), 2);
    let direct = json(&env.run_with_stdin(&["tree", "-", "--json"], &stream("b-parallel")).success());
    for (row, number) in all.iter().zip([2, 1]) {
        assert_eq!(
            (&row["iteration"], &row["exit_code"], &row["status"]),
            (&number.into(), &2.into(), &"failed".into())
        );
        let folder = PathBuf::from(row["folder"].as_str().unwrap());
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with(&row["session_id"].as_str().unwrap()[..8])
                && name.contains("_beads-123-sub-test"),
            "{name}"
        );
        assert_eq!(fs::read(folder.join("stdout.log")).unwrap(), stream("b-parallel"));
        assert_eq!(fs::read_to_string(folder.join("stderr.log")).unwrap(), "told\n");
        let trace: Value = serde_json::from_slice(&fs::read(folder.join("trace.json")).unwrap()).unwrap();
        assert_eq!(trace["stats"]["totalSubagents"], 3);
        let target = folder.to_str().unwrap();
        let tree = json(&env.run(&["tree", target, "--json"]).success());
        assert_eq!(agents(&tree), agents(&direct));
        let export = json(&env.run(&["export", target, "--as", "trace"]).success());
        assert_eq!(export["stats"]["totalSubagents"], 3);
    }
    let folders: Vec<&str> = all.iter().map(|row| row["folder"].as_str().unwrap()).collect();
    let diff = json(&env.run(&["diff", folders[1], folders[0], "--json"]).success());
    let pairs = diff["agents"].as_array().unwrap();
    assert!(pairs.len() == 4 && pairs.iter().all(|pair| pair["a"]["id"] == pair["b"]["id"]), "{diff}");
    let listed = env.run(&["ls", "--iterations"]).success();
    assert!(listed.lines().count() >= 2 && listed.contains("beads-123/sub:test"), "{listed}");
    assert!(listed.lines().all(|line| line.contains("3 agents")), "{listed}");
    for row in &all {
        let took = row["ended_at_ms"].as_i64().unwrap() - row["started_at_ms"].as_i64().unwrap();
        let figures = [&row["agents"], &row["failed"], &row["duration_ms"]];
        assert_eq!(figures.map(|figure| figure.as_i64().unwrap())[..2], [3, 0], "{row}");
        assert_eq!(row["duration_ms"], took);
    }
}

#[test]
fn until_success_ends_with_the_first_that_succeeds() {
    let env = env();
    let count = env.path("work/count");
    let script = format!("echo x >>{0}; [ $(wc -l <{0}) -ge 3 ]", count.display());
    let ran = run(&env, "--no-store --until-success --iterations 5", &["sh", "-c", &script]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let statuses: Vec<Value> = records(&env).iter().map(|row| row["status"].clone()).collect();
    assert_eq!(statuses, ["completed", "failed", "failed"]);
    let never = run(&env, "--no-store --until-success --iterations 2 --log-dir elsewhere", &["false"]);
    assert_eq!((never.code, records(&env).len()), (Some(1), 3));
    let listed = env.run(&["ls", "--iterations", "--log-dir", "elsewhere", "--json"]).success();
    assert_eq!(json(&listed)["iterations"].as_array().unwrap().len(), 2);
}

#[test]
fn records_survive_a_kill_in_the_third_of_five() {
    let env = env();
    let file = printed(&env, "b-parallel");
    let part = String::from_utf8(stream("b-parallel")).unwrap();
    let part: String = part.split_inclusive('\n').take(12).collect();
    let part = env.write("work/part.jsonl", part);
    let count = env.path("work/count");
    let script = format!(
        "echo x >>{0}; if [ $(wc -l <{0}) -lt 3 ]; then cat {1}; else cat {2}; exec sleep 300; fi",
        count.display(),
        file.display(),
        part.display()
    );
    let mut command = env.command();
    command.args(["run", "--no-store", "--iterations", "5", "--", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let began = clock::tick();
    let third = loop {
        assert!(began.elapsed() < LIMIT, "the third has no trace");
        thread::sleep(Duration::from_millis(20));
        let third = records(&env).into_iter().find(|row| row["iteration"] == 3);
        let folder = third.and_then(|row| row["folder"].as_str().map(PathBuf::from));
        if let Some(folder) = folder.filter(|folder| folder.join("trace.json").exists()) {
            break folder;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let all = records(&env);
    let stands: Vec<(Value, Value)> =
        all.iter().map(|row| (row["iteration"].clone(), row["status"].clone())).collect();
    assert_eq!(value!(stands), value!([[3, "cut"], [2, "completed"], [1, "completed"]]));
    let trace: Value = serde_json::from_slice(&fs::read(third.join("trace.json")).unwrap()).unwrap();
    assert!(trace["stats"]["totalSubagents"].as_u64().unwrap() > 0, "{trace}");
    let tree = json(&env.run(&["tree", third.to_str().unwrap(), "--json"]).success());
    assert!(
        agents(&tree).len() > 1 && agents(&tree).iter().skip(1).all(|(_, status)| status != "completed"),
        "{tree}"
    );
    // What it left running is not ours to end; its pipe is gone.
    for row in &all[1..] {
        let tree = json(&env.run(&["tree", row["folder"].as_str().unwrap(), "--json"]).success());
        assert_eq!(tree["summary"]["completed"], 3);
    }
}
