//! A run of a million lines. Budgets: 300 MB/s, 100 MB of memory (issue 4).

use std::{
    fs::File,
    process::{Child, Command, Stdio},
    time::Duration,
};

use subscope_testkit::figures::{Row, most_memory, now};

use crate::{
    child::{self, BYTES, Script},
    server::Server,
};

const ROUNDS: usize = 5;
/// How often is looked how much memory there is.
const LOOK: Duration = Duration::from_millis(5);

/// Speed and memory while 2 GB pass, into a pipe that is emptied, without a store and with a hub that keeps.
pub(crate) fn two_gigabytes() -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder");
    let _server = Server::subscope(home.path());
    let (mut alone, mut kept, mut bare) = (Figures::default(), Figures::default(), Figures::default());
    let (mut ratios, mut same) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.add(piped(child::bare(Script::Long)));
        let first = alone.add(piped(child::under_run(Script::Long, None)));
        let second = alone.add(piped(child::under_run(Script::Long, None)));
        kept.add(piped(child::under_run(Script::Long, Some(home.path()))));
        ratios.push(first / bare.speeds.last().copied().unwrap_or(f64::NAN));
        same.push(first / second);
    }
    let row = |figure: &str, values, unit, budget, is_floor| Row {
        question: "`run`: 1 M lines, 2 GB, through a pipe to `cat`".to_owned(),
        figure: figure.to_owned(),
        values,
        unit,
        budget,
        is_floor,
    };
    vec![
        row("speed, `--no-store`", alone.speeds, " MB/s", Some(300.0), true),
        row("speed, a hub keeps", kept.speeds, " MB/s", Some(300.0), true),
        row("speed of the child without us", bare.speeds, " MB/s", None, false),
        row("speed ÷ that", ratios, " ×", None, false),
        row("A/A: the same twice", same, " ×", None, false),
        row("most memory (VmHWM), `--no-store`", alone.peaks, " MB", Some(100.0), false),
        row("most memory (VmHWM), a hub keeps", kept.peaks, " MB", Some(100.0), false),
    ]
}

#[derive(Default)]
struct Figures {
    speeds: Vec<f64>,
    peaks: Vec<f64>,
}

impl Figures {
    fn add(&mut self, (speed, peak): (f64, f64)) -> f64 {
        self.speeds.push(speed);
        self.peaks.push(peak);
        speed
    }
}

/// Runs a command into `cat`; returns megabytes a second and the most memory that it held.
fn piped(mut command: Command) -> (f64, f64) {
    let began = now();
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let reader = Command::new("cat")
        .stdin(child.stdout.take().expect("stdout is piped"))
        .stdout(File::create("/dev/null").expect("nothing is there"))
        .spawn();
    let peak = watched(&mut child);
    reader.expect("cat").wait().expect("it ends");
    (BYTES as f64 / 1e6 / began.elapsed().as_secs_f64(), peak)
}

fn watched(child: &mut Child) -> f64 {
    let mut peak: f64 = 0.0;
    loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            assert!(status.success(), "{status}");
            return peak;
        }
        peak = peak.max(most_memory(child.id()).unwrap_or(0.0));
        std::thread::sleep(LOOK);
    }
}
