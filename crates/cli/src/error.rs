//! Error type of the binary: kind (which sets the exit code), message, causes, optional hint.

use std::{
    fmt::{self, Write as _},
    io,
    process::ExitCode,
};

use subscope_collect::CollectError;
use subscope_export::{ImportError, SaveError};
use subscope_render::{Charset, safe};

/// Class of an error; decides the exit code (design, "Exit codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
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
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::ClosedPipe => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Input => 3,
        }
    }
}

impl From<ErrorKind> for ExitCode {
    fn from(kind: ErrorKind) -> Self {
        Self::from(kind.code())
    }
}

/// Error of a command.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: ErrorKind,
    cause: anyhow::Error,
    hint: Option<String>,
}

impl CliError {
    /// Returns an error of a kind with its message: a lower-case fragment without a full stop.
    pub(crate) fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, cause: anyhow::Error::msg(message.to_string()), hint: None }
    }

    /// Returns an error of a kind; the causes of `error` are kept.
    pub(crate) fn caused(kind: ErrorKind, error: impl Into<anyhow::Error>) -> Self {
        Self { kind, cause: error.into(), hint: None }
    }

    /// Adds a hint: what the user can do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the kind.
    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the text for stderr, each line with a newline; empty for [`ErrorKind::ClosedPipe`]. Untrusted text (file
    /// names, settings) is sanitised.
    pub(crate) fn render(&self, charset: Charset) -> String {
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
    pub(crate) fn write(what: &str, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::caused(ErrorKind::ClosedPipe, error);
        }
        Self::caused(ErrorKind::Failed, anyhow::Error::new(error).context(format!("cannot write to {what}")))
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.cause)
    }
}

impl From<CollectError> for CliError {
    fn from(error: CollectError) -> Self {
        let hint = error.hint();
        let error = Self::caused(ErrorKind::Failed, error);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl From<SaveError> for CliError {
    fn from(error: SaveError) -> Self {
        Self::caused(ErrorKind::Failed, error)
    }
}

impl From<ImportError> for CliError {
    fn from(error: ImportError) -> Self {
        let kind = match &error {
            ImportError::Read { .. } => ErrorKind::Failed,
            ImportError::TooLarge { .. }
            | ImportError::Invalid { .. }
            | ImportError::NoVersion { .. }
            | ImportError::Version { .. } => ErrorKind::Input,
        };
        Self::caused(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_error_gives_message_causes_and_hint() {
        let cause = io::Error::other("disk on fire");
        let error =
            CliError::caused(ErrorKind::Failed, anyhow::Error::new(cause).context("cannot read \u{1b}[2Jx"));
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
