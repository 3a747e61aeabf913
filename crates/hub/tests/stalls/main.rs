//! Scripted waits and healthy agents through the whole live path, on a simulated clock.
//!
//! A driver plays scripts into a hub, second by second; a subscriber records published stalls and looks at agents when
//! a script asks for it. The scripts contain the expected values (`testkit::waits`). `cargo xtask stalls` runs this in
//! full and prints the tables.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod again;
mod idle;
mod theater;

use std::collections::BTreeMap;

use subscope_model::{LivenessKind, Millis};
use subscope_testkit::waits::{Case, Cause, Expected, Stall, cases, healthy};
use theater::{Act, Look, Seen, Told, play};

/// Tolerated delay of a stall: the hub checks every second, and a script's times are exact to a few milliseconds.
const GRAIN_MS: Millis = 1_500;
/// Number of waits in the benchmark (requirements, section 6).
const WAITS: usize = 500;
/// Number of concurrent hubs: each of them sleeps most of the time.
const HUBS: usize = 24;
/// Number of waits that one hub watches at once.
const TOGETHER: usize = 16;

/// Hours of healthy agents: a part of the benchmark's 10,000, which `cargo xtask stalls` runs.
fn hours() -> u64 {
    std::env::var("HEALTHY_HOURS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

fn act(case: &Case) -> Act {
    Act {
        session: case.session.clone(),
        lines: case.lines.clone(),
        look: Some(Look { agent: case.agent.clone(), at: case.probe }),
        end: case.end,
    }
}

/// Plays cases; those with a suspend each on a machine of their own. Returns the observations, in the order of the
/// cases.
fn play_cases(cases: &[Case]) -> Vec<Seen> {
    let (sleepers, others): (Vec<usize>, Vec<usize>) =
        (0..cases.len()).partition(|number| cases[*number].sleep.is_some());
    let mut jobs: Vec<Vec<usize>> = others.chunks(TOGETHER).map(<[usize]>::to_vec).collect();
    jobs.extend(sleepers.into_iter().map(|number| vec![number]));
    let next = std::sync::atomic::AtomicUsize::new(0);
    let seen = std::sync::Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..HUBS {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let acts = job.iter().map(|number| act(&cases[*number])).collect();
                    let told = play(acts, cases[job[0]].sleep);
                    seen.lock().unwrap().extend(job.iter().copied().zip(told));
                }
            });
        }
    });
    seen.into_inner().unwrap().into_values().collect()
}

/// Describes what is wrong with the observations; empty if nothing is.
fn faults(case: &Case, seen: &Seen) -> Vec<String> {
    let mut faults = Vec::new();
    match &seen.looked {
        None => faults.push("the agent is not there".to_owned()),
        Some(looked) if !is_expected(&case.expected, looked) => {
            faults.push(format!("expected {:?}, seen {looked:?}", case.expected));
        }
        Some(_) => {}
    }
    let told: Vec<&Told> = seen.stalls.iter().filter(|told| told.at <= case.end).collect();
    for stall in &case.stalls {
        if !told.iter().any(|told| is_told(stall, told)) {
            faults.push(format!("not told: {stall:?}"));
        }
    }
    if told.len() > case.stalls.len() {
        faults.push(format!("told {} times", told.len()));
    }
    for told in told {
        if !case.stalls.iter().any(|stall| is_told(stall, told)) {
            faults.push(format!("false: {told:?}"));
        }
    }
    faults
}

fn is_expected(expected: &Expected, looked: &Expected) -> bool {
    // Only names of tools matter.
    let named = matches!(expected.waits_for, Some(LivenessKind::Tool | LivenessKind::Permission));
    let looked = Expected { name: looked.name.filter(|_| named), ..looked.clone() };
    *expected == looked
}

fn is_told(stall: &Stall, told: &Told) -> bool {
    told.agent == stall.agent
        && told.waits_for == stall.waits_for
        && (stall.at..=stall.at + GRAIN_MS).contains(&(told.at + 100))
}

#[test]
fn scripted_waits_are_told_by_their_cause() {
    let cases =
        cases(WAITS, std::env::var("WAITS_SEED").ok().and_then(|t| t.parse().ok()).unwrap_or(20_261_122));
    let seen = play_cases(&cases);
    assert_eq!(seen.len(), cases.len());
    let mut table: BTreeMap<Cause, [usize; 3]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (case, seen) in cases.iter().zip(&seen) {
        let faults = faults(case, seen);
        let row = table.entry(case.cause).or_default();
        row[0] += 1;
        row[1] += usize::from(faults.is_empty());
        row[2] += case.stalls.len();
        if !faults.is_empty() {
            wrong.push(format!(
                "{} {:?} {:?} {}: {faults:?}",
                case.session, case.cause, case.wire, case.shape
            ));
        }
    }
    println!("{:<12}{:>7}{:>7}{:>10}", "cause", "waits", "right", "stalls");
    for (cause, [all, right, stalls]) in &table {
        println!("{:<12}{all:>7}{right:>7}{stalls:>10}", format!("{cause:?}"));
    }
    let right = cases.len() - wrong.len();
    println!("{right} of {} right", cases.len());
    wrong.iter().for_each(|wrong| println!("{wrong}"));
    assert!(right * 100 >= cases.len() * 99, "{right} of {} right:\n{}", cases.len(), wrong.join("\n"));
}

#[test]
fn healthy_agents_are_never_stalled() {
    let hours = hours();
    let sessions = healthy(hours, 90 * 60_000, 7);
    let worked: Millis = sessions.iter().map(|session| session.agent_ms).sum();
    assert!(worked >= hours.cast_signed() * 3_600_000);
    let share = sessions.len().div_ceil(HUBS).max(1);
    let acts = |part: &[subscope_testkit::waits::Healthy]| -> Vec<Act> {
        part.iter()
            .map(|it| Act { session: it.session.clone(), lines: it.lines.clone(), look: None, end: it.end })
            .collect()
    };
    let wires: BTreeMap<&str, String> =
        sessions.iter().map(|it| (it.session.as_str(), format!("{:?}", it.wire))).collect();
    let told: Vec<Vec<Seen>> = std::thread::scope(|scope| {
        let parts: Vec<_> =
            sessions.chunks(share).map(|part| scope.spawn(move || play(acts(part), None))).collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    });
    let all: Vec<&Seen> = told.iter().flatten().collect();
    let stalls: Vec<String> = all
        .iter()
        .flat_map(|seen| {
            seen.stalls
                .iter()
                .map(|told| format!("{} {}: {told:?}", seen.session, wires[seen.session.as_str()]))
        })
        .collect();
    let ended = all.iter().filter(|seen| seen.is_over).count();
    println!(
        "{} sessions, {} agent-hours, {} stalls, {ended} seen to their end",
        all.len(),
        worked / 3_600_000,
        stalls.len()
    );
    assert_eq!(stalls, Vec::<String>::new());
    assert_eq!(ended, sessions.len(), "what is healthy also ends");
}
