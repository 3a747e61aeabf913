//! Acknowledged input is stored exactly once, however the process ends, also on a full disk.
//!
//! A fair number of rounds runs with the other tests; `cargo xtask kills` runs a hundred.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]
#![expect(
    clippy::print_stdout,
    reason = "a run of a hundred rounds says what it did, and where its randomness began"
)]

#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod disk;
mod gone;
mod index;
mod ingest;
mod kept;
mod many;

use std::{process::Child, thread, time::Duration};

use subscope_testkit::random::Random;

/// How often a process is killed: as many times as this variable says, else a fair number.
fn rounds(fair: u64) -> u64 {
    std::env::var("SUBSCOPE_KILLS").map_or(fair, |count| count.parse().unwrap())
}

/// Random seed: different in each run, unless the variable is set to the seed that a run printed.
fn random() -> Random {
    let seed = std::env::var("SUBSCOPE_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(subscope_hub::clock::now_ns);
    println!("SUBSCOPE_SEED={seed}");
    Random::new(seed)
}

/// Waits for some part of a span and kills the process; returns whether it had not ended by itself.
fn kill_within(child: &mut Child, span: Duration, random: &mut Random) -> bool {
    let nanos = u64::try_from(span.as_nanos()).unwrap();
    thread::sleep(Duration::from_nanos(random.below(nanos)));
    let was_alive = child.try_wait().unwrap().is_none();
    // SIGKILL. One that has ended meanwhile cannot be killed, which is no failure.
    let _ = child.kill();
    child.wait().unwrap();
    was_alive
}
