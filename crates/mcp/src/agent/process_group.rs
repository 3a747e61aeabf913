//! A process with everything that it has started, and the end of all of them.
//!
//! A run is a process group of its own. What has left the group (a nested server's runs are groups of their own) is found by
//! its parents, on Linux, and with it the groups that it leads; elsewhere a nested server ends its own when it is told to.

use std::{collections::HashMap, fs, time::Duration};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use tokio::time;

/// How often is looked whether all are gone.
const POLL: Duration = Duration::from_millis(10);
/// How long what was killed may take to be gone: nothing can refuse, but a process may stand in a disk's way.
const LIMIT: Duration = Duration::from_secs(5);

/// A process, and when it began: ids are given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    pid: i32,
    began: u64,
}

/// A line of the table of processes.
#[derive(Clone, Copy, Debug)]
struct Row {
    parent: i32,
    group: i32,
    began: u64,
    is_dead: bool,
}

type Table = HashMap<i32, Row>;

/// Ends a group's leader, which must not have been waited for, its group and all that descend from it: asks, waits no longer
/// than `grace`, and kills what is left. Returns when none is left, or none would go.
pub(super) async fn end(leader: Pid, grace: Duration) {
    let mut family = Family::of(leader);
    family.signal(Signal::TERM);
    if family.is_gone_within(grace).await {
        return;
    }
    family.grow();
    family.signal(Signal::KILL);
    family.is_gone_within(LIMIT).await;
}

/// A process and all that descend from it, as far as was seen.
struct Family {
    leader: Pid,
    members: Vec<Member>,
    /// Process groups that one of them leads: whoever is started in them meanwhile belongs to them, too.
    groups: Vec<Pid>,
}

impl Family {
    fn of(leader: Pid) -> Self {
        let mut family = Self { leader, members: Vec::new(), groups: vec![leader] };
        family.add(descendants(leader, &table()));
        family
    }

    /// Adds those that its members have started meanwhile.
    fn grow(&mut self) {
        let table = table();
        for member in self.members.clone().iter().filter(|member| is_alive(member, &table)) {
            self.add(Pid::from_raw(member.pid).map(|pid| descendants(pid, &table)).unwrap_or_default());
        }
    }

    fn add(&mut self, found: Vec<(Member, i32)>) {
        for (member, group) in found {
            let led = Pid::from_raw(group).filter(|_| group == member.pid);
            self.groups.extend(led.filter(|group| !self.groups.contains(group)));
            if !self.members.contains(&member) {
                self.members.push(member);
            }
        }
    }

    /// Whether a group is of this family alone: its leader is, and has not made room for a stranger's.
    fn has_group(&self, group: Pid, table: &Table) -> bool {
        let id = group.as_raw_nonzero().get();
        // While a group has members, nobody else gets its id.
        let stranger =
            table.get(&id).is_some_and(|row| !self.members.contains(&Member { pid: id, began: row.began }));
        group == self.leader || !stranger
    }

    fn signal(&self, signal: Signal) {
        let table = table();
        for group in self.groups.iter().filter(|group| self.has_group(**group, &table)) {
            // That one is gone by now is what is wanted.
            let _ = kill_process_group(*group, signal);
        }
        for member in self.members.iter().filter(|member| is_alive(member, &table)) {
            // Whoever is of a group was told with it.
            let group = table.get(&member.pid).and_then(|row| Pid::from_raw(row.group));
            let is_told = group.is_some_and(|group| self.groups.contains(&group));
            if let Some(pid) = Pid::from_raw(member.pid).filter(|_| !is_told) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Waits until only the dead are left.
    async fn is_gone_within(&self, limit: Duration) -> bool {
        let all_dead = async {
            while self.is_anybody_alive() {
                time::sleep(POLL).await;
            }
        };
        time::timeout(limit, all_dead).await.is_ok()
    }

    fn is_anybody_alive(&self) -> bool {
        let table = table();
        if table.is_empty() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            return matches!(waitid(WaitId::Pid(self.leader), options), Ok(None));
        }
        let is_of_a_group = |row: &Row| {
            let group = Pid::from_raw(row.group).filter(|group| self.groups.contains(group));
            group.is_some_and(|group| self.has_group(group, &table))
        };
        self.members.iter().any(|member| is_alive(member, &table))
            || table.values().any(|row| !row.is_dead && is_of_a_group(row))
    }
}

/// Waits, on this thread, until a child has ended. It stays to be waited for, so that its id is not given again before its
/// group is ended.
pub(super) fn wait(child: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(child), options).is_err_and(|error| error == rustix::io::Errno::INTR) {}
}

fn is_alive(member: &Member, table: &Table) -> bool {
    table.get(&member.pid).is_some_and(|row| row.began == member.began && !row.is_dead)
}

/// Returns a process and all that descend from it, each with its group.
fn descendants(of: Pid, table: &Table) -> Vec<(Member, i32)> {
    let mut found = Vec::new();
    let mut next = vec![of.as_raw_nonzero().get()];
    while let Some(pid) = next.pop() {
        if let Some(row) = table.get(&pid) {
            found.push((Member { pid, began: row.began }, row.group));
            next.extend(table.iter().filter(|(_, row)| row.parent == pid).map(|(pid, _)| *pid));
        }
    }
    found
}

/// Returns the table of processes; empty where the system has none to read.
fn table() -> Table {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, row(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// Reads the fields behind the name, which may hold anything. proc(5): state, ppid, pgrp …, starttime is the twentieth.
fn row(stat: &str) -> Option<Row> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Some(Row {
        is_dead: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        began: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_read_whatever_the_process_is_called() {
        let stat = "7 (a) Z (b c) S 3 5 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        let row = row(stat).unwrap();
        assert_eq!((row.parent, row.group, row.began, row.is_dead), (3, 5, 4711, false));
    }

    #[test]
    fn descendants_are_found_below_descendants() {
        let row = |parent| Row { parent, group: 1, began: 1, is_dead: false };
        let table = Table::from([(1, row(0)), (2, row(1)), (3, row(2)), (4, row(1)), (5, row(9))]);
        let mut pids: Vec<i32> = descendants(Pid::from_raw(1).unwrap(), &table)
            .into_iter()
            .map(|(member, _)| member.pid)
            .collect();
        pids.sort_unstable();
        assert_eq!(pids, [1, 2, 3, 4]);
    }
}
