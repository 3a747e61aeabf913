//! Destinations of a generated session's lines: memory or a directory.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use subscope_model::{Millis, Text};

/// One file or stream of a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The main transcript.
    Main,
    /// The transcript of the subagent of that id.
    Agent(Text),
    /// The harness's metadata of that subagent: a later line replaces the earlier.
    Meta(Text),
    /// The printed stream.
    Stream,
    /// The hook payloads.
    Hooks,
}

/// Takes the lines of a session, in order of time.
pub trait Outlet {
    /// Receives the session's id and directory before the first line.
    fn begin(&mut self, session: &str, cwd: &str) -> io::Result<()>;

    /// Takes one line, without its line end, and the time when it was written or received.
    fn line(&mut self, source: &Source, at: Millis, line: &str) -> io::Result<()>;

    /// Receives the end of a source.
    fn end(&mut self, source: &Source) -> io::Result<()>;
}

/// One line of a session in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedLine {
    /// Its source.
    pub source: Source,
    /// When it was written or received; stream lines and hook payloads do not all say it themselves.
    pub at: Millis,
    /// The line, without its line end.
    pub line: String,
}

/// Keeps a session's lines in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All lines of all sources, in order of time.
    pub lines: Vec<RecordedLine>,
}

impl Outlet for Memory {
    fn begin(&mut self, _session: &str, _cwd: &str) -> io::Result<()> {
        Ok(())
    }

    fn line(&mut self, source: &Source, at: Millis, line: &str) -> io::Result<()> {
        self.lines.push(RecordedLine { source: source.clone(), at, line: line.to_owned() });
        Ok(())
    }

    fn end(&mut self, _source: &Source) -> io::Result<()> {
        Ok(())
    }
}

impl Memory {
    /// The sources, each once, in order of their first line.
    pub fn sources(&self) -> Vec<Source> {
        let mut seen = std::collections::HashSet::new();
        self.lines.iter().map(|line| &line.source).filter(|source| seen.insert(*source)).cloned().collect()
    }

    /// The lines of one source, in order. Of a meta file only the last line is what its file holds.
    pub fn lines_of<'a>(&'a self, source: &'a Source) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter(move |line| line.source == *source).map(|line| line.line.as_str())
    }

    /// Returns the final content of a source's file.
    pub fn bytes(&self, source: &Source) -> Vec<u8> {
        if matches!(source, Source::Meta(_)) {
            return self.lines_of(source).last().unwrap_or_default().as_bytes().to_vec();
        }
        self.lines_of(source).flat_map(|line| line.bytes().chain([b'\n'])).collect()
    }
}

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 256 << 10;

/// Writes a session into a folder:
///
/// ```text
/// projects/<cwd with - for />/<session>.jsonl
/// projects/<cwd …>/<session>/subagents/agent-<id>.jsonl, agent-<id>.meta.json
/// streams/<session>.jsonl    hooks/<session>.jsonl
/// ```
///
/// Transcripts of subagents are kept in memory until they end, so that a session may have more open agents than a
/// process may have open files.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    project: PathBuf,
    session: String,
    open: HashMap<Source, BufWriter<File>>,
    agents: HashMap<Source, Vec<u8>>,
}

impl Disk {
    /// An outlet into `folder`, which is made where it does not exist.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            project: PathBuf::new(),
            session: String::new(),
            open: HashMap::new(),
            agents: HashMap::new(),
        }
    }

    /// Flushes all buffers.
    pub fn finish(self) -> io::Result<()> {
        for mut file in self.open.into_values() {
            file.flush()?;
        }
        Ok(())
    }

    fn path(&self, source: &Source) -> PathBuf {
        let Self { folder, project, session, .. } = self;
        let subagents = project.join(session).join("subagents");
        match source {
            Source::Main => project.join(format!("{session}.jsonl")),
            Source::Agent(id) => subagents.join(format!("agent-{id}.jsonl")),
            Source::Meta(id) => subagents.join(format!("agent-{id}.meta.json")),
            Source::Stream => folder.join(format!("streams/{session}.jsonl")),
            Source::Hooks => folder.join(format!("hooks/{session}.jsonl")),
        }
    }

    fn write(&self, source: &Source, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(source);
        make_parent(&path)?;
        fs::write(path, bytes)
    }
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

impl Outlet for Disk {
    fn begin(&mut self, session: &str, cwd: &str) -> io::Result<()> {
        session.clone_into(&mut self.session);
        self.project = self.folder.join("projects").join(cwd.replace('/', "-"));
        fs::create_dir_all(&self.project)
    }

    fn line(&mut self, source: &Source, _at: Millis, line: &str) -> io::Result<()> {
        match source {
            Source::Meta(_) => self.write(source, line.as_bytes()),
            Source::Agent(_) => {
                let bytes = self.agents.entry(source.clone()).or_default();
                bytes.extend_from_slice(line.as_bytes());
                bytes.push(b'\n');
                Ok(())
            }
            Source::Main | Source::Stream | Source::Hooks => {
                if !self.open.contains_key(source) {
                    let path = self.path(source);
                    make_parent(&path)?;
                    self.open
                        .insert(source.clone(), BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?));
                }
                let Some(file) = self.open.get_mut(source) else { return Ok(()) };
                file.write_all(line.as_bytes())?;
                file.write_all(b"\n")
            }
        }
    }

    fn end(&mut self, source: &Source) -> io::Result<()> {
        if let Some(bytes) = self.agents.remove(source) {
            self.write(source, &bytes)?;
        }
        match self.open.remove(source) {
            Some(mut file) => file.flush(),
            None => Ok(()),
        }
    }
}
