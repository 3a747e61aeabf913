//! The programs that have terminals, and the command of each that shows one of them.
//!
//! A process inherits the variables of every such program that it was started below: tmux inside kitty has those of
//! both. So tmux, which can be innermost, is asked first, and must have a pane with the process's own device.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use subscope_harness::shell_command;
use subscope_platform::end_process;

use super::{
    evidence::{terminal_of, variable},
    processes::SessionProcess,
};

/// How long a program may take to show a terminal. They answer within milliseconds; kitty may ask for a password.
const LIMIT: Duration = Duration::from_secs(3);

/// Values of `TERM_PROGRAM`, or `TERM`, of programs without a command that shows one of their terminals, with their names.
const OTHERS: [(&str, &str); 6] = [
    ("vscode", "VS Code"),
    ("iTerm.app", "iTerm2"),
    ("Apple_Terminal", "Terminal"),
    ("ghostty", "Ghostty"),
    ("WarpTerminal", "Warp"),
    ("alacritty", "Alacritty"),
];

/// Where a process has its terminal, and what came of going there.
#[derive(Debug)]
pub(super) struct Place {
    /// Name of the program that has it.
    pub(super) terminal: Option<&'static str>,
    /// The place in it, or the device.
    pub(super) place: Option<String>,
    pub(super) arrival: Arrival,
}

/// What came of going to a terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Shown,
    /// Nothing shows it; this command attaches to it.
    Detached(String),
    /// Whether something shows it is not known; this command attaches to it.
    Attachable(String),
    /// The program refused, in its own words.
    Failed(String),
    /// The program has no command for it.
    NoCommand,
}

/// Goes to the terminal of a process.
pub(super) fn go(process: &SessionProcess, caller_tmux: Option<&OsStr>) -> Place {
    let device = terminal_of(process.number).map(|device| device.display().to_string());
    let of = |name: &str| variable(process.number, name);
    if let Some(place) = tmux(process, device.as_deref(), caller_tmux) {
        return place;
    }
    let at = |terminal, arrival| Place { terminal: Some(terminal), place: device.clone(), arrival };
    let shown = |mut command: Command| match answer(&mut command) {
        Ok(_) => Arrival::Shown,
        Err(why) => Arrival::Failed(why),
    };
    if let Some(session) = of("STY") {
        let window = of("WINDOW");
        let window = window.iter().flat_map(|window| ["-p", window]);
        let words: Vec<&str> = ["-x", &session].into_iter().chain(window).collect();
        return at("screen", Arrival::Attachable(shell_command("screen".as_ref(), &words)));
    }
    if let Some(session) = of("ZELLIJ_SESSION_NAME") {
        return at("Zellij", Arrival::Attachable(shell_command("zellij".as_ref(), &["attach", &session])));
    }
    if let Some((window, socket)) = of("KITTY_WINDOW_ID").zip(of("KITTY_LISTEN_ON")) {
        let mut command = Command::new("kitty");
        command.args(["@", "--to", &socket, "focus-window", "--match", &format!("id:{window}")]);
        return at("kitty", shown(command));
    }
    if let Some(pane) = of("WEZTERM_PANE") {
        let mut command = Command::new("wezterm");
        command.args(["cli", "activate-pane", "--pane-id", &pane]);
        if let Some(socket) = of("WEZTERM_UNIX_SOCKET") {
            command.env("WEZTERM_UNIX_SOCKET", socket);
        }
        return at("WezTerm", shown(command));
    }
    if of("KITTY_WINDOW_ID").is_some() {
        let why = "kitty allows no remote control (allow_remote_control, listen_on)";
        return at("kitty", Arrival::Failed(why.to_owned()));
    }
    let program = of("TERM_PROGRAM").or_else(|| of("TERM"));
    let known = program.and_then(|program| OTHERS.iter().find(|(value, _)| *value == program));
    let known = known.map(|(_, name)| *name).or_else(|| of("WT_SESSION").map(|_| "Windows Terminal"));
    Place { terminal: known.filter(|_| device.is_some()), place: device, arrival: Arrival::NoCommand }
}

/// A pane as tmux lists it.
struct Pane {
    id: String,
    device: String,
    /// Number of clients that show its session.
    attached: u32,
    /// `SESSION:WINDOW.PANE`.
    place: String,
}

/// What [`Pane`] is read from; the names, which may have any characters but line ends, are last.
const PANE_FORMAT: &str =
    "#{pane_id}\t#{pane_tty}\t#{session_attached}\t#{window_index}.#{pane_index}\t#{session_name}";

impl Pane {
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.splitn(5, '\t').map(str::to_owned);
        let mut field = || fields.next();
        let (id, device, attached, number) = (field()?, field()?, field()?.parse().ok()?, field()?);
        let place = format!("{}:{number}", field()?);
        Some(Self { id, device, attached, place })
    }
}

/// Shows the pane of tmux that has the process's terminal; `None` if none has.
fn tmux(process: &SessionProcess, device: Option<&str>, caller: Option<&OsStr>) -> Option<Place> {
    let value = variable(process.number, "TMUX");
    let socket = value.as_deref().and_then(socket_of);
    if socket.is_none() && process.noted_pane.is_none() {
        return None;
    }
    let tmux = |words: &[&str]| {
        let mut command = Command::new("tmux");
        command.args(socket.iter().flat_map(|socket| ["-S", socket])).args(words);
        // The client of the caller is the one that tmux finds by this variable.
        match caller {
            Some(caller) => command.env("TMUX", caller),
            None => command.env_remove("TMUX"),
        };
        command
    };
    let listed = answer(&mut tmux(&["list-panes", "-a", "-F", PANE_FORMAT])).ok()?;
    let is_it = |pane: &Pane| match device {
        Some(device) => pane.device == device,
        None => Some(&pane.id) == process.noted_pane.as_ref(),
    };
    let pane = listed.lines().filter_map(Pane::read).find(is_it)?;
    let caller_socket = caller.and_then(OsStr::to_str).and_then(socket_of);
    let newest;
    let words = if caller_socket.is_some() && caller_socket == socket {
        // Without a client's name tmux takes the caller's.
        Some(vec!["switch-client"])
    } else if pane.attached > 0 {
        Some(vec!["select-window", "-t", &pane.id, ";", "select-pane"])
    } else {
        newest = newest_client(&tmux);
        newest.as_deref().map(|client| vec!["switch-client", "-c", client])
    };
    let arrival = match words.map(|words| answer(tmux(&words).args(["-t", &pane.id]))) {
        Some(Ok(_)) => Arrival::Shown,
        Some(Err(why)) => Arrival::Failed(why),
        None => {
            let server = socket.filter(|socket| !socket.ends_with("/default")).map(|socket| ["-S", socket]);
            let words: Vec<&str> =
                server.into_iter().flatten().chain(["attach-session", "-t", &pane.place]).collect();
            Arrival::Detached(shell_command("tmux".as_ref(), &words))
        }
    };
    Some(Place { terminal: Some("tmux"), place: Some(pane.place), arrival })
}

/// Returns the socket of a value of `TMUX`: `SOCKET,SERVER,SESSION`.
fn socket_of(value: &str) -> Option<&str> {
    value.rsplitn(3, ',').nth(2)
}

/// Returns the client of a tmux server that was used last.
fn newest_client(tmux: &impl Fn(&[&str]) -> Command) -> Option<String> {
    let clients = answer(&mut tmux(&["list-clients", "-F", "#{client_activity}\t#{client_name}"])).ok()?;
    let clients = clients.lines().filter_map(|line| line.split_once('\t'));
    let newest = clients.max_by_key(|(activity, _)| activity.parse::<u64>().unwrap_or(0));
    newest.map(|(_, client)| client.to_owned())
}

/// Runs a command and returns what it prints.
///
/// # Errors
///
/// Why it failed, in its own words.
fn answer(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|error| format!("{program}: {error}"))?;
    let number = i32::try_from(child.id()).ok();
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(LIMIT) else {
        // It may have ended meanwhile; then there is nothing to end.
        number.into_iter().for_each(end_process);
        return Err(format!("{program} does not answer"));
    };
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(words
        .lines()
        .find(|line| !line.trim().is_empty())
        .map_or_else(|| output.status.to_string(), str::to_owned))
}
