//! Resolves an ATIF document: gives each agent and call an id of its own, and finds parents and spawn calls.

use std::collections::{HashMap, HashSet};

use subscope_model::{AgentId, AgentStatus, Usage};

use super::{AtifDocument, FoundTrajectory};

impl<'a> AtifDocument<'a> {
    /// Returns the session's id.
    pub(in super::super) fn session_id(&self) -> String {
        let root = self.trajectories.first();
        let named = root.and_then(|root| root.session_id.clone().or_else(|| root.trajectory_id.clone()));
        named.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("atif:{:016x}", self.hash))
    }

    /// Returns the id or name that a trajectory gives itself.
    pub(in super::super) fn name_of(&self, number: usize) -> &str {
        self.names.get(number).map_or("", String::as_str)
    }

    /// Returns the sum of all trajectories, where totals have more than steps.
    pub(in super::super) fn total(&self, trajectories: &[FoundTrajectory<'_>]) -> Option<Usage> {
        let mut sum = Usage::default();
        let mut has_more = false;
        for trajectory in trajectories {
            let steps = trajectory.usage();
            match trajectory.totals.usage() {
                Some((totals, _)) if trajectory.has_metrics() && totals.covers(&steps) && totals != steps => {
                    has_more = true;
                    sum += totals;
                }
                Some((totals, _)) if !trajectory.has_metrics() => sum += totals,
                Some(_) | None => sum += steps,
            }
        }
        has_more.then_some(sum)
    }

    /// Gives each agent and call an id of its own, and finds parents and spawn calls.
    pub(super) fn resolve(&mut self) {
        let mut trajectories = std::mem::take(&mut self.trajectories);
        self.name_agents(&mut trajectories);
        name_calls(&mut trajectories);
        self.link(&mut trajectories);
        for (place, trajectory) in trajectories.iter().enumerate() {
            if let Some(call) = &trajectory.spawned_by {
                *self.spawns.entry(call.clone()).or_default() += 1;
            }
            let is_stopped = trajectory.extra.as_ref().is_some_and(|it| it.status == AgentStatus::Stopped);
            if let Some(call) = trajectory.spawned_by.clone().filter(|_| is_stopped) {
                self.stopped_by.insert(call, place);
            }
        }
        self.names = trajectories.iter().map(|trajectory| trajectory.id.clone()).collect();
        self.trajectories = trajectories;
    }

    fn name_agents(&mut self, trajectories: &mut [FoundTrajectory<'a>]) {
        let mut taken: HashSet<String> = HashSet::from([AgentId::ROOT.to_owned()]);
        for (number, trajectory) in trajectories.iter_mut().enumerate() {
            if number == 0 {
                AgentId::ROOT.clone_into(&mut trajectory.id);
                continue;
            }
            let named = trajectory.trajectory_id.clone().filter(|id| !id.is_empty());
            let mut id = named.clone().unwrap_or_else(|| format!("trajectory-{number}"));
            if named.is_none() {
                self.problem(&trajectory.pointer, "a subagent without trajectory_id, shown under a new one");
            }
            if taken.contains(&id) {
                let what = "an agent's id is another's too; it is shown under a new one";
                self.problem(&format!("{}/trajectory_id", trajectory.pointer), what);
                let free = (2..).map(|place| format!("{id}#{place}")).find(|id| !taken.contains(id));
                id = free.unwrap_or_default();
            }
            taken.insert(id.clone());
            trajectory.id = id;
        }
    }

    /// Finds the parent and the spawn call of each agent: as `extra.subscope` names them, else by the first ref to it.
    fn link(&mut self, trajectories: &mut [FoundTrajectory<'a>]) {
        let mut by_id: HashMap<(usize, String), usize> = HashMap::new();
        for (place, trajectory) in trajectories.iter().enumerate().skip(1) {
            if let (Some(container), Some(id)) = (trajectory.container, &trajectory.trajectory_id) {
                by_id.entry((container, id.clone())).or_insert(place);
            }
        }
        let mut links: Vec<(usize, usize, Option<String>)> = Vec::new();
        let mut unresolved = Vec::new();
        for (place, trajectory) in trajectories.iter().enumerate() {
            for result in
                trajectory.steps.iter().flat_map(|step| step.results.iter().map(move |it| (step, it)))
            {
                let (step, result) = result;
                let call = step.calls.iter().find(|call| Some(&call.name_in_step) == result.call.as_ref());
                for (id, pointer) in &result.refs {
                    // Search its own array, the array that contains it, and the root's.
                    let arrays = [Some(place), trajectory.container, Some(0)];
                    let found = id.as_ref().and_then(|id| {
                        arrays
                            .into_iter()
                            .flatten()
                            .find_map(|array| by_id.get(&(array, id.clone())).copied())
                    });
                    match found {
                        Some(child) => links.push((child, place, call.map(|call| call.id.clone()))),
                        None => unresolved.push(pointer.clone()),
                    }
                }
            }
        }
        for pointer in unresolved {
            self.problem(&pointer, "a ref to no trajectory of this document, which alone is read");
        }
        let ids: HashMap<String, usize> =
            trajectories.iter().enumerate().map(|(place, it)| (it.id.clone(), place)).collect();
        let mut linked = HashSet::new();
        for place in 1..trajectories.len() {
            let Some(extra) = trajectories[place].extra.clone() else { continue };
            linked.insert(place);
            let parent = extra.parent_id.as_deref().and_then(|parent| ids.get(parent).copied());
            self.set_parent(trajectories, place, parent);
            trajectories[place].spawned_by = extra.spawned_by.map(|call| call.to_string());
        }
        for (child, parent, call) in links {
            if child != 0 && linked.insert(child) {
                self.set_parent(trajectories, child, Some(parent));
                trajectories[child].spawned_by = call;
            }
        }
        for place in 1..trajectories.len() {
            // A nested trajectory is below the one that it is in.
            if let Some(container) = trajectories[place].container.filter(|it| *it != 0)
                && !linked.contains(&place)
            {
                self.set_parent(trajectories, place, Some(container));
            }
        }
    }

    fn set_parent(&mut self, trajectories: &mut [FoundTrajectory<'a>], child: usize, parent: Option<usize>) {
        let mut above = parent;
        while let Some(place) = above {
            if place == child {
                let pointer = trajectories[child].pointer.clone();
                self.problem(&pointer, "an agent that is above itself; its parent is unknown");
                return;
            }
            above = trajectories[place].parent;
        }
        trajectories[child].parent = parent;
    }
}

/// Gives each call a unique id: a repeated id gets the agent's id as prefix, or a number.
fn name_calls(trajectories: &mut [FoundTrajectory<'_>]) {
    let mut taken: HashSet<String> = HashSet::new();
    for trajectory in trajectories {
        let agent = trajectory.id.clone();
        for call in
            trajectory.steps.iter_mut().filter(|step| !step.is_copied).flat_map(|step| &mut step.calls)
        {
            if !taken.insert(call.id.clone()) {
                let base = format!("{agent}/{}", call.id);
                let numbered = (2..).map(|number| format!("{base}#{number}"));
                let free = std::iter::once(base.clone()).chain(numbered).find(|id| !taken.contains(id));
                call.id = free.unwrap_or_default();
                taken.insert(call.id.clone());
            }
        }
    }
}
