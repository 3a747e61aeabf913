//! Rows and events as terminal text: trees, blocks, summaries, and the small words they are made of.
//!
//! Pure functions: no clock, no file, no terminal is read here. `now`, width, colour and the offset from UTC
//! are inputs. Every text that comes from an agent goes through [`safe`] before it is printed.

pub mod blocks;
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
pub use rows::{Row, rows};
pub use style::{Charset, Ink, Style};
pub use summary::render_summary;
pub use timeline::{Timeline, timeline};
pub use tree::{Detail, DetailError, TreeOptions, activity, render_tree, short_model};
