//! Renders rows and events as terminal text: trees, event blocks, tables, summaries, timelines.
//!
//! Pure functions: no clock, file or terminal is read. `now`, width, color and UTC offset are inputs. All text of
//! agents is sanitized by [`safe`].

pub mod blocks;
pub mod breakdown;
pub mod changed_files;
pub mod chart;
pub mod comparison;
pub mod inbox;
pub mod markdown;
pub mod permission;
pub mod rows;
pub mod safe;
pub mod style;
pub mod summary;
pub mod table;
pub mod text;
pub mod timeline;
pub mod tree;

#[cfg(test)]
mod sample;

pub use blocks::{BlockOptions, Blocks};
pub use changed_files::render_changed_files;
pub use comparison::render_comparison;
pub use rows::{TreeRow, chosen_rows, rows};
pub use style::{Charset, Ink, Style};
pub use summary::render_summary;
pub use timeline::{Timeline, timeline};
pub use tree::{Detail, DetailError, TreeOptions, activity, render_tree, short_model};
