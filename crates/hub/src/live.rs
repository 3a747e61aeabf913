//! Files as they are written.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use subscope_collect::{
    CollectError, Found,
    follow::{FileEvent, FileId, Follow, FollowOptions},
};
use subscope_fold::{Dialect, Fold, SourceSpec};
use subscope_model::{Millis, Problem, SourceId};

use crate::{
    clock,
    driver::{Driver, Fed},
};

/// What is followed.
enum What {
    Targets(Vec<PathBuf>),
    Projects(PathBuf),
}

impl What {
    fn follow(&self) -> Result<Follow, CollectError> {
        let options = FollowOptions::new(Box::new(clock::now_ms));
        match self {
            Self::Targets(targets) => Follow::targets(targets.clone(), options),
            Self::Projects(root) => Follow::projects(root.clone(), options),
        }
    }
}

/// Follows files and tells when they grow.
pub struct Live {
    what: What,
    follow: Follow,
    sources: HashMap<FileId, SourceId>,
    specs: HashMap<FileId, SourceSpec>,
    groups: HashMap<String, u32>,
    dialect: Option<Dialect>,
    /// Whether what stood there at first is read: what comes later is received now.
    is_caught_up: bool,
}

impl Live {
    /// Follows the given files and folders, and those of their sessions that appear later.
    pub fn targets(targets: Vec<PathBuf>, dialect: Option<Dialect>) -> Result<Self, CollectError> {
        Self::new(What::Targets(targets), dialect)
    }

    /// Follows every live session below a harness's `projects` folder, and new ones.
    pub fn projects(root: PathBuf) -> Result<Self, CollectError> {
        Self::new(What::Projects(root), None)
    }

    fn new(what: What, dialect: Option<Dialect>) -> Result<Self, CollectError> {
        let follow = what.follow()?;
        let (sources, specs, groups) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Self { what, follow, sources, specs, groups, dialect, is_caught_up: false })
    }
}

/// What a file's path tells of it, as a source.
pub(crate) fn spec(found: &Found, group: u32, dialect: Option<Dialect>) -> SourceSpec {
    use subscope_collect::Role;
    let by_role = match found.role {
        Role::Meta => Some(Dialect::ClaudeMeta),
        Role::Journal => Some(Dialect::ClaudeJournal),
        Role::Agent => Some(Dialect::ClaudeTranscript),
        Role::Main | Role::Other => None,
    };
    SourceSpec {
        label: found.path.display().to_string(),
        dialect: by_role.or(dialect),
        group,
        session: found.session.clone(),
        agent: found.agent.clone(),
        workflow: found.workflow.clone(),
        can_reread: true,
    }
}

impl Driver for Live {
    fn turn(&mut self, wait: Duration, fold: &mut Fold) -> Fed {
        let Self { follow, sources, specs, groups, dialect, is_caught_up, .. } = self;
        let mut fed = Fed::default();
        let was_caught_up = *is_caught_up;
        let outcome = follow.poll(wait, &mut |event| match event {
            FileEvent::Appeared { file, found } => {
                // Files without a session of their own are no session's: each is its own group.
                let key = found.session.clone().unwrap_or_else(|| format!("file {}", file.0));
                let next = groups.len() as u32;
                let group = *groups.entry(key).or_insert(next);
                let spec = spec(found, group, *dialect);
                sources.insert(file, fold.open(spec.clone()));
                specs.insert(file, spec);
            }
            FileEvent::Bytes { file, bytes, .. } => {
                if let Some(source) = sources.get(&file) {
                    fold.receive_at(was_caught_up.then(clock::now_ms));
                    fold.push(*source, bytes);
                    // A meta file is one object without a line end: it is read as often as it is written.
                    if specs.get(&file).is_some_and(|spec| spec.dialect == Some(Dialect::ClaudeMeta)) {
                        fold.flush(*source);
                    }
                    fed.has_pushed = true;
                }
            }
            FileEvent::Restarted { .. } => fed.must_restart = true,
            FileEvent::Gone { file } => {
                if let Some(source) = sources.remove(&file) {
                    fold.flush(source);
                    fed.has_pushed = true;
                }
            }
            FileEvent::Problem { path, what } => {
                fed.problems.push(Problem { at: path.display().to_string(), what: what.to_owned() });
            }
            FileEvent::CaughtUp => {
                *is_caught_up = true;
                fed.is_caught_up = true;
            }
        });
        if let Err(error) = outcome {
            fed.problems.push(Problem { at: String::new(), what: error.to_string() });
        }
        fed
    }

    fn restart(&mut self) -> Result<(), Problem> {
        self.follow =
            self.what.follow().map_err(|error| Problem { at: String::new(), what: error.to_string() })?;
        self.sources.clear();
        self.specs.clear();
        self.is_caught_up = false;
        Ok(())
    }

    fn now(&self) -> Millis {
        clock::now_ms()
    }
}
