//! How the program of a harness is started and observed by `subscope run`.

use std::{ffi::OsStr, fmt, path::PathBuf};

use subscope_model::Millis;

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
    /// It works with a person at the terminal: hooks report, and nothing is printed over its screen.
    Interactive,
    /// It runs no agent: nothing is read of it.
    Unread,
}

/// What a run depends on besides its command.
pub struct RunSurroundings<'a> {
    /// Whether a person sits in front of it: stdin and stdout are terminals.
    pub is_terminal: bool,
    /// What hooks of this run are to do; `None` where nothing is kept.
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

/// What a running process of a harness notes of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessNote {
    /// The process.
    pub process: i32,
    /// The session that it is in; it may change.
    pub session: String,
    /// When the process made the note, by its clock. A note that was left behind is older than a process that has its
    /// number now.
    pub started_ms: Millis,
    /// Whether it draws a screen of its own on its terminal.
    pub has_screen: bool,
}

/// How the program of a harness is started and observed.
pub trait RunPlan: Sync {
    /// The name of the program's file.
    fn program(&self) -> &'static str;

    /// The option that resumes a session, whose id follows.
    fn resume_option(&self) -> &'static str;

    /// Folders below the user's home into which its installers put it.
    fn install_folders(&self) -> &'static [&'static str];

    /// Returns how a run of the program with these arguments is observed; `None` as any other command.
    fn observe(&self, arguments: &[&str], around: &RunSurroundings<'_>) -> Option<Observed>;

    /// Returns what turns the output of a run that was given options into what it would have printed without.
    fn plain_output(&self, arguments: &[&str]) -> Box<dyn PlainOutput>;

    /// Returns the key under which a call of an MCP tool names, in its `_meta`, the tool call of the model that caused it.
    fn caller_id_key(&self) -> Option<&'static str>;

    /// Returns the folder in which running processes note which session they are in. It need not exist.
    fn notes_folder(&self, variables: Variables<'_>) -> PathBuf;

    /// Returns the process whose note a file of this name is.
    fn process_of_note(&self, name: &OsStr) -> Option<i32>;

    /// Reads a note; `None` where it is none, or is just being written.
    fn read_note(&self, bytes: &[u8]) -> Option<ProcessNote>;
}

/// Turns the machine-readable output of a program into what it prints for people.
pub trait PlainOutput: fmt::Debug + Send {
    /// Takes the next bytes, cut anywhere, and appends what is to be printed now.
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Appends what is left to print.
    fn finish(&mut self, out: &mut Vec<u8>);
}
