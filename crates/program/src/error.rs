//! Error type of the programs: kind (which sets the exit code), message, causes, optional hint.

use std::{
    error::Error,
    fmt::{self, Write as _},
    io,
};

use subscope_collect::CollectError;
use subscope_export::ImportError;
use subscope_render::{Charset, safe};
use subscope_store::{OpenError, RepairError};

/// Class of an error; decides the exit code (design, "Exit codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The requested thing is missing, empty or failed.
    Failed,
    /// The command line, a setting or a settings file is wrong.
    Usage,
    /// Nothing in the input could be used, or it has any problem under `--strict`.
    Input,
    /// The reader of our output closed the pipe; not a failure.
    ClosedPipe,
}

impl ErrorKind {
    /// Returns the exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::ClosedPipe => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Input => 3,
        }
    }
}

/// An error of a command, for the user.
#[derive(Debug)]
pub struct CliError {
    kind: ErrorKind,
    cause: anyhow::Error,
    hint: Option<String>,
}

impl CliError {
    /// Returns an error of a kind with its message: a lower-case fragment without a full stop.
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, cause: anyhow::Error::msg(message.to_string()), hint: None }
    }

    /// Returns an [`ErrorKind::Failed`] with its message.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// Returns an [`ErrorKind::Usage`] with its message.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Returns an error of a kind; the causes of `error` are kept.
    pub fn caused(kind: ErrorKind, error: impl Error + Send + Sync + 'static) -> Self {
        Self::from(error).of_kind(kind)
    }

    /// Returns an [`ErrorKind::Failed`] with its message and cause.
    pub fn because(message: impl fmt::Display, error: impl Error + Send + Sync + 'static) -> Self {
        let cause = anyhow::Error::new(error).context(message.to_string());
        Self { kind: ErrorKind::Failed, cause, hint: None }
    }

    /// Adds a hint: what the user can do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error with another kind.
    pub fn of_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the text for stderr, each line with a newline; empty for [`ErrorKind::ClosedPipe`]. Untrusted text (file
    /// names, settings) is sanitized.
    pub fn render(&self, charset: Charset) -> String {
        let mut out = String::new();
        if self.kind == ErrorKind::ClosedPipe {
            return out;
        }
        for (at, cause) in self.cause.chain().enumerate() {
            let label = if at == 0 { "subscope" } else { "  caused by" };
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{label}: {}", safe::line(&cause.to_string(), charset));
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "hint: {}", safe::line(hint, charset));
        }
        out
    }

    /// Returns the error of a failed write to `what`; [`ErrorKind::ClosedPipe`] if the reader has left.
    pub fn write(what: impl fmt::Display, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::caused(ErrorKind::ClosedPipe, error);
        }
        Self::because(format!("cannot write to {what}"), error)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.cause)
    }
}

/// The kind is [`ErrorKind::Failed`], or [`ErrorKind::Input`] for what is wrong in an imported file.
impl<E: Error + Send + Sync + 'static> From<E> for CliError {
    fn from(error: E) -> Self {
        let cause = anyhow::Error::new(error);
        let is_input = |error: &ImportError| !matches!(error, ImportError::Read { .. });
        let is_input = cause.downcast_ref().is_some_and(is_input);
        let kind = if is_input { ErrorKind::Input } else { ErrorKind::Failed };
        let hint = cause.downcast_ref().and_then(CollectError::hint);
        let repair = || match cause.downcast_ref()? {
            RepairError::Open(error) => store_hint(error),
            RepairError::Store(_) => None,
        };
        let hint = hint.or_else(|| cause.downcast_ref().and_then(store_hint)).or_else(repair);
        Self { kind, cause, hint }
    }
}

/// Returns what helps where the files of a store cannot be used.
fn store_hint(error: &OpenError) -> Option<String> {
    match error {
        OpenError::Folder { path, .. } | OpenError::Database { path, .. } => Some(format!(
            "this user needs to own {0} and to be able to write in it (ls -la {0}); --store or SUBSCOPE_DATA_DIR names \
             another folder",
            path.display()
        )),
        OpenError::Full(path) => Some(format!(
            "make room on the disk of {}: what is stored stays, and can be read meanwhile",
            path.display()
        )),
        OpenError::OtherVersion { .. } => Some(
            "use the newer subscope that wrote it, or another data folder (--store, SUBSCOPE_DATA_DIR); do not delete \
             the store, which alone has what programs published and sessions without a transcript"
                .to_owned(),
        ),
        OpenError::Locked(_) => Some("`subscope serve --stop` ends the hub that holds it".to_owned()),
        OpenError::Missing(_) | OpenError::Damaged { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_error_gives_message_causes_and_hint() {
        let cause = io::Error::other("disk on fire");
        let error = CliError::because("cannot read \u{1b}[2Jx", cause);
        let text = error.hint("buy a\nnew one").render(Charset::Unicode);
        assert_eq!(text, "subscope: cannot read ␛[2Jx\n  caused by: disk on fire\nhint: buy a new one\n");
    }

    #[test]
    fn closed_pipe_is_quiet_and_no_failure() {
        let error = CliError::write("stdout", io::ErrorKind::BrokenPipe.into());
        assert_eq!((error.kind().code(), error.render(Charset::Ascii)), (0, String::new()));
        let error = CliError::write("stdout", io::ErrorKind::StorageFull.into());
        assert_eq!(error.kind().code(), 1);
    }

    #[test]
    fn import_errors_tell_what_is_missing_from_what_is_wrong() {
        let read = ImportError::Read { path: "x".into(), source: io::ErrorKind::NotFound.into() };
        let old = ImportError::Version { path: "x".into(), found: "2".into(), supported: "1.0.0" };
        assert_eq!(
            (CliError::from(read).kind(), CliError::from(old).kind()),
            (ErrorKind::Failed, ErrorKind::Input)
        );
    }
}
