//! Hooks of a harness: how they are installed, and what our hooks look like.

use std::path::{Path, PathBuf};

use subscope_decode::Dialect;
use subscope_model::is_windows_path;

use crate::{HookTrust, PluginSetup, Variables, Version};

/// The program's name, by which a hook of another copy is known as ours, too: the path differs after an update.
pub const PROGRAM: &str = "subscope";

/// Scope of the edited settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsScope {
    /// All sessions of this user.
    User,
    /// All users of the project in the working folder.
    Project,
    /// The project in the working folder, on this machine.
    Local,
}

/// A hook event to subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookEvent {
    /// The event.
    pub name: &'static str,
    /// Whether it is never sent over HTTP and needs a command.
    pub command_only: bool,
}

impl HookEvent {
    /// Returns an event that a command takes, or a post where the harness can post.
    pub const fn new(name: &'static str) -> Self {
        Self { name, command_only: false }
    }
}

/// Why a text cannot be edited as settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {what}")]
pub struct SettingsError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong; a lower-case fragment.
    pub what: String,
}

/// The hooks of a harness.
pub trait HookSupport: Sync {
    /// The dialect of their payloads.
    fn dialect(&self) -> Dialect;

    /// The route at which a hub takes payloads.
    fn route(&self) -> &'static str;

    /// Returns the file with these settings; `None` where there is no place for it. It need not exist.
    fn settings_file(
        &self,
        scope: SettingsScope,
        variables: Variables<'_>,
        working_folder: &Path,
    ) -> Option<PathBuf>;

    /// Returns the events that are worth a hook and that a version takes; without a version, those that every version
    /// takes.
    fn events(&self, version: Option<Version>) -> Vec<HookEvent>;

    /// The first version that ignores events in its settings that it does not know, and not the whole file; `None`
    /// where all do.
    fn forgives_since(&self) -> Option<Version> {
        None
    }

    /// The first version of which hooks name their agent, where there was one without.
    fn names_agents_since(&self) -> Option<Version> {
        None
    }

    /// The first version that can post events by itself; `None` where none can.
    fn posts_since(&self) -> Option<Version> {
        None
    }

    /// Whether payloads name their event. Where they do not, the command of a hook does.
    fn names_events(&self) -> bool {
        true
    }

    /// Returns a payload as its decoder takes it. `event` is what the command names, if it names one.
    fn payload(&self, _event: Option<&str>, payload: Vec<u8>) -> Vec<u8> {
        payload
    }

    /// Returns its name of an event, which a plugin made for another harness may name otherwise.
    fn own_event<'e>(&self, event: &'e str) -> &'e str {
        event
    }

    /// How it is known which hooks its user trusts; `None` where it runs all.
    fn trust(&self) -> Option<&'static HookTrust> {
        None
    }

    /// How an installed plugin of ours is found; `None` where there is no plugin.
    fn plugin(&self) -> Option<&'static PluginSetup> {
        None
    }

    /// Whether this harness runs a hook whose command names no harness: it reads settings or plugins made for another. It
    /// is known by variables that it sets for hooks, or by its payloads. Variables that processes below inherit say nothing:
    /// its agents may start another harness.
    fn is_caller(&self, _variables: Variables<'_>, _payload: &[u8]) -> bool {
        false
    }

    /// Whether the settings name a command that prints a status line.
    fn has_status_line(&self) -> bool {
        false
    }

    /// Returns the environment variables in its settings with which the harness sends OpenTelemetry records to a hub at
    /// `url`; none where its settings have no such variables.
    fn otel_variables(&self, _url: &str) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What a user has to do after an installation before the hooks run; a sentence without its end.
    fn next_step(&self) -> Option<&'static str> {
        None
    }

    /// Reads a text as settings. One without any value counts as empty settings.
    ///
    /// # Errors
    /// Where the text cannot be edited.
    fn settings(&self, text: &str) -> Result<Box<dyn HookSettings>, SettingsError>;
}

/// Settings that are edited in place: everything but our hooks stays as it is written.
pub trait HookSettings {
    /// Returns the text.
    fn text(&self) -> String;

    /// Returns our hooks with their events, in the order of the file.
    fn ours(&self) -> Vec<(String, HookHandler)>;

    /// Whether the settings disable all hooks.
    fn disables_hooks(&self) -> bool {
        false
    }

    /// Returns what keeps the harness from running hooks of this file, each as a phrase that follows the file's name.
    fn obstacles(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Makes our hooks those of `wanted`, by event. Correct ones are not touched, other hooks of ours are removed.
    fn install(&self, wanted: &[(&str, HookHandler)]);

    /// Returns the command of the status line, or its whole value if it has none; `None` if there is none.
    fn status_line(&self) -> Option<String> {
        None
    }

    /// Makes a command print the status line. Does nothing if the harness has no status line.
    fn set_status_line(&self, _command: &str) {}

    /// Returns as much of these settings as [`remove`](Self::remove) and [`remove_variables`](Self::remove_variables) ask
    /// of the text before our first hook: names of lists, and no value.
    fn outline(&self) -> String {
        String::new()
    }

    /// Returns settings with nothing but the status line of these: as much as
    /// [`restore_status_line`](Self::restore_status_line) asks for.
    fn status_line_outline(&self) -> String {
        String::new()
    }

    /// Sets the status line to that of `before`, an earlier text of the file or its outline; removes it if that has none.
    fn restore_status_line(&self, _before: Option<&str>) {}

    /// Returns the value of an environment variable that the settings set.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// Sets environment variables.
    fn set_variables(&self, _wanted: &[(&str, String)]) {}

    /// Takes environment variables out that have these values. The object of variables goes with the last of them,
    /// unless `before`, the text before our first hook or its outline, has it.
    fn remove_variables(&self, _ours: &[(&str, String)], _before: Option<&str>) {}

    /// Takes our hooks out. Lists that become empty go with them, but for those that `before`, the text before our
    /// first hook or its outline, has.
    fn remove(&self, before: Option<&str>);
}

/// Environment variable of the harness with the token of a hub, for hooks that send it.
pub const TOKEN_VARIABLE: &str = "SUBSCOPE_TOKEN";

/// What our hook does with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookHandler {
    /// Runs this command.
    Command(String),
    /// Posts to a hub.
    Http {
        /// The URL.
        url: String,
        /// Whether it sends the token in [`TOKEN_VARIABLE`], which the harness reads from its environment.
        sends_token: bool,
    },
}

/// An invalid URL of a hub.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookUrlError {
    /// Not an HTTP URL.
    #[error("{0:?} is not a URL: it must begin with http:// or https://")]
    Scheme(String),
    /// No host, or more than host, port and path.
    #[error("{0:?} is not the URL of a hub: write it as http://127.0.0.1:7337")]
    Form(String),
}

impl HookHandler {
    /// Returns the command that runs `program` as a hook with these arguments.
    pub fn command(program: &Path, arguments: &[&str]) -> Self {
        let all: Vec<&str> = std::iter::once("hook").chain(arguments.iter().copied()).collect();
        Self::Command(shell_command(program, &all))
    }

    /// Returns the post to a hub at `url`, to the route of a harness; with a token for hubs that ask for one.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn http(url: &str, route: &str, sends_token: bool) -> Result<Self, HookUrlError> {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let rest = rest.ok_or_else(|| HookUrlError::Scheme(url.to_owned()))?;
        let is_plain = |character: char| {
            character.is_ascii_graphic() && !matches!(character, '"' | '\\' | '?' | '#' | '@')
        };
        if rest.starts_with(['/', ':']) || rest.is_empty() || !rest.chars().all(is_plain) {
            return Err(HookUrlError::Form(url.to_owned()));
        }
        Ok(Self::Http { url: format!("{}{route}", url.trim_end_matches('/')), sends_token })
    }

    /// Returns the program of a command; `None` for a post.
    pub fn program(&self) -> Option<PathBuf> {
        match self {
            Self::Command(command) => words(command)?.into_iter().next().map(PathBuf::from),
            Self::Http { .. } => None,
        }
    }

    /// Whether only this machine can listen at the other end.
    pub fn stays_here(&self) -> bool {
        match self {
            Self::Command(_) => true,
            Self::Http { url, .. } => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let authority = rest.split('/').next().unwrap_or_default();
                let host = match authority.rsplit_once(':') {
                    Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
                    _ => authority,
                };
                matches!(host, "localhost" | "[::1]") || host.starts_with("127.")
            }
        }
    }
}

/// Options of the command of a hook, each with a value.
const HOOK_OPTIONS: [&str; 3] = ["--harness", "--event", "--store"];

/// Whether a command runs a program of our name as a hook, and does nothing else.
pub(crate) fn is_our_command(command: &str) -> bool {
    let Some(words) = words(command) else { return false };
    is_our_call(&words)
}

/// Whether these words run a program of our name as a hook.
pub(crate) fn is_our_call(words: &[String]) -> bool {
    let [program, hook, rest @ ..] = words else { return false };
    let (pairs, odd) = rest.as_chunks::<2>();
    let takes_value = |[option, _]: &[String; 2]| HOOK_OPTIONS.contains(&option.as_str());
    is_own_program(program) && hook == "hook" && odd.is_empty() && pairs.iter().all(takes_value)
}

/// Whether a path is that of a program of our name, with the extension of Windows or without.
pub fn is_own_program(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let extension = name.strip_prefix(PROGRAM);
    extension.is_some_and(|extension| extension.is_empty() || extension.eq_ignore_ascii_case(".exe"))
}

/// Returns the shell command that runs `program` with these arguments. A path on a disk of Windows is written with `/`, which
/// needs no quotes in any of its shells.
pub fn shell_command(program: &Path, arguments: &[&str]) -> String {
    let mut program = program.to_string_lossy();
    if is_windows_path(&program) && !program.starts_with('\\') {
        program = program.replace('\\', "/").into();
    }
    let mut command = quoted(&program);
    for argument in arguments {
        command.push(' ');
        command.push_str(&quoted(argument));
    }
    command
}

/// Whether a shell command runs a program of our name with this word as its first argument.
pub fn runs_ours(command: &str, word: &str) -> bool {
    let words = words(command).unwrap_or_default();
    words.first().is_some_and(|program| is_own_program(program))
        && words.get(1).is_some_and(|first| first == word)
}

/// Quotes a word for sh (POSIX, "Shell Command Language", 2.2.2) if that is needed.
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// How PowerShell calls a program whose path is in quotes: without it, the path is a text that it prints.
const CALL: &str = "& ";

/// Returns a command for PowerShell, if it runs a program of Windows; else the command.
pub(crate) fn for_powershell(command: &str) -> String {
    let words = words(command).unwrap_or_default();
    if !words.first().is_some_and(|program| is_windows_path(program)) || !command.contains('\'') {
        return command.to_owned();
    }
    let quoted = words.iter().map(|word| match quoted(word) {
        plain if plain == *word => plain,
        _ => format!("'{}'", word.replace('\'', "''")),
    });
    format!("{CALL}{}", quoted.collect::<Vec<_>>().join(" "))
}

/// Returns the command of which [`for_powershell`] made one.
pub(crate) fn of_powershell(command: &str) -> String {
    let Some(call) = command.strip_prefix(CALL) else { return command.to_owned() };
    // In quotes PowerShell writes a quote twice.
    let words = words(&call.replace("''", "'\\''")).unwrap_or_default();
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Takes a command apart that has nothing but words as [`quoted`] writes them; `None` for any other.
pub(crate) fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(character) = rest.next() {
        match character {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            // Anything that sh would act on: not ours.
            '"' | '$' | '`' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '*' | '?' | '[' | '#' | '~'
            | '\n' | '\t' => return None,
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}
