//! Shared context of all commands: settings, environment, terminal, clock, prices, and messages on stderr.

use std::{
    cell::OnceCell,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_client::check_owner;
use subscope_hub::{Budgets, HubOptions};
use subscope_model::{Millis, Problem, Text, Zone};
use subscope_program::{CliError, ErrorKind, Global, Verbosity};
use subscope_render::{Detail, Style, TreeOptions, safe};
use subscope_session::{LimitRule, Limits};

use crate::{
    args::{CliCommand, apply_global},
    clock,
    config::{ConfigPaths, Layer, LoadedConfig, PRICES, Settings, SilenceLimit, load},
    environment::Environment,
    output,
    prices::{self, Prices},
    terminal::{Terminal, TerminalProbe},
};

/// Problems printed individually; the others are only counted, unless `-v` is given. A binary file given by mistake has
/// millions.
const SHOWN_PROBLEMS: usize = 20;

/// Shared context of all commands.
#[derive(Debug)]
pub(crate) struct Context {
    /// Settings of all layers, with their errors.
    pub(crate) config: LoadedConfig,
    /// Environment variables and working directory.
    pub(crate) environment: Environment,
    /// Capabilities of the output terminal.
    pub(crate) terminal: Terminal,
    /// Whether problems in the input are failures instead of warnings.
    is_strict: bool,
    pub(crate) verbosity: Verbosity,
    /// Server given by `--team`, and file given by `--token-file`.
    pub(crate) team_option: Option<String>,
    /// Whether the command may ask a team's server instead of the hub.
    pub(crate) may_ask_team: bool,
    pub(crate) token_file: Option<PathBuf>,
    /// Data directory given by `--store`.
    pub(crate) store_option: Option<PathBuf>,
    /// Wall clock, in milliseconds since 1970.
    pub(crate) clock: fn() -> Millis,
    prices: OnceCell<Prices>,
    zone: OnceCell<Zone>,
}

impl Context {
    /// Returns a project's folder as sessions name it: absolute, with symbolic links resolved if it exists.
    pub(crate) fn project_folder(&self, folder: &Path) -> Text {
        let folder = self.environment.working_folder().join(folder);
        folder.canonicalize().unwrap_or(folder).to_string_lossy().as_ref().into()
    }

    /// Loads the settings and detects the terminal. The options of `command` override settings.
    pub(crate) fn new(
        global: &Global,
        command: Option<&CliCommand>,
        environment: Environment,
        probe: TerminalProbe,
    ) -> Self {
        let paths = ConfigPaths::find(global.config.as_deref(), &environment);
        let mut config = load(paths, &environment);
        apply_global(global, &mut config);
        if let Some(command) = command {
            command.apply_to(&mut config);
        }
        let terminal = Terminal::detect(&config, &environment, probe);
        Self {
            config,
            team_option: global.team.clone(),
            may_ask_team: command.is_none_or(CliCommand::may_ask_team),
            token_file: global.token_file.clone(),
            store_option: global.store.clone(),
            environment,
            terminal,
            is_strict: global.strict,
            verbosity: global.verbosity(),
            clock: subscope_hub::clock::now_ms,
            prices: OnceCell::new(),
            zone: OnceCell::new(),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// Returns the output style, with `width` instead of the terminal's if given.
    pub(crate) fn style(&self, width: Option<usize>) -> Style {
        let style = self.terminal.style();
        Style { width: width.unwrap_or(style.width), ..style }
    }

    /// Returns the data directory, which need not exist.
    ///
    /// # Errors
    /// If neither option, variable nor `HOME` names one.
    pub(crate) fn data_folder(&self) -> Result<PathBuf, CliError> {
        let folder = self.environment.data_folder(self.store_option.as_deref()).ok_or_else(|| {
            CliError::usage("nothing says where data are kept: HOME is not set")
                .hint("--store or SUBSCOPE_DATA_DIR names a folder")
        })?;
        match check_owner(&folder) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && folder.exists() => {
                let error = CliError::because("the data folder is not used", error);
                Err(error.hint("--store or SUBSCOPE_DATA_DIR names a folder of your own"))
            }
            // One that is not there yet is made.
            Ok(()) | Err(_) => Ok(folder),
        }
    }

    pub(crate) fn now_ms(&self) -> Millis {
        (self.clock)()
    }

    /// The time in microseconds since 1970, as the store has it.
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.now_ms()).unwrap_or(0) * 1000
    }

    /// Returns the time zone of days and of displayed times: that of the settings, else of `TZ`, else of the machine, else
    /// UTC. The first call warns of a `TZ` that names none.
    pub(crate) fn zone(&self) -> &Zone {
        self.zone.get_or_init(|| {
            let tz = self.environment.text("TZ").filter(|name| !name.is_empty());
            let found = self.settings().time_zone.clone().or_else(|| clock::zone(tz.as_deref()));
            found.unwrap_or_else(|| {
                if let Some(name) = tz {
                    self.warn(&format!("TZ: {name:?} is no time zone: times and days are those of UTC"));
                }
                Zone::default()
            })
        })
    }

    /// Returns the UTC offset of displayed times, in minutes (positive is east).
    pub(crate) fn offset_minutes(&self) -> i32 {
        self.zone().offset_minutes(self.now_ms())
    }

    /// Returns the prices and their origin; loaded on first use.
    ///
    /// # Errors
    /// If the chosen price file cannot be read or is invalid.
    pub(crate) fn prices(&self) -> Result<&Prices, CliError> {
        if let Some(prices) = self.prices.get() {
            return Ok(prices);
        }
        let read = prices::load(self.settings().prices.as_deref(), self.config.origin(PRICES))?;
        Ok(self.prices.get_or_init(|| read))
    }

    /// Returns the stall limits of the settings.
    pub(crate) fn limits(&self) -> Limits {
        let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let watch = &self.settings().watch;
        // A limit given as an option overrides the rules for harnesses and models.
        let is_overridable = |key| self.config.origin(key).layer != Layer::Flag;
        let rules = watch.limits.iter().map(|SilenceLimit { limits, .. }| LimitRule {
            stall_ms: limits.stall_ms.filter(|_| is_overridable("watch.stall")),
            stall_subagents_ms: limits.stall_subagents_ms.filter(|_| is_overridable("watch.stall_subagents")),
            ..limits.clone()
        });
        Limits {
            stall_ms: ms(watch.stall),
            stall_subagents_ms: ms(watch.stall_subagents),
            stall_open_ms: ms(watch.stall_open),
            rules: rules.collect(),
            ..Limits::default()
        }
    }

    /// Returns the options of a hub in this process that stores nothing.
    ///
    /// # Errors
    /// As [`Self::prices`].
    pub(crate) fn hub_options(&self) -> Result<HubOptions, CliError> {
        Ok(HubOptions {
            prices: self.prices()?.table.clone(),
            limits: self.limits(),
            budgets: Budgets { session: self.settings().budget.session, day: self.settings().budget.day },
            zone: self.zone().clone(),
            ..HubOptions::default()
        })
    }

    /// Returns options that render a whole tree as of now.
    pub(crate) fn tree_options(&self, detail: Detail) -> TreeOptions {
        TreeOptions {
            detail,
            style: self.style(None),
            now: Some(self.now_ms()),
            agent: None,
            offset_minutes: self.offset_minutes(),
            flat: false,
            most: None,
        }
    }

    /// Prints a sanitized warning on stderr, unless quiet.
    pub(crate) fn warn(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.print_labeled("warning", text);
        }
    }

    /// Prints a sanitized message on stderr, unless quiet.
    pub(crate) fn info(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            output::complain(&format!("{}\n", safe::line(text, self.style(None).charset())));
        }
    }

    /// Prints a sanitized note on stderr, if verbose.
    pub(crate) fn debug(&self, text: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.print_labeled("note", text);
        }
    }

    fn print_labeled(&self, label: &str, text: &str) {
        output::complain(&format!("{label}: {}\n", safe::line(text, self.style(None).charset())));
    }

    /// Prints the problems of the input as warnings.
    ///
    /// # Errors
    /// Under `--strict`, if there is any problem (exit code 3).
    pub(crate) fn report(&self, problems: &[Problem]) -> Result<(), CliError> {
        let shown = if self.verbosity == Verbosity::Verbose { problems.len() } else { SHOWN_PROBLEMS };
        for Problem { at, what } in problems.iter().take(shown) {
            self.warn(&format!("{at}: {what}"));
        }
        let rest = problems.len().saturating_sub(shown);
        if rest > 0 {
            self.warn(&format!("{rest} more problems; -v shows them all"));
        }
        if !self.is_strict || problems.is_empty() {
            return Ok(());
        }
        let counted = if problems.len() == 1 { "1 problem" } else { &format!("{} problems", problems.len()) };
        Err(CliError::new(ErrorKind::Input, format!("{counted} in the input, and --strict is given")))
    }
}
