//! Files as they stand: read once, folded, no thread kept.

use subscope_collect::{CollectError, Expanded, expand, read};
use subscope_fold::{Dialect, Fold, FoldOptions, SourceSpec};
use subscope_model::{Payload, Problem, SourceId};

use crate::live::spec;

/// What reading TARGETs gave.
pub struct Cold {
    /// Everything that was read.
    pub fold: Fold,
    /// Files that could not be read.
    pub problems: Vec<Problem>,
    /// How many files were read.
    pub files: usize,
    paths: Vec<std::path::PathBuf>,
}

impl Cold {
    /// Reads what several expanded TARGETs name, each file once.
    pub fn read(expanded: Expanded, options: FoldOptions, dialect: Option<Dialect>) -> Self {
        let mut cold = Self { fold: Fold::new(options), problems: Vec::new(), files: 0, paths: Vec::new() };
        for skipped in expanded.skipped {
            cold.problems.push(Problem { at: skipped.path.display().to_string(), what: skipped.why });
        }
        let mut chunk = Vec::new();
        for (group, files) in expanded.groups.into_iter().enumerate() {
            for found in files.files {
                let source = cold.fold.open(spec(&found, u32::try_from(group).unwrap_or(u32::MAX), dialect));
                let fold = &mut cold.fold;
                let outcome = read::read_file(&found.path, 0, &mut chunk, &mut |_, bytes| fold.push(source, bytes));
                cold.fold.flush(source);
                match outcome {
                    Ok(_) => cold.files += 1,
                    Err(error) => {
                        cold.problems.push(Problem { at: found.path.display().to_string(), what: error.to_string() });
                    }
                }
                cold.paths.push(found.path);
            }
        }
        cold
    }

    /// Expands TARGETs and joins what they name.
    pub fn expand(targets: &[std::path::PathBuf]) -> Result<Expanded, CollectError> {
        let mut all: Option<Expanded> = None;
        for target in targets {
            let one = expand(target)?;
            all = Some(match all {
                Some(known) => known.merge(one),
                None => one,
            });
        }
        Ok(all.unwrap_or(Expanded { groups: Vec::new(), skipped: Vec::new() }))
    }

    /// Reads standard input, or any other stream, as one more source.
    pub fn read_stream(&mut self, input: impl std::io::Read, dialect: Option<Dialect>) -> std::io::Result<()> {
        let label = "stdin".to_owned();
        let group = u32::try_from(self.paths.len()).unwrap_or(u32::MAX).saturating_add(1 << 16);
        let source = self.fold.open(SourceSpec { label, dialect, group, ..SourceSpec::default() });
        self.paths.push(std::path::PathBuf::new());
        let fold = &mut self.fold;
        let outcome = subscope_collect::stdin::read_chunks(input, &mut |_, bytes| fold.push(source, bytes));
        self.fold.flush(source);
        self.files += 1;
        outcome.map(|_| ())
    }

    /// Returns the JSON text of a payload, read again where it stands.
    pub fn payload(&self, payload: &Payload) -> Option<String> {
        match payload {
            Payload::Inline(text) => Some(text.to_string()),
            Payload::At { source, offset, len } => {
                let SourceId(number) = *source;
                let path = self.paths.get(number as usize)?;
                let bytes = read::read_span(path, *offset, *len as usize).ok()?;
                String::from_utf8(bytes).ok()
            }
        }
    }
}
