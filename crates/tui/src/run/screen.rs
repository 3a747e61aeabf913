//! The terminal: taken over, and given back as it was on every way out.

use std::{
    io::{self, Write},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    buffer::Buffer,
    crossterm::{
        cursor::{Hide, Show},
        event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture},
        execute,
        terminal::{self, EnterAlternateScreen, LeaveAlternateScreen},
    },
    layout::Rect,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

/// Begins a frame that terminals show at once, and ends it (synchronized output); those that do not know it pass over it.
const BEGIN_FRAME: &str = "\u{1b}[?2026h";
const END_FRAME: &str = "\u{1b}[?2026l";

/// The longest message that is told through the terminal.
const MOST_MESSAGE: usize = 120;

/// How long the program may take to end in its own way after a signal. Keys are waited for in a library that never returns from
/// a terminal that is gone (crossterm 0.29 reads its end for ever), and whoever answers may be in a long question.
const GRACE: Duration = Duration::from_secs(3);

/// Signals that end programs: the loop sees them and ends in its own way.
pub(super) struct Signals {
    number: Arc<AtomicI32>,
}

impl Signals {
    /// Listens from now on, on a thread that ends the process where the loop does not.
    pub(super) fn listen() -> io::Result<Self> {
        let number = Arc::new(AtomicI32::new(0));
        let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT])?;
        let told = Arc::clone(&number);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            told.store(signal, Ordering::Release);
            std::thread::sleep(GRACE);
            restore();
            std::process::exit(128 + signal);
        })?;
        Ok(Self { number })
    }

    /// The signal that has come, if any.
    pub(super) fn pending(&self) -> Option<i32> {
        Some(self.number.load(Ordering::Acquire)).filter(|number| *number != 0)
    }
}

/// A terminal that is taken over, until this is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<io::BufWriter<io::Stdout>>>,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // What the panic says is to be read.
            let _ = leave();
            before(panic);
        }));
        take_over()?;
        // One write a frame.
        let out = io::BufWriter::with_capacity(256 << 10, io::stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out)).inspect_err(|_| {
            // That it cannot be drawn on is what is told.
            let _ = leave();
        })?;
        Ok(Self { terminal })
    }

    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    pub(super) fn draw(&mut self, mut work: impl FnMut(Rect, &mut Buffer)) -> io::Result<()> {
        // Whoever ends the process may have given it back already.
        if !IS_TAKEN.load(Ordering::Acquire) {
            return Ok(());
        }
        self.terminal.backend_mut().write_all(BEGIN_FRAME.as_bytes())?;
        self.terminal.draw(|frame| work(frame.area(), frame.buffer_mut()))?;
        self.write(END_FRAME)
    }

    /// Writes a sequence that draws nothing.
    pub(super) fn write(&mut self, sequence: &str) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(sequence.as_bytes())?;
        Write::flush(out)
    }

    /// Sleeps until somebody wakes the program.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        leave()?;
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.return_to()
    }

    /// Shows a text in another program. Returns what went wrong, for the person.
    pub(super) fn open(&mut self, text: &str, editor: Option<&str>) -> io::Result<Option<String>> {
        leave()?;
        let outcome = show(text, editor);
        self.return_to()?;
        Ok(outcome.err().map(|error| format!("cannot open it: {error}")))
    }

    fn return_to(&mut self) -> io::Result<()> {
        take_over()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = leave();
    }
}

/// Whether the terminal is taken over: it is given back once, whoever is first.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

fn take_over() -> io::Result<()> {
    terminal::enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::Release);
    let entered =
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste, Hide);
    entered.inspect_err(|_| {
        // The first error is the one to tell.
        let _ = leave();
    })
}

/// Gives the terminal back, for whoever ends the process while the UI runs. Harmless where it was given back already.
pub fn restore() {
    // There is nobody left to tell.
    let _ = leave();
}

fn leave() -> io::Result<()> {
    if !IS_TAKEN.swap(false, Ordering::AcqRel) {
        return Ok(());
    }
    // Cleared first: a tmux pane that was resized meanwhile keeps lines of what it should forget (observed: tmux 3.3a).
    let clear = terminal::Clear(terminal::ClearType::All);
    let left =
        execute!(io::stdout(), clear, DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, Show);
    terminal::disable_raw_mode().and(left)
}

/// Writes the text into a file of its own and shows it with the command, which may have options.
fn show(text: &str, editor: Option<&str>) -> io::Result<()> {
    let Some(editor) = editor else {
        return Err(io::Error::other("neither EDITOR nor PAGER is set"));
    };
    let mut file = tempfile::Builder::new().prefix("subscope-").suffix(".txt").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    // As git and others do it: the variable is a command of the shell.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .stdin(Stdio::inherit())
        .status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{editor} ended with {status}"))) }
}

/// Returns the sequence that tells something to a person that looks elsewhere (OSC 9), with nothing in it that acts.
pub(super) fn notification(words: &str) -> String {
    let words: String =
        words.chars().filter(|character| !character.is_control()).take(MOST_MESSAGE).collect();
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
