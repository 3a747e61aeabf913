//! Terminal setup and restore (raw mode, alternate screen, mouse), on every exit path.

mod full_screen;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::{
    io::{self, Write},
    process::Stdio,
    time::Duration,
};

use full_screen::FullScreen;
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

#[cfg(unix)]
pub(super) use unix::SignalListener;
#[cfg(windows)]
pub(super) use windows::NoSignals as SignalListener;

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    buffer::Buffer,
    crossterm::{
        cursor::{Hide, Show},
        event::{
            DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
            EnableFocusChange, EnableMouseCapture,
        },
        execute,
        style::Print,
        terminal::{self, EnterAlternateScreen, LeaveAlternateScreen},
    },
    layout::Rect,
};

/// Synchronized output (DEC mode 2026): the terminal shows the frame at once; terminals without it ignore the sequence.
const BEGIN_FRAME: &str = "\u{1b}[?2026h";
const END_FRAME: &str = "\u{1b}[?2026l";

/// Saves the window's title on the terminal's stack, and restores it (XTWINOPS); others ignore the sequences.
const SAVE_TITLE: &str = "\u{1b}[22;2t";
const RESTORE_TITLE: &str = "\u{1b}[23;2t";

/// Most characters of a desktop notification.
const MAX_NOTIFICATION: usize = 120;

/// Time for a clean shutdown after a signal, before the process is ended. The main loop may hang: crossterm 0.29 reads
/// the end-of-file of a closed terminal for ever, and the host may be busy with a long question.
const GRACE: Duration = Duration::from_secs(3);

/// The terminal in full-screen mode; restored on drop.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<io::BufWriter<io::Stdout>>>,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // Restored first, so that the panic message stays visible.
            restore();
            before(panic);
        }));
        enter_full_screen()?;
        // Large enough for one write per frame.
        let out = io::BufWriter::with_capacity(256 << 10, io::stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out)).inspect_err(|_| {
            // The first error is reported.
            let _ = leave_full_screen();
        })?;
        Ok(Self { terminal })
    }

    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    pub(super) fn draw(&mut self, mut work: impl FnMut(Rect, &mut Buffer)) -> io::Result<()> {
        // The signal thread may have restored the terminal already.
        if !FULL_SCREEN.is_entered() {
            return Ok(());
        }
        self.terminal.backend_mut().write_all(BEGIN_FRAME.as_bytes())?;
        self.terminal.draw(|frame| work(frame.area(), frame.buffer_mut()))?;
        self.write(END_FRAME)
    }

    /// Writes a control sequence and flushes.
    pub(super) fn write(&mut self, sequence: &str) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(sequence.as_bytes())?;
        Write::flush(out)
    }

    /// Restores the terminal, stops the process where a shell can continue it, and returns to full-screen mode on resume.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        leave_full_screen()?;
        system::stop()?;
        self.resume()
    }

    /// Shows a text in the editor or pager. Returns an error message for the user.
    pub(super) fn open(&mut self, text: &str, editor: Option<&str>) -> io::Result<Option<String>> {
        leave_full_screen()?;
        let outcome = open_in_editor(text, editor);
        self.resume()?;
        Ok(outcome.err().map(|error| format!("cannot open it: {error}")))
    }

    fn resume(&mut self) -> io::Result<()> {
        enter_full_screen()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be closed already.
        let _ = leave_full_screen();
    }
}

/// Of the terminal of this process.
static FULL_SCREEN: FullScreen = FullScreen::new();

fn enter_full_screen() -> io::Result<()> {
    FULL_SCREEN.enter(|| {
        terminal::enable_raw_mode()?;
        let entered = execute!(
            io::stdout(),
            Print(SAVE_TITLE),
            EnterAlternateScreen,
            EnableMouseCapture,
            EnableBracketedPaste,
            EnableFocusChange,
            Hide
        );
        entered.inspect_err(|_| {
            // The first error is reported.
            let _ = write_restore();
        })
    })
}

/// Restores the terminal; to be called before ending the process while the UI runs. Idempotent.
pub fn restore() {
    // The process is ending: an error cannot be shown.
    if FULL_SCREEN.leave_within(GRACE, write_restore).is_none() {
        // The thread that restores the terminal is stuck in a write. This is no write.
        let _ = terminal::disable_raw_mode();
    }
}

fn leave_full_screen() -> io::Result<()> {
    FULL_SCREEN.leave(write_restore)
}

fn write_restore() -> io::Result<()> {
    // Cleared first: a tmux pane that was resized meanwhile keeps lines of the alternate screen (observed: tmux 3.3a).
    let clear = terminal::Clear(terminal::ClearType::All);
    let left = execute!(
        io::stdout(),
        clear,
        DisableBracketedPaste,
        DisableFocusChange,
        DisableMouseCapture,
        LeaveAlternateScreen,
        Print(RESTORE_TITLE),
        Show
    );
    terminal::disable_raw_mode().and(left)
}

/// Writes the text to a temporary file and opens it with `editor`, a shell command.
fn open_in_editor(text: &str, editor: Option<&str>) -> io::Result<()> {
    let Some(editor) = editor else {
        return Err(io::Error::other("neither EDITOR nor PAGER is set"));
    };
    let mut file = tempfile::Builder::new().prefix("subscope-").suffix(".txt").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    // Like git: EDITOR is a shell command that may have options.
    let status = system::shell(editor, file.path()).stdin(Stdio::inherit()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{editor} ended with {status}"))) }
}

/// Returns the escape sequence that sets the window's title (OSC 2) to the program's name, with the number of agents
/// that wait for a person.
pub(super) fn title(waiting: u32) -> String {
    let count = if waiting > 0 { format!("({waiting}) ") } else { String::new() };
    format!("\u{1b}]2;{count}subscope\u{7}")
}

/// Returns the escape sequence of a desktop notification (OSC 9), without control characters in `words`.
pub(super) fn notification(words: &str) -> String {
    let words: String =
        words.chars().filter(|character| !character.is_control()).take(MAX_NOTIFICATION).collect();
    format!("\u{1b}]9;{words}\u{7}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_holds_no_control_of_its_own() {
        assert_eq!(notification("a\u{7}\u{1b}]b"), "\u{1b}]9;a]b\u{7}");
        assert!(notification(&"x".repeat(1_000)).len() < 200);
    }
}
