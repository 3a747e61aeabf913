//! What every command gets: settings, environment, terminal, clock, prices, and the ways to speak on stderr.

use std::{cell::OnceCell, path::PathBuf};

use subscope_model::{Millis, Problem};
use subscope_render::{Style, safe};

use crate::{
    args::Global,
    clock,
    config::{Loaded, Places, Raw, Settings, load},
    environment::Environment,
    error::{CliError, Kind},
    output,
    prices::{self, Prices},
    terminal::{Probe, Terminal},
};

/// Problems that are printed one by one; the rest are counted, unless `-v` asks for all. A binary file given by
/// mistake has millions.
const SHOWN_PROBLEMS: usize = 20;

/// Whether problems in the input are failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// They are warnings.
    Lenient,
    /// They make the command fail.
    Strict,
}

/// How much is said on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chattiness {
    /// Errors only.
    Quiet,
    /// Also warnings.
    Normal,
    /// Also what is done, and every problem.
    Verbose,
}

/// What every command gets.
#[derive(Debug)]
pub(crate) struct Context {
    /// Settings of all layers, and what is wrong with them.
    pub(crate) config: Loaded,
    /// Variables and working folder.
    pub(crate) environment: Environment,
    /// What stdout can show.
    pub(crate) terminal: Terminal,
    /// Whether problems in the input are failures.
    pub(crate) strictness: Strictness,
    /// How much is said on stderr.
    pub(crate) chattiness: Chattiness,
    /// The folder for data, where `--store` names one.
    pub(crate) store_option: Option<PathBuf>,
    /// Gives milliseconds since 1970.
    pub(crate) clock: fn() -> Millis,
    prices: OnceCell<Prices>,
}

impl Context {
    /// Returns the context of a command with its flags.
    pub(crate) fn new(global: &Global, flags: Raw, environment: Environment, probe: Probe) -> Self {
        let places = Places::find(global.config.as_deref(), &environment);
        let config = load(places, &environment, global.settings().over(flags));
        let terminal = Terminal::conclude(&config.settings.display, &environment, probe);
        Self {
            config,
            store_option: global.store.clone(),
            environment,
            terminal,
            strictness: if global.strict { Strictness::Strict } else { Strictness::Lenient },
            chattiness: global.chattiness(),
            clock: subscope_hub::clock::now_ms,
            prices: OnceCell::new(),
        }
    }

    /// The settings that hold.
    pub(crate) fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// Returns how output is to look, in the given width where one is asked for.
    pub(crate) fn style(&self, width: Option<usize>) -> Style {
        let style = self.terminal.style();
        Style { width: width.unwrap_or(style.width), ..style }
    }

    /// Returns the folder for data. It need not exist.
    ///
    /// # Errors
    /// Where nothing tells which it is.
    pub(crate) fn data_folder(&self) -> Result<PathBuf, CliError> {
        self.environment.data_folder(self.store_option.as_deref()).ok_or_else(|| {
            CliError::new(Kind::Usage, "nothing says where data are kept: HOME is not set")
                .hint("--store or SUBSCOPE_DATA_DIR names a folder")
        })
    }

    /// Returns milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> Millis {
        (self.clock)()
    }

    /// Returns minutes east of UTC of the clock times that are shown.
    pub(crate) fn offset_minutes(&self) -> i32 {
        clock::offset_minutes(self.now_ms())
    }

    /// Returns the prices and where they come from; read when first asked for.
    ///
    /// # Errors
    /// Where a file of prices is named that cannot be read or is wrong.
    pub(crate) fn prices(&self) -> Result<&Prices, CliError> {
        if let Some(prices) = self.prices.get() {
            return Ok(prices);
        }
        let read = prices::load(self.settings().prices.file.as_ref())?;
        Ok(self.prices.get_or_init(|| read))
    }

    /// Prints a warning on stderr, made safe, unless all is to be quiet.
    pub(crate) fn warn(&self, text: &str) {
        if self.chattiness >= Chattiness::Normal {
            self.speak("warning", text);
        }
    }

    /// Says on stderr what is being done, made safe, unless all is to be quiet.
    pub(crate) fn say(&self, text: &str) {
        if self.chattiness >= Chattiness::Normal {
            output::complain(&format!("{}\n", safe::line(text, self.style(None).charset())));
        }
    }

    /// Prints what is done on stderr, made safe, under `-v`.
    pub(crate) fn note(&self, text: &str) {
        if self.chattiness >= Chattiness::Verbose {
            self.speak("note", text);
        }
    }

    fn speak(&self, label: &str, text: &str) {
        output::complain(&format!("{label}: {}\n", safe::line(text, self.style(None).charset())));
    }

    /// Prints the problems of the input as warnings.
    ///
    /// # Errors
    /// Under `--strict`, where there is any: the exit code is then 3.
    pub(crate) fn report(&self, problems: &[Problem]) -> Result<(), CliError> {
        let shown = if self.chattiness == Chattiness::Verbose { problems.len() } else { SHOWN_PROBLEMS };
        for Problem { at, what } in problems.iter().take(shown) {
            self.warn(&format!("{at}: {what}"));
        }
        let rest = problems.len().saturating_sub(shown);
        if rest > 0 {
            self.warn(&format!("{rest} more problems; -v shows them all"));
        }
        match self.strictness {
            Strictness::Strict if !problems.is_empty() => {
                let message = format!("{} in the input, and --strict is given", counted(problems.len()));
                Err(CliError::new(Kind::Input, message))
            }
            Strictness::Strict | Strictness::Lenient => Ok(()),
        }
    }
}

fn counted(problems: usize) -> String {
    if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") }
}
