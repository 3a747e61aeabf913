//! Files as they are written.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use subscope_collect::{
    CollectError, Found,
    follow::{FileEvent, FileId, Follow, FollowOptions},
};
use subscope_fold::{Dialect, Fold, SourceSpec};
use subscope_model::{Millis, Problem, SessionId, SourceId};

use crate::{
    beside::{Beside, Pieces},
    clock,
    driver::{Driver, Fed},
    handle::Waker,
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
    reading: Reading,
    files: Files,
    /// Set when no more is to come.
    over: Option<Arc<AtomicBool>>,
}

/// Where files are waited for.
enum Reading {
    /// In the hub's turns.
    Here(Box<Follow>),
    /// On a thread of its own, which wakes the hub.
    Beside(Beside),
    /// Nowhere: no thread could be started again.
    Nowhere,
}

/// The followed files as sources of the fold.
#[derive(Default)]
struct Files {
    sources: HashMap<FileId, SourceId>,
    specs: HashMap<FileId, SourceSpec>,
    groups: HashMap<String, u32>,
    /// The number of the first group.
    first_group: u32,
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

    /// Follows the files of one session beside other sources of a fold, as a group of this number, until `over` is set: then
    /// what is there is read once more to its end, and no more comes.
    pub fn session(transcript: PathBuf, group: u32, over: Arc<AtomicBool>) -> Result<Self, CollectError> {
        let mut live = Self::targets(vec![transcript], None)?;
        live.files.first_group = group;
        live.over = Some(over);
        Ok(live)
    }

    fn new(what: What, dialect: Option<Dialect>) -> Result<Self, CollectError> {
        let reading = Reading::Here(Box::new(what.follow()?));
        Ok(Self { what, reading, files: Files { dialect, ..Files::default() }, over: None })
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
        let Self { reading, files, over, .. } = self;
        let mut fed = Fed::default();
        match reading {
            Reading::Here(follow) => {
                let outcome =
                    follow.poll(wait, &mut |event| files.take(event, clock::now_ms(), fold, &mut fed));
                if let Err(error) = outcome {
                    fed.problems.push(Problem { at: String::new(), what: error.to_string() });
                }
            }
            Reading::Beside(beside) => {
                match beside.take(&mut |at, event| files.take(event, at, fold, &mut fed)) {
                    Pieces::More => beside.waker().wake(),
                    Pieces::None => {}
                    Pieces::Ended => fed.has_ended = over.is_some(),
                }
            }
            Reading::Nowhere => {
                fed.has_ended = over.as_ref().is_some_and(|over| over.load(Ordering::Acquire));
            }
        }
        fed.is_catching_up = !files.is_caught_up && !matches!(reading, Reading::Nowhere);
        fed
    }

    fn restart(&mut self) -> Result<(), Problem> {
        let problem = |what: String| Problem { at: String::new(), what };
        let follow = self.what.follow().map_err(|error| problem(error.to_string()))?;
        self.files.forget();
        self.reading = match &self.reading {
            Reading::Here(_) | Reading::Nowhere => Reading::Here(Box::new(follow)),
            Reading::Beside(beside) => match Beside::start(follow, beside.waker(), self.over.clone()) {
                Ok(beside) => Reading::Beside(beside),
                Err(error) => {
                    self.reading = Reading::Nowhere;
                    return Err(problem(error.to_string()));
                }
            },
        };
        Ok(())
    }

    fn now(&self) -> Millis {
        clock::now_ms()
    }

    fn follows(&self, session: &SessionId) -> bool {
        self.files.groups.contains_key(session.as_str())
    }

    fn wake_with(&mut self, waker: Waker) -> bool {
        if matches!(self.reading, Reading::Here(_))
            && let Reading::Here(follow) = std::mem::replace(&mut self.reading, Reading::Nowhere)
        {
            self.reading = match Beside::start(*follow, waker, self.over.clone()) {
                Ok(beside) => Reading::Beside(beside),
                // Without a thread files are waited for in turns, as before; they are listed again for it.
                Err(_) => match self.what.follow() {
                    Ok(follow) => Reading::Here(Box::new(follow)),
                    Err(_) => Reading::Nowhere,
                },
            };
        }
        matches!(self.reading, Reading::Beside(_))
    }
}

impl Files {
    fn take(&mut self, event: FileEvent<'_>, at: Millis, fold: &mut Fold, fed: &mut Fed) {
        match event {
            FileEvent::Appeared { file, found } => {
                // Files without a session of their own are no session's: each is its own group.
                let key = found.session.clone().unwrap_or_else(|| format!("file {}", file.0));
                let next = self.first_group.saturating_add(self.groups.len() as u32);
                let group = *self.groups.entry(key).or_insert(next);
                let spec = spec(found, group, self.dialect);
                self.sources.insert(file, fold.open(spec.clone()));
                self.specs.insert(file, spec);
            }
            FileEvent::Bytes { file, bytes, .. } => {
                if let Some(source) = self.sources.get(&file) {
                    fold.receive_at(self.is_caught_up.then_some(at));
                    fold.push(*source, bytes);
                    // A meta file is one object without a line end: it is read as often as it is written.
                    if self.specs.get(&file).is_some_and(|spec| spec.dialect == Some(Dialect::ClaudeMeta)) {
                        fold.flush(*source);
                    }
                    fed.has_pushed = true;
                }
            }
            FileEvent::Restarted { .. } => fed.must_restart = true,
            FileEvent::Gone { file } => {
                if let Some(source) = self.sources.remove(&file) {
                    fold.flush(source);
                    fed.has_pushed = true;
                }
            }
            FileEvent::Problem { path, what } => {
                fed.problems.push(Problem { at: path.display().to_string(), what: what.to_owned() });
            }
            FileEvent::CaughtUp => {
                self.is_caught_up = true;
                fed.is_caught_up = true;
            }
        }
    }

    /// Forgets the files: they will appear again, for a fold that knows nothing yet.
    fn forget(&mut self) {
        self.sources.clear();
        self.specs.clear();
        self.is_caught_up = false;
    }
}
