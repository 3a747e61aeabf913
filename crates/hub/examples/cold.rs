//! Temporary measuring.
use subscope_hub::*;
use subscope_fold::*;
fn main() {
    let targets: Vec<_> = std::env::args().skip(1).map(Into::into).collect();
    let t = std::time::Instant::now();
    let cold = Cold::read(Cold::expand(&targets).unwrap(), FoldOptions { keep: Keep::Rows, cutoff: None, events: false }, None);
    let read = t.elapsed();
    let prices = subscope_model::PriceTable::default();
    let now = Now { at: 1_900_000_000_000, has_ended: false, is_growing: false, prices: &prices, limits: Limits::default() };
    let sessions: Vec<_> = cold.fold.sessions().cloned().collect();
    for s in sessions {
        let tree = cold.fold.tree(&s, &now).unwrap();
        let d = t.elapsed();
        eprintln!("{} files {} agents {} calls {} usage {:?} problems {} read {:?} derive {:?}", s, cold.files, tree.agents.len(), tree.summary.tool_calls, tree.summary.usage, tree.problems.len(), read, d - read);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    eprintln!("{}", status.lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
