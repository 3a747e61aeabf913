//! Generator of Claude Code sessions of any size and shape, with exact numbers of their content.
//!
//! A session is simulated: agents are actors with their own time, and the actor with the earliest time writes the next
//! line. So agents of one batch really overlap, and the three dialects describe the same events in the same order:
//! transcripts (the on-disk layout of 2.1.330), stream-json lines and hook payloads, with the same call ids, message
//! ids and line ids.
//!
//! Not generated: background agents, failures of agents, forks, resumes, compaction. Recordings have those.

mod actor;
mod made;
mod outlet;
mod play;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

pub use made::{Made, MadeAgent, MadeCall};
pub use outlet::{Disk, Memory, Outlet, RecordedLine, Source};
use subscope_model::Millis;

use crate::clock::START;

/// The version that made-up sessions name.
pub const VERSION: &str = "2.1.330";

/// Dialects in which a session is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialects {
    /// Transcripts and meta files.
    Transcripts,
    /// Also the stream and the hook log.
    All,
}

/// How much of subagents the stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// The tool calls of the first level; of deeper agents nothing but `task_*` lines. The harness's default.
    FirstLevel,
    /// All lines of all agents, as with `--forward-subagent-text`.
    All,
}

/// The shape of a session. The same options give the same bytes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the random numbers.
    pub seed: u64,
    /// How many subagents there are.
    pub agents: usize,
    /// The greatest depth: the first agents form a chain that reaches it, the parents of the others are drawn.
    pub depth: usize,
    /// How many subagents one message starts at most. More than 20 (the harness's limit) are generated as well.
    pub parallel: usize,
    /// Tool calls of a subagent besides spawns.
    pub turns: usize,
    /// Tool calls of the root besides spawns.
    pub root_turns: usize,
    /// Where not 0, the root goes on (whatever `root_turns` says) until its transcript has as many bytes.
    pub main_bytes: u64,
    /// The middle size of a tool result; each is between a half and one and a half of it.
    pub result_bytes: usize,
    /// How many of 1,000 tool calls fail.
    pub errors_permille: u64,
    /// Which dialects are written.
    pub dialects: Dialects,
    /// How much the stream shows.
    pub forwarding: Forwarding,
    /// The folder that the session works in.
    pub cwd: String,
    /// When it begins.
    pub start: Millis,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 7,
            agents: 5,
            depth: 2,
            parallel: 3,
            turns: 6,
            root_turns: 3,
            main_bytes: 0,
            result_bytes: 1200,
            errors_permille: 40,
            dialects: Dialects::All,
            forwarding: Forwarding::All,
            cwd: "/home/user/shop".to_owned(),
            start: START,
        }
    }
}

/// Returns the options of a chain: each agent starts the next, down to `depth`.
pub fn chain(depth: usize) -> Options {
    Options { agents: depth, depth, parallel: 1, turns: 2, result_bytes: 300, ..Options::default() }
}

/// Returns the options of many agents of the first level, 20 at once.
pub fn wide(agents: usize) -> Options {
    Options { agents, depth: 1, parallel: 20, turns: 3, result_bytes: 300, ..Options::default() }
}

/// Returns the options of one session whose main transcript has `megabytes` (10^6 bytes) of natural text in lines of
/// 1 to 5 KB, with eight agents; transcripts only.
pub fn session_of(megabytes: u64) -> Options {
    Options {
        agents: 8,
        turns: 20,
        main_bytes: megabytes * 1_000_000,
        result_bytes: 3_000,
        dialects: Dialects::Transcripts,
        ..Options::default()
    }
}

/// Generates a session into `out`; returns its content.
pub fn generate(options: &Options, out: &mut dyn Outlet) -> io::Result<Made> {
    play::Play::new(options, out).run()
}

/// Generates a session in memory.
pub fn in_memory(options: &Options) -> (Made, Memory) {
    let mut memory = Memory::default();
    let made = generate(options, &mut memory).unwrap_or_else(|error| panic!("a session in memory: {error}"));
    (made, memory)
}

/// Generates a session in a directory and returns its content; see [`Disk`] for the layout.
pub fn on_disk(options: &Options, folder: &Path) -> io::Result<Made> {
    let mut disk = Disk::new(folder);
    let made = generate(options, &mut disk)?;
    disk.finish()?;
    Ok(made)
}

/// How many sessions [`idle_files`] puts into one project.
const SESSIONS_A_PROJECT: usize = 50;

/// Fills `folder/projects` with `count` small sessions without subagents, as a machine of long use has them. The n-th
/// was begun, and last written to, at `written(n)`. Returns their main transcripts.
pub fn idle_files(
    folder: &Path,
    count: usize,
    written: impl Fn(usize) -> Millis,
) -> io::Result<Vec<PathBuf>> {
    let mut mains = Vec::with_capacity(count);
    for number in 0..count {
        let options = Options {
            seed: 1_000_000 + number as u64,
            agents: 0,
            root_turns: 1,
            result_bytes: 200,
            dialects: Dialects::Transcripts,
            cwd: format!("/home/user/project-{:03}", number / SESSIONS_A_PROJECT),
            start: written(number),
            ..Options::default()
        };
        let main = on_disk(&options, folder)?.main(folder);
        let last_write = UNIX_EPOCH + Duration::from_millis(options.start.unsigned_abs());
        File::options().append(true).open(&main)?.set_modified(last_write)?;
        mains.push(main);
    }
    Ok(mains)
}
