//! Budgets: the hub publishes one alert for each mark that a session or a day passes, even if it is killed meanwhile.

use super::*;

/// The alerts among lines of `watch --json`: scope and percent, with what it had cost.
fn alerts(watching: &Going) -> Vec<(String, u64, i64)> {
    let events = watching.seen.iter().map(|line| json(line)).filter(|event| event["kind"] == "budget");
    events
        .map(|event| {
            let data = &event["data"];
            let (scope, percent) = (data["scope"].as_str().unwrap(), data["percent"].as_u64().unwrap());
            let day = data["day"].as_str().map(str::to_owned);
            let zone = data["time_zone"].as_str().map(|zone| Zone::named(zone).unwrap());
            let of_zone = zone.map(|zone| Zone::date(zone.day_of(event["at_ms"].as_i64().unwrap())));
            assert_eq!((day.is_some(), of_zone), (scope == "day", day), "{event}");
            assert_eq!(event["session_id"] == "", scope == "day", "{event}");
            (scope.to_owned(), percent, data["cost_micro_usd"].as_i64().unwrap())
        })
        .collect()
}

#[test]
fn each_passed_mark_is_published_once_even_if_the_hub_is_killed() {
    let (hubs, recording) = (Hubs::new(), recording("2.1.330", "k-big"));
    fs::create_dir_all(hubs.env.home().join(".claude/projects")).unwrap();
    let mut growing = Growing::of(&hubs.env, &recording);
    let total = growing.0.len();
    let zone = far_zone();
    // The recording costs $0.75.
    let mut command = hubs.command("watch --json");
    command.env("SUBSCOPE_BUDGET_SESSION", "0.3").env("SUBSCOPE_BUDGET_DAY", "0.5").env("TZ", zone);
    let mut watching = Going::start(command);
    until("the watcher is there", || {
        hubs.env.run(&["status", "--json"]).code == Some(0) && readers(&hubs) > 0
    });
    growing.write(total * 2 / 3);
    watching.until(|line| line.contains(r#""kind":"budget""#) && line.contains(r#""percent":100"#));
    hubs.processes().into_iter().for_each(kill);
    growing.write(total);
    watching.until(|line| line.contains(r#""kind":"run.end""#));
    watching.until(|line| line.contains(r#""scope":"day""#) && line.contains(r#""percent":100"#));
    // Derived again several times: no alert is repeated.
    let began = clock::tick();
    while began.elapsed() < Duration::from_secs(2) {
        watching.seen.extend(watching.lines.recv_timeout(Duration::from_millis(50)));
    }
    let alerts = alerts(&watching);
    for (scope, budget) in [("session", 300_000), ("day", 500_000)] {
        let marks: Vec<u64> =
            alerts.iter().filter(|(of, ..)| of == scope).map(|(_, mark, _)| *mark).collect();
        assert!(marks == [80, 100] || marks == [100], "{scope}: {marks:?}");
        let reached = |(of, mark, cost): &(String, u64, i64)| {
            of != scope || i128::from(*cost) * 100 >= i128::from(budget) * i128::from(*mark)
        };
        assert!(alerts.iter().all(reached), "{alerts:?}");
    }
    let zones = watching.seen.iter().map(|line| json(line)["data"]["time_zone"].clone());
    let zones: BTreeSet<String> = zones.filter_map(|zone| zone.as_str().map(str::to_owned)).collect();
    assert!(zones.iter().eq([zone]), "{zones:?}");
    watching.end();
}

/// A zone in which it is another day than in UTC.
fn far_zone() -> &'static str {
    let hour = clock::now_ms() / 3_600_000 % 24;
    if hour < 11 { "Pacific/Niue" } else { "Pacific/Kiritimati" }
}

/// The newest session as `ls` lists it.
fn session(hubs: &Hubs) -> Value {
    json(&hubs.env.run(&["ls", "--json"]).success())["sessions"][0].clone()
}

#[test]
fn alerts_say_at_least_where_a_model_has_no_price() {
    for model in ["claude-opus-5-5", "model-without-a-price"] {
        let (hubs, recording) = (Hubs::new(), recording("2.1.330", "k-big"));
        fs::create_dir_all(hubs.env.home().join(".claude/projects")).unwrap();
        let mut growing = Growing::of(&hubs.env, &recording);
        // The total that the harness itself gives would be known.
        growing.0.retain(|(_, _, line)| !line.contains("cost-state"));
        // Only the main agent's: the others' costs are known.
        for (_, path, line) in &mut growing.0 {
            if !path.components().any(|part| part.as_os_str() == "subagents") {
                *line = line.replace(r#""model":"claude-opus-5-5""#, &format!(r#""model":"{model}""#));
            }
        }
        let mut command = hubs.command("watch");
        command.env("SUBSCOPE_BUDGET_SESSION", "0.1").env("SUBSCOPE_BUDGET_DAY", "0.1");
        let mut watching = Going::start(command);
        until("the watcher is there", || {
            hubs.env.run(&["status", "--json"]).code == Some(0) && readers(&hubs) > 0
        });
        // The main agent begins; then come the agents' own lines.
        let is_main = |path: &Path| !path.components().any(|part| part.as_os_str() == "subagents");
        let answers = |line: &str| line.contains(&format!(r#""model":"{model}""#));
        let begins = growing.0.iter().position(|(_, path, line)| is_main(path) && answers(line)).unwrap() + 1;
        growing.write(begins);
        until("the main agent's first response is counted", || {
            session(&hubs)["usage"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0)
        });
        // What is read of a response that is not whole, or said of an agent whose lines are not read, is a lower bound, too.
        growing.0.retain(|(_, path, _)| !is_main(path));
        growing.write_whole_files(&hubs.env);
        watching.until(|line| line.contains("the session has cost") && line.contains("the budget is $0.1"));
        watching.until(|line| line.contains("the sessions of") && line.contains("the budget is $0.1"));
        let alerts: Vec<_> = watching.seen.iter().filter(|line| line.contains("the budget is")).collect();
        if model == "claude-opus-5-5" {
            // An alert can come before the last file is read: then it says a lower bound, which is below the whole cost.
            until("the cost is known", || session(&hubs)["cost_floor"] == false);
            let whole = session(&hubs)["cost_micro_usd"].as_f64().unwrap() / 1e6;
            let bounds = alerts.iter().filter_map(|line| line.split("cost ≥$").nth(1)?.split(':').next());
            assert!(bounds.clone().all(|bound| bound.parse::<f64>().unwrap() < whole), "{alerts:?} {whole}");
        } else {
            assert!(alerts.iter().all(|line| line.contains("cost ≥$")), "{alerts:?}");
            assert_eq!(session(&hubs)["cost_floor"], true);
        }
        watching.end();
    }
}

#[test]
fn budget_is_an_amount_of_dollars() {
    let env = env();
    for (value, problem) in [("0", "0.01"), ("much", "amount"), ("-3", "0.01")] {
        let mut command = env.command();
        command.args(["config", "show"]).env("SUBSCOPE_BUDGET_DAY", value);
        let ran = run(command, b"");
        assert_ne!(ran.code, Some(0), "{value}");
        assert!(ran.stderr.contains("SUBSCOPE_BUDGET_DAY") && ran.stderr.contains(problem), "{}", ran.stderr);
    }
    let mut command = env.command();
    command.args(["config", "show"]).env("SUBSCOPE_BUDGET_SESSION", "2.5");
    let shown = run(command, b"").success();
    assert!(shown.contains("session = 2.5"), "{shown}");
}
