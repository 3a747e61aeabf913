//! Terminates a process and all its descendants.
//!
//! A run is a process group. On Linux, descendants that left the group (runs of a nested server have their own groups)
//! are found by their parent ids, and with them the groups that they lead. On other systems a nested server ends its
//! own runs on SIGTERM.

use std::{collections::HashMap, fs, time::Duration};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use tokio::time;

/// Poll interval while waiting for processes to exit.
const POLL: Duration = Duration::from_millis(10);
/// Time limit for killed processes to exit: SIGKILL cannot be refused, but a process may be in uninterruptible I/O.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Status of a process.
#[derive(Clone, Copy, Debug)]
struct ProcessStatus {
    parent: i32,
    group: i32,
    start_time: u64,
    is_dead: bool,
}

type ProcessTable = HashMap<i32, ProcessStatus>;

/// Terminates a group leader, its group and all descendants: SIGTERM, then SIGKILL after `grace`. Returns when all have
/// exited, or after [`KILL_LIMIT`]. The leader must not have been reaped.
pub(super) async fn end(leader: Pid, grace: Duration) {
    let mut tree = ProcessTree::of(leader);
    tree.signal(Signal::TERM);
    if tree.has_exited_within(grace).await {
        return;
    }
    tree.rescan();
    tree.signal(Signal::KILL);
    tree.has_exited_within(KILL_LIMIT).await;
}

/// A process and its descendants, as of the last scans.
struct ProcessTree {
    leader: Pid,
    /// Start times by pid: pids are reused.
    members: HashMap<i32, u64>,
    /// Process groups led by a member: later processes in them belong to the tree, too.
    groups: Vec<Pid>,
}

impl ProcessTree {
    fn of(leader: Pid) -> Self {
        let mut tree = Self { leader, members: HashMap::new(), groups: vec![leader] };
        tree.add_descendants(vec![leader.as_raw_nonzero().get()], &process_table());
        tree
    }

    /// Adds processes started since the last scan.
    fn rescan(&mut self) {
        let table = process_table();
        self.add_descendants(self.alive(&table).map(|(pid, _)| pid).collect(), &table);
    }

    /// Adds processes, all their descendants, and the groups that they lead.
    fn add_descendants(&mut self, mut pids: Vec<i32>, table: &ProcessTable) {
        while let Some(pid) = pids.pop() {
            let Some(row) = table.get(&pid) else { continue };
            self.members.insert(pid, row.start_time);
            let led = Pid::from_raw(row.group).filter(|_| row.group == pid);
            self.groups.extend(led.filter(|group| !self.groups.contains(group)));
            pids.extend(table.iter().filter(|(_, row)| row.parent == pid).map(|(pid, _)| *pid));
        }
    }

    /// Members that have not exited, with their rows.
    fn alive<'t>(&self, table: &'t ProcessTable) -> impl Iterator<Item = (i32, &'t ProcessStatus)> {
        let row = |(pid, start_time): (&i32, &u64)| {
            let row = table.get(pid).filter(|row| row.start_time == *start_time && !row.is_dead)?;
            Some((*pid, row))
        };
        self.members.iter().filter_map(row)
    }

    /// Whether a group id still belongs to this tree: its leader is a member, or has exited and the id was not reused.
    fn has_group(&self, group: Pid, table: &ProcessTable) -> bool {
        let id = group.as_raw_nonzero().get();
        // A pid is not reused while a group of this id has members.
        let is_reused = table.get(&id).is_some_and(|row| self.members.get(&id) != Some(&row.start_time));
        group == self.leader || !is_reused
    }

    fn signal(&self, signal: Signal) {
        let table = process_table();
        for group in self.groups.iter().filter(|group| self.has_group(**group, &table)) {
            // Fails if the group has exited, which is fine.
            let _ = kill_process_group(*group, signal);
        }
        for (pid, row) in self.alive(&table) {
            // Members of a signaled group have received the signal.
            let is_signaled = Pid::from_raw(row.group).is_some_and(|group| self.groups.contains(&group));
            if let Some(pid) = Pid::from_raw(pid).filter(|_| !is_signaled) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Waits until all processes have exited; returns `false` after `limit`.
    async fn has_exited_within(&self, limit: Duration) -> bool {
        let all_dead = async {
            while self.is_any_alive() {
                time::sleep(POLL).await;
            }
        };
        time::timeout(limit, all_dead).await.is_ok()
    }

    fn is_any_alive(&self) -> bool {
        let table = process_table();
        if table.is_empty() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            return matches!(waitid(WaitId::Pid(self.leader), options), Ok(None));
        }
        let is_of_a_group = |row: &ProcessStatus| {
            let group = Pid::from_raw(row.group).filter(|group| self.groups.contains(group));
            group.is_some_and(|group| self.has_group(group, &table))
        };
        self.alive(&table).next().is_some() || table.values().any(|row| !row.is_dead && is_of_a_group(row))
    }
}

/// Blocks until a child has exited, without reaping it, so that its pid is not reused before its group is terminated.
pub(super) fn wait(child: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(child), options).is_err_and(|error| error == rustix::io::Errno::INTR) {}
}

/// Returns all processes from `/proc`; empty on systems without it.
fn process_table() -> ProcessTable {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// Parses `/proc/PID/stat` after the name, which may contain any character. proc(5): state, ppid, pgrp …; starttime is
/// the twentieth of these.
fn parse_stat(stat: &str) -> Option<ProcessStatus> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Some(ProcessStatus {
        is_dead: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_read_whatever_the_process_is_called() {
        let stat = "7 (a) Z (b c) S 3 5 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        let status = parse_stat(stat).unwrap();
        assert_eq!((status.parent, status.group, status.start_time, status.is_dead), (3, 5, 4711, false));
    }

    #[test]
    fn descendants_are_found_below_descendants() {
        let status = |parent| ProcessStatus { parent, group: 1, start_time: 1, is_dead: false };
        let table = ProcessTable::from([
            (1, status(0)),
            (2, status(1)),
            (3, status(2)),
            (4, status(1)),
            (5, status(9)),
        ]);
        let leader = Pid::from_raw(1).unwrap();
        let mut tree = ProcessTree { leader, members: HashMap::new(), groups: Vec::new() };
        tree.add_descendants(vec![1], &table);
        let mut pids: Vec<i32> = tree.members.into_keys().collect();
        pids.sort_unstable();
        assert_eq!(pids, [1, 2, 3, 4]);
    }
}
