//! Rows of a drawn tree: order, depth and guides, shared by all user interfaces.
//!
//! Derived from pre-order and depth in two passes without recursion: linear time for any depth and breadth.

use subscope_model::{Agent, AgentId, Tree};

use crate::{style::Glyphs, text};

/// Levels stored in a row's guide bits; deeper ones are never drawn, see [`TreeRow::lead`].
const GUIDE_LEVELS: usize = 63;

/// Levels replaced by the number of a depth that is not drawn.
const DEEP_LEVELS: usize = 3;

/// The position of an agent, or of one of its calls, in the drawn tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRow {
    /// The agent's index in [`Tree::agents`].
    pub agent: usize,
    /// The call's index in [`Agent::tools`]; `None` in the agent's own row.
    pub call: Option<usize>,
    /// Levels below the first row.
    pub depth: usize,
    /// Whether it is the last of its siblings.
    pub is_last: bool,
    /// Whether it has children.
    pub has_children: bool,
    /// Number of agents hidden below it.
    pub folded: usize,
    /// Whether rows of its calls follow it.
    pub has_calls: bool,
    /// Bit n: the ancestor at depth n has later siblings.
    guides: u64,
}

/// Returns the rows of the whole tree, or of an agent's subtree (empty if the agent does not exist). Impossible depths
/// are clamped.
pub fn rows(tree: &Tree, under: Option<&AgentId>) -> Vec<TreeRow> {
    let first = match under {
        None => 0,
        Some(id) => match tree.agents.iter().position(|agent| agent.id == *id) {
            Some(at) => at,
            None => return Vec::new(),
        },
    };
    let mut rows: Vec<TreeRow> = Vec::with_capacity(tree.agents.len() - first.min(tree.agents.len()));
    let base = tree.agents.get(first).map_or(0, |agent| agent.depth);
    for (agent, row) in tree.agents.iter().enumerate().skip(first) {
        let depth = match rows.last() {
            None => 0,
            Some(_) if under.is_some() && row.depth <= base => break,
            Some(above) => (row.depth.saturating_sub(base) as usize).clamp(1, above.depth + 1),
        };
        rows.push(TreeRow::new(agent, depth));
    }
    link(&mut rows);
    rows
}

/// Returns the rows of shown agents and their ancestors, without those below folded agents; the rows of an unfolded
/// agent's calls follow its own. `order` is a pre-order of indices of [`Tree::agents`].
pub fn chosen_rows(
    tree: &Tree,
    order: &[usize],
    is_shown: &dyn Fn(&Agent) -> bool,
    is_folded: &dyn Fn(&Agent) -> bool,
    is_unfolded: &dyn Fn(&Agent) -> bool,
) -> Vec<TreeRow> {
    let mut all: Vec<TreeRow> = Vec::with_capacity(order.len());
    for at in order {
        let Some(agent) = tree.agents.get(*at) else { continue };
        let depth = all.last().map_or(0, |above| (agent.depth as usize).clamp(1, above.depth + 1));
        all.push(TreeRow::new(*at, depth));
    }
    // From the last row up: an ancestor of a shown agent is shown.
    let mut needed_above = 0;
    let mut kept: Vec<TreeRow> = Vec::with_capacity(all.len());
    for row in all.into_iter().rev() {
        let is_needed = row.depth < needed_above;
        if is_needed || is_shown(&tree.agents[row.agent]) {
            needed_above = row.depth;
            kept.push(row);
        }
    }
    let mut rows: Vec<TreeRow> = Vec::with_capacity(kept.len());
    let mut folded: Option<usize> = None;
    for row in kept.into_iter().rev() {
        match (folded, rows.last_mut()) {
            (Some(depth), Some(top)) if row.depth > depth => top.folded += 1,
            (Some(_) | None, _) => {
                let agent = &tree.agents[row.agent];
                folded = is_folded(agent).then_some(row.depth);
                let calls = if folded.is_none() && is_unfolded(agent) { agent.tools.len() } else { 0 };
                rows.push(TreeRow { has_calls: calls > 0, ..row });
                let of_call = |call| TreeRow { call: Some(call), ..TreeRow::new(row.agent, row.depth + 1) };
                rows.extend((0..calls).map(of_call));
            }
        }
    }
    link(&mut rows);
    rows
}

/// Computes `is_last`, `has_children` and the guides of each row.
fn link(rows: &mut [TreeRow]) {
    // From the last row up, so that later rows are known.
    let (mut open, mut guides): (Vec<bool>, u64) = (Vec::new(), 0);
    for row in rows.iter_mut().rev() {
        row.has_children = open.len() > row.depth + 1;
        open.resize(row.depth + 1, false);
        guides &= u64::MAX >> (GUIDE_LEVELS - row.depth.min(GUIDE_LEVELS));
        row.is_last = !open[row.depth];
        row.guides = guides;
        open[row.depth] = true;
        if row.depth <= GUIDE_LEVELS {
            guides |= 1 << row.depth;
        }
    }
}

/// Returns the number of levels drawn at a width: two columns each, at most a third of the width.
pub fn drawn_levels(width: usize) -> usize {
    (width / 6).clamp(DEEP_LEVELS + 2, 24)
}

impl TreeRow {
    fn new(agent: usize, depth: usize) -> Self {
        Self {
            agent,
            call: None,
            depth,
            is_last: true,
            has_children: false,
            folded: 0,
            has_calls: false,
            guides: 0,
        }
    }

    /// Makes the row a root without children, for flat lists.
    pub fn stand_alone(&mut self) {
        *self = Self::new(self.agent, 0);
    }

    /// Returns the guides before the agent's icon: two columns per level, up to `levels`. A deeper row shows its depth
    /// as a number (`⋯12`) in place of the innermost guides.
    pub fn lead(&self, levels: usize, glyphs: &Glyphs) -> String {
        if self.depth == 0 {
            return String::new();
        }
        let mut lead = self.outer_guides(levels, glyphs);
        if self.depth > levels {
            let number = format!("{}{}", glyphs.deep, self.depth);
            lead.push_str(&text::pad(&number, DEEP_LEVELS * 2));
        }
        lead.push_str(if self.is_last { glyphs.corner } else { glyphs.branch });
        lead
    }

    /// Returns the guides of a detail line below the agent's row, aligned with the agent's first word.
    pub fn lead_below(&self, levels: usize, glyphs: &Glyphs) -> String {
        let pipe = |shown: bool| if shown { glyphs.pipe } else { "  " };
        let mut lead = self.outer_guides(levels, glyphs);
        if self.depth > levels {
            lead.push_str(&" ".repeat(DEEP_LEVELS * 2));
        }
        if self.depth > 0 {
            lead.push_str(pipe(!self.is_last));
        }
        lead.push_str(pipe(self.has_children && self.depth < levels));
        lead
    }

    fn outer_guides(&self, levels: usize, glyphs: &Glyphs) -> String {
        let drawn = if self.depth > levels { levels.saturating_sub(DEEP_LEVELS) } else { self.depth };
        let passes = |level: usize| level <= GUIDE_LEVELS && self.guides & (1 << level) != 0;
        (1..drawn).map(|level| if passes(level) { glyphs.pipe } else { "  " }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sample, style::Charset};

    fn drawn(depths: &[u32], levels: usize) -> Vec<String> {
        let tree = sample::tree_of_depths(depths);
        let glyphs = Charset::Unicode.glyphs();
        rows(&tree, None).iter().map(|row| format!("{}{}", row.lead(levels, glyphs), row.agent)).collect()
    }

    #[test]
    fn draw_guides_for_siblings_and_nesting() {
        assert_eq!(drawn(&[0, 1, 2, 3, 2, 1], 9), ["0", "├─1", "│ ├─2", "│ │ └─3", "│ └─4", "└─5"]);
    }

    #[test]
    fn put_impossible_depths_right() {
        assert_eq!(drawn(&[0, 7, 0, 2], 9), ["0", "├─1", "└─2", "  └─3"]);
        assert!(rows(&sample::tree_of_depths(&[]), None).is_empty());
    }

    #[test]
    fn show_depth_as_number_beyond_the_drawn_levels() {
        let depths: Vec<u32> = (0..300).collect();
        let drawn = drawn(&depths, 5);
        assert_eq!(drawn[5], "        └─5");
        assert_eq!(drawn[6], "  ⋯6    └─6");
        assert_eq!(drawn[299], "  ⋯299  └─299");
    }

    #[test]
    fn keep_subtree_of_one_agent_only() {
        let tree = sample::tree_of_depths(&[0, 1, 2, 3, 2, 1]);
        let rows_of = |id: &str| {
            rows(&tree, Some(&AgentId::from(id))).iter().map(|row| (row.agent, row.depth)).collect::<Vec<_>>()
        };
        assert_eq!(rows_of("agent-1"), [(1, 0), (2, 1), (3, 2), (4, 1)]);
        assert_eq!(rows_of("agent-5"), [(5, 0)]);
        assert_eq!(rows_of("agent-9"), []);
    }

    #[test]
    fn chosen_rows_keep_what_stands_above_and_fold_what_stands_below() {
        let tree = sample::tree_of_depths(&[0, 1, 2, 3, 2, 1, 2]);
        let glyphs = Charset::Unicode.glyphs();
        let chosen = |order: &[usize], shown: &[&str], folded: &[&str]| -> Vec<String> {
            let is_in = |list: &[&str], agent: &Agent| list.contains(&&*agent.id) || list == ["*"];
            let (is_shown, is_folded) =
                (|agent: &Agent| is_in(shown, agent), |agent: &Agent| is_in(folded, agent));
            chosen_rows(&tree, order, &is_shown, &is_folded, &|_| false)
                .iter()
                .map(|row| format!("{}{} +{}", row.lead(9, glyphs), row.agent, row.folded))
                .collect()
        };
        let all = [0, 1, 2, 3, 4, 5, 6];
        assert_eq!(chosen(&all, &["agent-3"], &[]), ["0 +0", "└─1 +0", "  └─2 +0", "    └─3 +0"]);
        assert_eq!(chosen(&all, &["*"], &["agent-1"]), ["0 +0", "├─1 +3", "└─5 +0", "  └─6 +0"]);
        assert_eq!(
            chosen(&[0, 5, 6, 1, 2, 3, 4], &["*"], &["agent-5", "agent-2"]),
            ["0 +0", "├─5 +1", "└─1 +0", "  ├─2 +1", "  └─4 +0"]
        );
        assert_eq!(chosen(&all, &[], &[]), Vec::<String>::new());
        assert_eq!(
            chosen(&all, &["agent-4", "agent-6"], &["agent-5"]),
            ["0 +0", "├─1 +0", "│ └─4 +0", "└─5 +1"]
        );
    }

    #[test]
    fn calls_of_unfolded_agents_follow_their_row_unless_it_is_folded() {
        let mut tree = sample::tree_of_depths(&[0, 1, 2, 1]);
        tree.agents[1].tools = ["Bash", "Read"]
            .map(|name| sample::call(name, "", subscope_model::ToolStatus::Ok, 0, None))
            .to_vec();
        let glyphs = Charset::Unicode.glyphs();
        let drawn = |folded: &str| -> Vec<String> {
            let is_folded = |agent: &Agent| agent.id.as_str() == folded;
            let rows = chosen_rows(&tree, &[0, 1, 2, 3], &|_| true, &is_folded, &|_| true);
            rows.iter().map(|row| format!("{}{} {:?}", row.lead(9, glyphs), row.agent, row.call)).collect()
        };
        assert_eq!(
            drawn(""),
            ["0 None", "├─1 None", "│ ├─1 Some(0)", "│ ├─1 Some(1)", "│ └─2 None", "└─3 None"]
        );
        assert_eq!(drawn("agent-1"), ["0 None", "├─1 None", "└─3 None"]);
    }

    #[test]
    fn know_children_and_pipes_below_rows() {
        let tree = sample::tree_of_depths(&[0, 1, 2, 1]);
        let glyphs = Charset::Unicode.glyphs();
        let below: Vec<_> = rows(&tree, None).iter().map(|row| row.lead_below(9, glyphs)).collect();
        assert_eq!(below, ["│ ", "│ │ ", "│     ", "    "]);
    }
}
