//! Processor time that `run` takes from an agent at work. Budget: 1 % of the run's time (issue 4).

use std::{
    fs,
    process::{Child, Stdio},
    time::Duration,
};

use subscope_testkit::figures::{Row, now};

use crate::{
    child::{self, Script},
    server::Server,
};

const ROUNDS: usize = 3;
const LOOK: Duration = Duration::from_millis(2);
/// Unit of the kernel's processor time (`getconf CLK_TCK`: 100 on every Linux since 2.4).
const TICKS_PER_SECOND: f64 = 100.0;

/// Plays the session of eight agents and 147 calls at its own pace, 22 s, kept by a hub.
pub(crate) fn of_the_processor() -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder");
    let server = Server::subscope(home.path());
    let (mut run, mut hub) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let before = processor_seconds(&server.child).unwrap_or(0.0);
        let began = now();
        let mut command = child::under_run(Script::Recorded, Some(home.path()));
        let mut child = command.stdout(Stdio::null()).spawn().expect("it starts");
        let mut own: f64 = 0.0;
        while child.try_wait().expect("it can be waited for").is_none() {
            own = own.max(processor_seconds(&child).unwrap_or(0.0));
            std::thread::sleep(LOOK);
        }
        let wall = began.elapsed().as_secs_f64();
        run.push(own / wall * 100.0);
        let after = processor_seconds(&server.child).unwrap_or(f64::NAN);
        hub.push((after - before) / wall * 100.0);
    }
    let row = |figure: &str, values, budget| Row {
        question: "`run`: processor time in a run of 22 s, 8 agents, 147 calls, its start included"
            .to_owned(),
        figure: figure.to_owned(),
        values,
        unit: " %",
        budget,
        is_floor: false,
    };
    vec![row("of `run`", run, Some(1.0)), row("of the hub that keeps it", hub, None)]
}

/// Processor time of all threads of a process, including ended ones.
fn processor_seconds(child: &Child) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // After the name, which may contain anything: field 14 and 15 of proc_pid_stat(5) are the 12th and 13th from there.
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}
