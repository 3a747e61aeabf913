//! How a child process ended.

use std::io;

/// Number of the signal of a closed pipe on every Unix, SIGPIPE.
const BROKEN_PIPE: i32 = 13;

/// Exit of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildExit {
    /// Exit code.
    Code(i32),
    /// Signal number.
    Signal(i32),
}

impl ChildExit {
    /// Returns the exit code; 128 + signal number after a signal.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => 128 + number,
        }
    }

    /// Returns the exit that the child would have had if it had written to our output itself and that failed: SIGPIPE
    /// if the reader closed it, else 1. With our pipe in between, the child does not notice a failure of its last
    /// writes. A child that failed for another reason keeps its exit.
    #[must_use]
    pub fn with_output(self, failure: Option<&io::Error>) -> Self {
        let Some(error) = failure else { return self };
        let by_pipe = Self::Signal(BROKEN_PIPE);
        if error.kind() == io::ErrorKind::BrokenPipe {
            return if self == Self::Code(0) { by_pipe } else { self };
        }
        // We close the pipe, which ends the child by SIGPIPE; a shell reports that as an exit code.
        let is_unaware = self.code() == 0 || self.code() == by_pipe.code();
        if is_unaware { Self::Code(1) } else { self }
    }
}
