//! The homes of harnesses whose processes can be found.

use subscope_harness::{Harness, harnesses};
use subscope_run::HarnessHome;

use crate::context::Context;

/// Returns the homes of harnesses whose processes can be found.
pub(crate) fn homes(context: &Context) -> Vec<HarnessHome> {
    let variable = |name: &str| context.environment.get(name);
    let home = |harness: &'static dyn Harness| {
        let notes = harness.run()?.notes().map(|notes| (notes, notes.folder(&variable)));
        Some(HarnessHome { harness, notes, roots: harness.roots(&variable) })
    };
    harnesses().filter_map(home).collect()
}
