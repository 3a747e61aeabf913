//! Everything that is kept: `index`, `ls`, `search`, `show`, `stats`, `forget`, on real sessions.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use common::{env, json, listed, run, serving::Serving, told};
use serde_json::{Value, json as value};
use subscope_model::Zone;
use subscope_render::style::Charset;
use subscope_testkit::{
    corpus::{self, Options},
    env::{Ran, TestEnv},
    fixtures::recording,
};

const SCENARIOS: [&str; 4] = ["k-big", "c-nested", "g-resume", "l-hostile-output"];

/// An environment with the sessions of several recordings.
fn filled() -> TestEnv {
    let env = env();
    for scenario in SCENARIOS {
        env.adopt(&recording("2.1.330", scenario));
    }
    env
}

fn answer(env: &TestEnv, words: &str) -> Value {
    let ran = run(env, words, &[]);
    assert_eq!(told(&ran), (0, ""), "{words}");
    json(&ran.stdout)
}

/// The tree of a session, a transcript of which was cut: that is all that it warns of.
fn tree_of_cut(env: &TestEnv, id: &str) -> Value {
    let ran = run(env, &format!("tree {id} --json"), &[]);
    let warnings: Vec<&str> = ran.stderr.lines().collect();
    let is_told =
        |line: &&str| line.ends_with(": a transcript was cut or replaced; what it said before stays known");
    assert!(ran.code == Some(0) && warnings.len() == 1 && is_told(&warnings[0]), "{}", ran.stderr);
    json(&ran.stdout)
}

fn answer_text(env: &TestEnv, words: &str) -> String {
    let ran = run(env, words, &[]);
    assert_eq!(told(&ran), (0, ""), "{words}");
    ran.stdout
}

fn sessions(env: &TestEnv) -> Vec<Value> {
    listed(answer(env, "ls --json -n 1000"))
}

#[test]
fn hits_are_filtered_by_what_they_are_and_counted() {
    let env = filled();
    let all = answer(&env, "search the --json -n 1000");
    let hits = |answer: &Value| answer["hits"].as_array().unwrap().clone();
    assert_eq!(all["total_floor"], false);
    assert!(all["total"].as_u64().unwrap() >= hits(&all).len() as u64);
    let tool = all["facets"]["tools"][0].clone();
    let only = answer(&env, &format!("search the --json -n 1000 --tool {}", tool["name"].as_str().unwrap()));
    assert_eq!((&only["total"], hits(&only).len() as u64), (&tool["hits"], tool["hits"].as_u64().unwrap()));
    assert!(hits(&only).iter().all(|hit| hit["tool"] == tool["name"]), "{only}");
    for kind in all["facets"]["kinds"].as_array().unwrap() {
        let name = kind["name"].as_str().unwrap();
        let ran = env.run(&["search", "the", "--json", "-n", "1000", "--kind", name]);
        let found = json(&ran.stdout);
        assert_eq!(found["total"], kind["hits"], "{name}");
        assert!(hits(&found).iter().all(|hit| hit["kind"] == *name), "{found}");
    }
    let failed = answer(&env, "search no* --json -n 1000 --failed");
    assert!(!hits(&failed).is_empty() && hits(&failed).iter().all(|hit| hit["failed"] == true), "{failed}");
    let project = all["facets"]["projects"][0]["name"].as_str().unwrap();
    assert_eq!(answer(&env, &format!("search the --json -n 1000 --project {project}")), all);
    let elsewhere = format!("search the --json --project {}", env.home().display());
    assert_eq!(answer(&env, &elsewhere)["total"], 0);
    let ran = run(&env, "search the --json --project /nowhere", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("/nowhere does not exist, and no session ran there"), "{}", ran.stderr);
    assert_eq!(answer(&env, "search the --json --since 2100-01-01T00:00:00Z")["total"], 0);
    assert_eq!(answer(&env, "search the --json -n 1000 --until 2100-01-01T00:00:00Z"), all);
    assert_eq!(env.run(&["search", "the", "--kind", "hue"]).code, Some(2));
    let lines = hits(&all).iter().filter(|hit| hit["excerpt"].as_str().unwrap().contains('\n')).count();
    assert!(lines > 0 && hits(&all).iter().all(|hit| !hit["snippet"].as_str().unwrap().contains('\n')));
}

#[test]
fn full_detail_shows_outputs_and_one_agent_shows_them_whole() {
    let env = filled();
    let recorded = recording("2.1.330", "k-big");
    let folder = recorded.folder.to_str().unwrap().to_owned();
    let shown = |detail: &str| env.run(&["tree", &folder, "--detail", detail]).success();
    let output = "stock.get(sku) ?? 0";
    assert!(shown("full").contains(output) && !shown("moderate").contains(output));
    assert!(shown("full").contains("more lines"), "{}", shown("full"));
    let agent = env.run(&["show", "a1b6675338c90d259"]).success();
    assert!(agent.contains(output) && !agent.contains("more line"), "{agent}");
    let brief = env.run(&["show", "a1b6675338c90d259", "--detail", "moderate"]).success();
    assert!(!brief.contains(output), "{brief}");
    let (a, b) = ("a1b6675338c90d259", other_agent(&env, "a1b6675338c90d259"));
    let diff = env.run(&["diff", &folder, &folder, "--agent-a", a, "--agent-b", &b, "--json"]);
    let diff = json(&diff.stdout);
    assert_eq!((&diff["a"]["agent_id"], &diff["b"]["agent_id"]), (&Value::from(a), &Value::from(b)));
    assert_eq!(
        (&diff["agents"][0]["a"]["id"], &diff["agents"][0]["depth"]),
        (&Value::from(a), &Value::from(0))
    );
}

/// Returns a subagent other than one, of the session that has it.
fn other_agent(env: &TestEnv, agent: &str) -> String {
    let folder = recording("2.1.330", "k-big").folder.to_str().unwrap().to_owned();
    let tree = json(&env.run(&["tree", &folder, "--json"]).stdout);
    let ids = tree["agents"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap());
    ids.skip(1).find(|id| *id != agent).unwrap().to_owned()
}

#[test]
fn lists_what_the_trees_say_and_reads_only_what_is_new() {
    let env = filled();
    let first = answer(&env, "index --json");
    assert_eq!((&first["sessions"], &first["problems"]), (&Value::from(SCENARIOS.len()), &Value::from(0)));
    assert_eq!(answer(&env, "index --json")["bytes"], 0);
    let rows = sessions(&env);
    assert_eq!(rows.len(), SCENARIOS.len());
    assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row["last_event_at_ms"].as_i64())));
    for row in &rows {
        let tree = answer(&env, &format!("tree --json {}", row["id"].as_str().unwrap()));
        for field in ["agents", "failed", "tool_calls", "usage", "cost_micro_usd"] {
            assert_eq!(row[field], tree["summary"][field], "{field}");
        }
        for field in ["id", "harness", "cwd", "title", "started_at_ms", "runs"] {
            assert_eq!(row[field], tree["session"][field], "{field}");
        }
        assert_eq!(row["status"], "ended");
    }
    let stats = answer(&env, "stats --json");
    let calls: i64 = rows.iter().map(|row| row["tool_calls"].as_i64().unwrap()).sum();
    assert_eq!(stats["total"]["tool_calls"], calls);
    let sum = |field: &str| rows.iter().map(|row| row.pointer(field).unwrap().as_i64().unwrap()).sum::<i64>();
    assert_eq!(stats["total"]["cost_micro_usd"], sum("/cost_micro_usd"));
    assert_eq!(stats["total"]["usage"]["total_tokens"], sum("/usage/total_tokens"));
    let page = answer(&env, "ls --json -n 2");
    assert!(page["next"].is_string());
    assert_eq!(listed(page), &rows[..2]);
}

/// Runs the program with variables.
fn run_with(env: &TestEnv, words: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = env.command();
    command.args(words.split_whitespace()).envs(variables.iter().copied());
    subscope_testkit::env::run(command, b"")
}

/// The number of agents by day of a zone, from the trees of all sessions.
fn agents_by_day(env: &TestEnv, zone: &Zone) -> BTreeMap<String, u64> {
    let mut days = BTreeMap::new();
    for row in sessions(env) {
        let tree = answer(env, &format!("tree --json {}", row["id"].as_str().unwrap()));
        for agent in tree["agents"].as_array().unwrap() {
            let day = zone.day_of(agent["started_at_ms"].as_i64().unwrap());
            *days.entry(Zone::date(day)).or_default() += u64::from(agent["id"] != "root");
        }
    }
    days
}

#[test]
fn days_are_those_of_the_zone_of_tz_or_of_the_settings() {
    let env = filled();
    answer(&env, "index --json");
    let mut seen = BTreeSet::new();
    // The setting comes first.
    for (tz, setting, expected) in [
        ("UTC", "", "UTC"),
        ("Pacific/Kiritimati", "", "Pacific/Kiritimati"),
        (":Asia/Kathmandu", "", "Asia/Kathmandu"),
        ("XST+9:30", "", "XST+9:30"),
        ("UTC", "Pacific/Niue", "Pacific/Niue"),
    ] {
        let wanted = agents_by_day(&env, &Zone::named(expected).unwrap());
        let variables: &[(&str, &str)] =
            if setting.is_empty() { &[("TZ", tz)] } else { &[("TZ", tz), ("SUBSCOPE_TIME_ZONE", setting)] };
        let asked = run_with(&env, "stats --json", variables);
        assert_eq!(told(&asked), (0, ""), "{expected}");
        let stats = json(&asked.stdout);
        assert_eq!(stats["time_zone"], expected);
        let days = stats["by_day"].as_array().unwrap().iter();
        let found: BTreeMap<String, u64> = days
            .map(|row| (row["name"].as_str().unwrap().to_owned(), row["agents"].as_u64().unwrap()))
            .collect();
        assert_eq!(found, wanted, "{expected}");
        let shown = run_with(&env, "stats", variables);
        assert!(shown.stdout.contains(&format!("days ({expected})")), "{}", shown.stdout);
        seen.insert(format!("{found:?}"));
    }
    assert!(seen.len() > 1, "the zones differ: {seen:?}");
    let asked = run_with(&env, "stats --json", &[("TZ", "Mars/Olympus")]);
    let warning = "TZ: \"Mars/Olympus\" is no time zone: times and days are those of UTC";
    assert!(asked.code == Some(0) && asked.stderr.contains(warning), "{}", asked.stderr);
    assert_eq!(json(&asked.stdout)["time_zone"], "UTC");
    let wrong = run_with(&env, "stats", &[("SUBSCOPE_TIME_ZONE", "Mars/Olympus")]);
    assert!(wrong.stderr.contains("\"Mars/Olympus\" is no time zone"), "{}", wrong.stderr);
}

#[test]
fn phrase_is_found_wherever_it_stands_and_counted() {
    let env = env();
    let prompt = |number: usize, text: &str| {
        let at = format!("2026-11-20T09:{:02}:{:02}.000Z", number / 60, number % 60);
        format!(
            r#"{{"type":"user","isSidechain":false,"message":{{"role":"user","content":"{text}"}},"uuid":"u{number}","parentUuid":null,"timestamp":"{at}","cwd":"/home/user/shop","sessionId":"s","version":"2.1.330","userType":"external"}}"#
        ) + "\n"
    };
    let mut lines = prompt(0, "alpha beta is here");
    (1..1_500).for_each(|number| lines += &prompt(number, &format!("alpha {number} zeta beta")));
    env.write("home/.claude/projects/-home-user-shop/s.jsonl", &lines);
    let phrase = |limit: &str| {
        let ran = env.run(&["search", "alpha beta", "--json", "-n", limit]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json(&ran.stdout)
    };
    for limit in ["1", "50", "1000"] {
        let found = phrase(limit);
        let hits = found["hits"].as_array().unwrap();
        assert_eq!((&found["total"], &found["total_floor"], hits.len()), (&value!(1), &value!(false), 1));
        assert_eq!(hits[0]["excerpt"], "alpha beta is here");
        assert_eq!(found["facets"]["kinds"][0]["hits"], 1);
    }
    assert_eq!(answer(&env, "search alpha beta --json")["total"], 1_500, "words are counted as words");
}

#[test]
fn finds_words_under_their_true_agents() {
    let env = filled();
    let truth = recording("2.1.330", "c-nested").truth();
    let deepest = truth.agents.iter().max_by_key(|agent| agent.depth).unwrap();
    let tree = answer(&env, &format!("tree --json {}", truth.session.id));
    let row = tree["agents"].as_array().unwrap().iter().find(|row| row["id"] == *deepest.id).unwrap().clone();
    let prompt: Vec<&str> = row["prompt"].as_str().unwrap().split_whitespace().take(4).collect();
    let phrase = prompt.join(" ");
    let ran = env.run(&["search", &phrase, "--json", "--session", &truth.session.id]);
    let hits = json(&ran.success());
    let hits = hits["hits"].as_array().unwrap();
    let own = hits.iter().find(|hit| hit["agent_id"] == *deepest.id && hit["kind"] == "prompt").unwrap();
    assert_eq!(own["session_id"], *truth.session.id);
    assert!(own["snippet"].as_str().unwrap().starts_with(&phrase), "{own}");
    // Its position has its text.
    let text = fs::read(own["path"].as_str().unwrap()).unwrap();
    let start = usize::try_from(own["offset"].as_u64().unwrap()).unwrap();
    let end = start + usize::try_from(own["bytes"].as_u64().unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<String>(&text[start..end]).unwrap(), row["prompt"].as_str().unwrap());

    let none = run(&env, "search zzzyyyxxx", &[]);
    assert_eq!(none.code, Some(1));
    assert_eq!(env.run(&["search", "?!", "--json"]).code, Some(2));
    let shown = run(&env, &format!("show {}", deepest.id), &[]);
    assert!(shown.stdout.contains(prompt[0]), "{}", shown.stdout);
    assert_eq!(answer(&env, &format!("show {} --json", deepest.id))["id"], *deepest.id);
    assert_eq!(run(&env, "show nobody", &[]).code, Some(1));
    let root = format!("show {}/root --json", &truth.session.id[..8]);
    assert_eq!(answer(&env, &root)["id"], "root");
}

#[test]
fn nothing_hostile_reaches_the_terminal() {
    let env = filled();
    for words in ["ls", "stats", "search the", "search evil", "search a*", "show a", "index"] {
        let ran = run(&env, words, &[]);
        // What is safe already is left as it is; a joiner inside an emoji belongs to it.
        for text in [&ran.stdout, &ran.stderr] {
            assert_eq!(subscope_render::safe::lines(text, Charset::Unicode), *text, "{words}");
        }
    }
}

#[test]
fn follows_growth_replacement_and_removal() {
    let env = filled();
    let before = sessions(&env);
    let truth = recording("2.1.330", "g-resume").truth();
    let main =
        env.home().join(".claude/projects/-home-user-shop").join(format!("{}.jsonl", truth.session.id));
    let row = |env: &TestEnv| sessions(env).into_iter().find(|row| row["id"] == *truth.session.id).unwrap();
    let whole = fs::read_to_string(&main).unwrap();
    let half: String =
        whole.lines().take(whole.lines().count() / 2).map(|line| format!("{line}\n")).collect();
    fs::write(&main, &half).unwrap();
    let calls = |row: &Value| row["tool_calls"].as_i64().unwrap();
    let known = before.iter().find(|row| row["id"] == *truth.session.id).map(calls);
    assert_eq!(Some(calls(&row(&env))), known, "a file that becomes shorter takes nothing back");
    let mut file = fs::OpenOptions::new().append(true).open(&main).unwrap();
    file.write_all(&whole.as_bytes()[half.len()..]).unwrap();
    assert_eq!(sessions(&env), before, "grown to what it was");
    // The harness deletes its files: stored sessions stay.
    fs::remove_file(&main).unwrap();
    assert_eq!(sessions(&env), before);
    fs::remove_dir_all(main.with_extension("")).unwrap();
    assert_eq!(sessions(&env), before);
    let kept = answer(&env, &format!("tree {} --json", &truth.session.id[..8]));
    assert_eq!(kept["agents"].as_array().unwrap().len(), truth.agents.len());
    let again = run(&env, "search the --json", &[]);
    assert_eq!(again.code, Some(0));
}

#[test]
fn forgotten_sessions_stay_away_until_they_go_on() {
    let env = filled();
    let truth = recording("2.1.330", "c-nested").truth();
    answer(&env, "index --json");
    let ran = run(&env, &format!("forget {}", truth.session.id), &[]);
    assert_eq!(ran.stdout, "1 session forgotten\n");
    let is_there = |env: &TestEnv| sessions(env).iter().any(|row| row["id"] == *truth.session.id);
    assert!(!is_there(&env));
    answer(&env, "index --json");
    assert!(!is_there(&env));
    let found = env.run(&["search", "the", "--json", "-n", "10000"]).stdout;
    assert!(!found.contains(&truth.session.id));
    let main =
        env.home().join(".claude/projects/-home-user-shop").join(format!("{}.jsonl", truth.session.id));
    let mut file = fs::OpenOptions::new().append(true).open(main).unwrap();
    file.write_all(b"\n").unwrap();
    assert!(is_there(&env));
    assert_eq!(run(&env, "forget nobody", &[]).code, Some(1));
    run(&env, "forget --before -1s", &[]);
    assert!(sessions(&env).is_empty());
}

#[test]
fn an_index_killed_at_any_moment_is_finished_by_the_next() {
    let env = env();
    let claude = env.home().join(".claude");
    for seed in 0..24 {
        corpus::on_disk(&Options { seed, agents: 3, ..Options::default() }, &claude).unwrap();
    }
    let [clean, kept] = ["clean", "kept"].map(|name| env.path(name).to_str().unwrap().to_owned());
    let (clean, kept) = (clean.as_str(), kept.as_str());
    let wanted = env.run(&["ls", "--json", "-n", "1000", "--store", clean]).success();
    let wanted = listed(json(&wanted));
    assert_eq!(wanted.len(), 24);
    for round in 0..12u64 {
        let mut child = env.command();
        child.args(["index", "--store", kept]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * 7));
        let _ = child.kill();
        child.wait().unwrap();
        // What was committed is whole: each session is there once, or not at all.
        let rows = env.run(&["ls", "--json", "-n", "1000", "--store", kept]);
        assert!(listed(json(&rows.stdout)) == wanted, "round {round}");
        if round % 3 == 0 {
            fs::remove_dir_all(kept).unwrap();
        }
    }
    let places = |store: &str| {
        let found = json(&env.run(&["search", "the", "--json", "-n", "100000", "--store", store]).stdout);
        let hits = found["hits"].as_array().unwrap().iter();
        // Hits of one second have no order.
        let mut places: Vec<String> = hits.map(|hit| format!("{}:{}", hit["path"], hit["offset"])).collect();
        places.sort();
        places
    };
    assert!(places(clean).len() >= 24);
    assert!(places(kept) == places(clean));
}

#[test]
fn what_is_kept_of_a_file_that_was_cut_to_nothing_is_shown() {
    let env = filled();
    let recording = recording("2.1.330", "c-nested");
    let id = recording.truth().session.id;
    let before = (sessions(&env), answer(&env, &format!("tree {id} --json"))["summary"].clone());
    let main = recording.mains()[0].strip_prefix(recording.projects()).unwrap().to_owned();
    env.write(&format!("home/.claude/projects/{}", main.display()), "");
    for _ in 0..2 {
        let ran = run(&env, &format!("tree {id} --json"), &[]);
        assert_eq!((ran.code, &json(&ran.stdout)["summary"]), (Some(0), &before.1), "{}", ran.stderr);
        // The index leaves its rows as they are.
        assert_eq!(sessions(&env), before.0);
    }
    env.adopt(&recording);
    assert_eq!(tree_of_cut(&env, &id)["summary"], before.1);
    assert_eq!(answer(&env, "index --json")["sessions"], 1, "it is read again once it is back");
}

/// All paths below a folder.
fn paths(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { paths(&path) } else { BTreeSet::new() }.into_iter().chain([path]))
        .collect()
}

/// Ids of the list of `ls` with some options.
fn listed_with(env: &TestEnv, options: &str) -> Vec<String> {
    let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
    listed(answer(env, &format!("ls --json -n 1000 {options}"))).iter().map(id).collect()
}

#[test]
fn lists_are_ordered_and_filtered_alike_with_a_hub_and_without() {
    let env = filled();
    env.adopt(&recording("2.1.330", "e-denied"));
    let check = || {
        let all = sessions(&env);
        assert_eq!(all.len(), SCENARIOS.len() + 1);
        let ids = |rows: &[Value]| {
            rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let figure = |row: &Value, name: &str| row[name].as_i64().unwrap();
        for (order, name) in [("cost", "cost_micro_usd"), ("calls", "tool_calls"), ("errors", "tool_errors")]
        {
            let mut sorted = all.clone();
            sorted.sort_by_key(|row| (-figure(row, name), row["id"].to_string()));
            assert_eq!(listed_with(&env, &format!("--sort {order}")), ids(&sorted), "{order}");
        }
        let denied: Vec<Value> = all.iter().filter(|row| figure(row, "tools_denied") > 0).cloned().collect();
        assert_eq!((listed_with(&env, "--denied"), denied.len()), (ids(&denied), 1));
        let shown = answer_text(&env, "ls --denied");
        let (head, row) = shown.split_once('\n').unwrap();
        assert!(
            head.contains("denied") && row.contains(&figure(&denied[0], "tools_denied").to_string()),
            "{shown}"
        );
        let last = figure(&all[1], "last_event_at_ms");
        assert_eq!(listed_with(&env, &format!("--since {last}")), ids(&all[..2]));
        let total = all.len();
        for words in ["ls -n 2", "ls -n 2 --sort cost"] {
            let expected = format!("2 of {total} sessions; -n {total} lists all");
            let ran = run(&env, words, &[]);
            assert!(ran.stderr.contains(&expected), "{words}: {}", ran.stderr);
        }
        let first = all.iter().map(|row| figure(row, "started_at_ms")).min().unwrap();
        assert_eq!(listed_with(&env, &format!("--until {}", first + 1)).len(), 1);
        let folder = all[0]["cwd"].as_str().unwrap();
        assert_eq!(listed_with(&env, &format!("--project {folder}")), ids(&all));
        assert_eq!(listed_with(&env, "--project / --failed --denied"), [""; 0]);
        for (words, expected) in [
            ("ls --harness claud", "no session is of a harness \"claud\"; did you mean claude-code?"),
            ("stats --harness codexx", "did you mean codex?"),
            ("ls --project /nowhere", "/nowhere does not exist, and no session ran there"),
            ("stats --project /nowhere", "/nowhere does not exist, and no session ran there"),
            ("ls --sort price", "[possible values: newest, cost,"),
        ] {
            let ran = run(&env, words, &[]);
            assert!(ran.code != Some(0) && ran.stderr.contains(expected), "{words}: {}", ran.stderr);
        }
        // A harness that is known, and a folder that exists, have no sessions here: that is an answer.
        assert_eq!(
            (listed_with(&env, "--harness codex").len(), listed_with(&env, "--project /usr").len()),
            (0, 0)
        );
    };
    check();
    let serving = Serving::start(&env, "");
    serving.has_read();
    check();
    let ran = run(&env, "index /nowhere", &[]);
    assert_eq!(told(&ran).0, 1);
    assert!(ran.stderr.contains("cannot read /nowhere"), "{}", ran.stderr);
}

#[test]
fn questions_on_a_fresh_machine_leave_nothing_behind() {
    // Commands that ask and change nothing, with their exit codes.
    const QUESTIONS: [(&str, i32); 35] = [
        ("ls", 0),
        ("ls --live --json", 0),
        ("ls --iterations", 0),
        ("status", 0),
        ("status --json", 0),
        ("status --session 59d3", 1),
        ("stats", 0),
        ("stats --json", 0),
        ("search word", 1),
        ("search word --json", 0),
        ("search word --session 59d3", 1),
        ("show a1", 1),
        ("tree last", 1),
        ("tree 59d3", 1),
        ("tree nothing.jsonl", 1),
        ("diff last 59d3", 1),
        ("watch 59d3", 1),
        ("replay last --plain", 1),
        ("export last --as feed", 1),
        ("export 59d3 --as html", 1),
        ("import nothing.jsonl --dry-run", 1),
        ("stop a1", 1),
        ("serve --stop", 1),
        ("hooks status", 0),
        ("hooks status --json", 0),
        ("hooks remove", 0),
        ("config", 0),
        ("config path", 0),
        ("config schema", 0),
        ("doctor", 0),
        ("doctor --json", 0),
        ("completions bash", 0),
        ("man", 0),
        ("mcp query", 0),
        ("demo --plain --speed 10000", 0),
    ];
    let question = value!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "list_sessions", "arguments": {}}});
    let asked = [
        value!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "sh", "version": "0"}}}),
        value!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        question,
    ];
    let asked = asked.map(|line| format!("{line}\n")).concat();
    for starts_hubs in [false, true] {
        let env = env();
        let before = paths(env.root());
        for (words, code) in QUESTIONS {
            let mut command = env.command();
            command.args(words.split(' '));
            if starts_hubs {
                command.env_remove("SUBSCOPE_NO_AUTOSTART");
            }
            let stdin = if words == "mcp query" { asked.as_str() } else { "" };
            let ran = subscope_testkit::env::run(command, stdin.as_bytes());
            assert_eq!(ran.code, Some(code), "{words}: {}{}", ran.stdout, ran.stderr);
            let made: Vec<_> = paths(env.root()).difference(&before).cloned().collect();
            assert!(made.is_empty(), "{words} makes {made:?}");
        }
    }
}

#[test]
fn status_creates_no_folder_and_a_list_of_none_says_nothing() {
    let env = filled();
    assert_eq!(run(&env, "status", &[]).success(), "no agents\n");
    assert!(!env.path("data").join("subscope").exists());
    let none = run(&env, "ls -n 0", &[]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (Some(0), "", ""));
}

#[test]
fn link_to_a_project_folder_is_named() {
    let env = env();
    let folder = env.path("elsewhere");
    fs::create_dir(&folder).unwrap();
    let main = &recording("2.1.330", "a-single").mains()[0];
    fs::copy(main, folder.join(main.file_name().unwrap())).unwrap();
    fs::create_dir_all(env.home().join(".claude/projects")).unwrap();
    std::os::unix::fs::symlink(&folder, env.home().join(".claude/projects/-linked")).unwrap();
    assert!(run(&env, "index", &[]).stderr.contains("-linked: a symbolic link to a folder, not followed"));
    assert!(run(&env, "doctor", &[]).stdout.contains("1 symbolic link to folders not followed"));
    run(&env, "index", &[&folder]).success();
    assert_eq!(sessions(&env).len(), 1);
}

#[test]
fn nothing_yet_is_no_failure() {
    let env = env();
    for step in 0..2 {
        if step == 1 {
            fs::create_dir_all(env.home().join(".claude/projects/-empty")).unwrap();
        }
        for words in ["ls", "stats", "status", "index", "ls --live"] {
            assert_eq!(run(&env, words, &[]).code, Some(0), "{words}");
        }
    }
}

#[test]
fn a_status_line_is_one_safe_line() {
    let env = filled();
    let ran = run(&env, "status", &[]);
    assert_eq!((told(&ran), ran.stdout.as_str()), ((0, ""), "no agents\n"));
    let truth = recording("2.1.330", "k-big").truth();
    // As Claude Code asks for its status line.
    let input = format!(r#"{{"session_id":"{}","model":{{"id":"x"}}}}"#, truth.session.id);
    let ran = env.run_with_stdin(&["status"], input.as_bytes());
    assert!(
        ran.stdout.starts_with("no agents - $") || ran.stdout.starts_with("no agents · $"),
        "{}",
        ran.stdout
    );
    assert_eq!(env.run(&["status", "--session", "nobody"]).code, Some(1));
    let status = answer(&env, "status --json");
    assert_eq!((&status["running"], &status["schema"]), (&0.into(), &"subscope.status/1".into()));
}
