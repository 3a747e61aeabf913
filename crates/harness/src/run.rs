//! How the program of a harness is started and observed by `subscope run`.

use std::{ffi::OsStr, fmt, path::PathBuf};

use subscope_model::{Millis, ProcessActivity};

use crate::{HookHandler, Variables};

/// A version: three numbers.
pub type Version = [u32; 3];

/// How a command is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveMode {
    /// Its output is read as it passes. What it is, and whether agents are in it, is not known: sessions of its
    /// processes are followed.
    AsItIs,
    /// The same, and the terminal that it prints to is its own: in a pipe it would print something else, or nothing.
    AtTerminal,
    /// It prints what it does, by its user's choice.
    Streamed,
    /// It prints its answer alone, by its user's choice: its session is followed.
    Answering,
    /// It was given options that make it print what it does; what is shown is what it would have printed without
    /// ([`RunPlan::plain_output`]).
    Told,
    /// It works with a person at the terminal, and nothing is printed over its screen: hooks report, or its session is
    /// followed.
    Interactive,
    /// It speaks the Agent Client Protocol with the program that starts us: stdin and stdout are read as they pass, and
    /// belong to the two.
    Protocol,
    /// It runs no agent: nothing is read of it.
    Unread,
}

/// Conditions of a run other than its command.
pub struct RunSurroundings<'a> {
    /// Whether a person sits in front of it: stdin and stdout are terminals.
    pub is_terminal: bool,
    /// What the hooks of this run do; `None` if nothing is stored.
    pub hook: Option<&'a HookHandler>,
    /// Asks the program for its version.
    pub version: &'a dyn Fn() -> Option<Version>,
}

/// How a run of the program is observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// How.
    pub mode: ObserveMode,
    /// Options to put in front of its arguments.
    pub added: Vec<String>,
    /// Whether these include hooks.
    pub has_hooks: bool,
}

impl Observed {
    /// The program is started as its user wrote it.
    pub(crate) fn unchanged(mode: ObserveMode) -> Self {
        Self { mode, added: Vec::new(), has_hooks: false }
    }
}

/// What a running process of a harness notes of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessNote {
    /// The process.
    pub process: i32,
    /// The session that it is in; it may change.
    pub session: String,
    /// When the process made the note, by its clock. A stale note is older than the process that now has its number.
    pub started_ms: Millis,
    /// When the process started, as the system tells it on Linux: clock ticks since boot (proc_pid_stat(5), field 22).
    pub start_ticks: Option<String>,
    /// Whether it draws a screen of its own on its terminal.
    pub has_screen: bool,
    /// What it does, and since when; `None` where its version does not tell.
    pub activity: Option<(ProcessActivity, Millis)>,
    /// The tmux pane that it runs in, by its id: `%3`; `None` where it runs in none, or does not tell.
    pub tmux_pane: Option<String>,
}

/// How the program of a harness is started and observed.
pub trait RunPlan: Sync {
    /// The name of the program's file.
    fn program(&self) -> &'static str;

    /// The option that resumes a session, whose id follows.
    fn resume_option(&self) -> &'static str;

    /// Folders below the user's home into which its installers put it.
    fn install_folders(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns how a run of the program with these arguments is observed; `None` as any other command.
    fn observe(&self, arguments: &[&str], around: &RunSurroundings<'_>) -> Option<Observed>;

    /// Whether a run with these arguments goes on in an earlier session. Counts where processes write no notes.
    fn resumes(&self, _: &[&str]) -> bool {
        false
    }

    /// Returns what turns the output of a run that was given options into what it would have printed without; `None`
    /// where [`RunPlan::observe`] adds no options to print more.
    fn plain_output(&self, _: &[&str]) -> Option<Box<dyn PlainOutput>> {
        None
    }

    /// Returns the key under which a call of an MCP tool names, in its `_meta`, the tool call of the model that caused it.
    fn caller_id_key(&self) -> Option<&'static str> {
        None
    }

    /// Returns the notes of its processes; `None` where they write none. Then a session belongs to a run if its
    /// transcript was written while the run lasted, in the same working folder, and it began in the run or is resumed.
    fn notes(&self) -> Option<&'static dyn ProcessNotes> {
        None
    }
}

/// Files in which running processes note which session they are in.
pub trait ProcessNotes: Sync {
    /// Returns their folder. It need not exist.
    fn folder(&self, variables: Variables<'_>) -> PathBuf;

    /// Returns the process whose note a file of this name is.
    fn process(&self, name: &OsStr) -> Option<i32>;

    /// Reads a note; `None` where it is none, or is just being written.
    fn read(&self, bytes: &[u8]) -> Option<ProcessNote>;
}

/// A program that is started as its user wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgentProgram {
    /// The name of its file.
    pub(crate) name: &'static str,
    /// The option that resumes a session, whose id follows.
    pub(crate) resume_option: &'static str,
    /// Options in front of a subcommand whose value is the next word.
    pub(crate) valued: &'static [&'static str],
    /// First words with which it starts no session.
    pub(crate) no_session: &'static [&'static str],
    /// Subcommands with which it serves others, without a screen of its own.
    pub(crate) servers: &'static [&'static str],
    /// Subcommands with which it works without a person.
    pub(crate) one_shot: &'static [&'static str],
    /// Options with which it does.
    pub(crate) one_shot_options: &'static [&'static str],
    /// Options, with their value if they have one, with which it then prints what it does; without them its answer.
    pub(crate) streaming: &'static [(&'static str, Option<&'static str>)],
    /// Words with which it goes on in an earlier session.
    pub(crate) resuming: &'static [&'static str],
}

impl AgentProgram {
    /// Another program with the same command line.
    pub(crate) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

impl RunPlan for AgentProgram {
    fn program(&self) -> &'static str {
        self.name
    }

    fn resume_option(&self) -> &'static str {
        self.resume_option
    }

    fn observe(&self, arguments: &[&str], around: &RunSurroundings<'_>) -> Option<Observed> {
        let words = Words::of(arguments);
        let first = words.first().unwrap_or_default();
        let command = words.positional(self.valued).unwrap_or_default();
        let is_streaming = |(option, value): &(&str, Option<&str>)| match value {
            Some(value) => words.value_of(option) == Some(value),
            None => words.has(option),
        };
        let mode = if self.no_session.contains(&first) {
            ObserveMode::Unread
        } else if self.servers.contains(&command) {
            return None;
        } else if self.one_shot.contains(&command) || words.has_any(self.one_shot_options) {
            let streams = self.streaming.iter().any(is_streaming);
            if streams { ObserveMode::Streamed } else { ObserveMode::Answering }
        } else if around.is_terminal {
            ObserveMode::Interactive
        } else {
            return None;
        };
        Some(Observed::unchanged(mode))
    }

    fn resumes(&self, arguments: &[&str]) -> bool {
        Words::of(arguments).has_any(self.resuming)
    }
}

/// The arguments of a command in front of `--`.
pub(crate) struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    pub(crate) fn of(arguments: &[&'a str]) -> Self {
        Self(arguments.iter().copied().take_while(|word| *word != "--").collect())
    }

    /// The first word.
    pub(crate) fn first(&self) -> Option<&'a str> {
        self.0.first().copied()
    }

    /// The first word that is neither an option nor the value of one of these.
    fn positional(&self, valued: &[&str]) -> Option<&'a str> {
        let mut is_value = false;
        self.0.iter().copied().find(|word| {
            let is_positional = !is_value && !word.starts_with('-');
            is_value = !is_value && valued.contains(word);
            is_positional
        })
    }

    fn position(&self, option: &str) -> Option<usize> {
        self.0.iter().position(|word| word.split_once('=').map_or(*word, |(name, _)| name) == option)
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.position(option).is_some()
    }

    pub(crate) fn has_any(&self, options: &[&str]) -> bool {
        options.iter().any(|option| self.has(option))
    }

    pub(crate) fn value_of(&self, option: &str) -> Option<&'a str> {
        let at = self.position(option)?;
        match self.0.get(at)?.split_once('=') {
            Some((_, value)) => Some(value),
            None => self.0.get(at + 1).copied(),
        }
    }
}

/// Asserts that a program without options of its own is observed as these words say, at a terminal, and as nothing known
/// without words elsewhere.
#[cfg(test)]
pub(crate) fn assert_modes(plan: &dyn RunPlan, modes: &[(&str, Option<ObserveMode>)]) {
    let mode = |words: &str, is_terminal| {
        let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
        let around = RunSurroundings { is_terminal, hook: None, version: &|| None };
        let observed = plan.observe(&words, &around)?;
        assert!(observed.added.is_empty() && !observed.has_hooks);
        Some(observed.mode)
    };
    for (words, expected) in modes {
        assert_eq!(mode(words, true), *expected, "{words}");
    }
    assert_eq!(mode("", false), None);
}

/// Turns the machine-readable output of a program into what it prints for people.
pub trait PlainOutput: fmt::Debug + Send {
    /// Takes the next bytes, cut anywhere, and appends what is to be printed now.
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Appends what is left to print.
    fn finish(&mut self, out: &mut Vec<u8>);
}
