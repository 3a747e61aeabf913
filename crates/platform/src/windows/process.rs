//! Processes: of this program, of others, and the wait for their output.

use std::{
    fs::File,
    io, mem,
    net::TcpStream,
    os::windows::{
        io::{AsRawHandle, AsRawSocket, FromRawHandle, OwnedHandle},
        process::CommandExt,
    },
    process::{Child, ChildStdout, Command},
    ptr, thread,
    time::{Duration, Instant},
};

use winapi_util::console::Console;
use windows_sys::Win32::{
    Foundation::{FILETIME, HANDLE_FLAG_INHERIT, INVALID_HANDLE_VALUE, SetHandleInformation},
    Networking::WinSock::{POLLIN, POLLOUT, SOCKET_ERROR, WSAPOLLFD, WSAPoll},
    System::{
        Console::{GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE},
        Diagnostics::ToolHelp::{
            CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
        },
        Pipes::PeekNamedPipe,
        Threading::{
            CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS, GetProcessTimes, OpenProcess,
            PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_TERMINATE, TerminateProcess,
        },
    },
};

use super::is_alive;
use crate::{Pollable, ProcessStart, Readiness};

/// What an open file is borrowed by.
pub use std::os::windows::io::AsHandle as AsFile;

/// Interval of looks at a pipe, which cannot be waited for.
const PIPE_POLL: Duration = Duration::from_millis(1);
/// Hundreds of nanoseconds from 1601, where the system's time begins, to 1970.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;

/// Returns a second handle of an open file, without the buffer that the standard library may have for it.
///
/// # Errors
/// Errors of the operating system.
pub fn duplicate(file: &impl AsFile) -> io::Result<File> {
    file.as_handle().try_clone_to_owned().map(File::from)
}

impl<T: Pollable> Pollable for &T {
    fn wait_ready(&self, what: Readiness, limit: Duration) -> io::Result<bool> {
        (**self).wait_ready(what, limit)
    }
}

impl Pollable for TcpStream {
    fn wait_ready(&self, what: Readiness, limit: Duration) -> io::Result<bool> {
        let events = match what {
            Readiness::Readable => POLLIN,
            Readiness::Writable => POLLOUT,
        };
        let socket = usize::try_from(self.as_raw_socket()).map_err(io::Error::other)?;
        let mut polled = WSAPOLLFD { fd: socket, events, revents: 0 };
        // Rounded up: with 0 a caller with a little time left would ask without a pause.
        let limit = i32::try_from(limit.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
        // SAFETY: the structure is one, lives until the call ends, and names an open socket.
        match unsafe { WSAPoll(&raw mut polled, 1, limit) } {
            SOCKET_ERROR => Err(io::Error::last_os_error()),
            count => Ok(count > 0),
        }
    }
}

impl Pollable for File {
    fn wait_ready(&self, what: Readiness, limit: Duration) -> io::Result<bool> {
        Ok(matches!(what, Readiness::Writable) || pipe_has_bytes(self, limit))
    }
}

impl Pollable for ChildStdout {
    fn wait_ready(&self, what: Readiness, limit: Duration) -> io::Result<bool> {
        Ok(matches!(what, Readiness::Writable) || pipe_has_bytes(self, limit))
    }
}

/// Whether a read of a pipe would return at once. What is no pipe counts as ready: a read of a file does not wait, and
/// that of a console waits for a person.
fn pipe_has_bytes(pipe: &impl AsRawHandle, limit: Duration) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the time that has passed, which no test sets")]
    let began = Instant::now();
    loop {
        let (nothing, mut count) = (ptr::null_mut(), 0);
        let handle = pipe.as_raw_handle();
        // SAFETY: the handle is open; the number lives until the call ends; the other pointers may be null.
        let is_pipe =
            unsafe { PeekNamedPipe(handle, nothing, 0, ptr::null_mut(), &raw mut count, ptr::null_mut()) };
        if is_pipe == 0 || count > 0 {
            return true;
        }
        if began.elapsed() >= limit {
            return false;
        }
        thread::sleep(PIPE_POLL);
    }
}

/// Does nothing: no process can take the place of another.
pub fn restart_with(_: &str, _: &str) {}

/// Runs a command to its end, then ends this process with its exit code. Returns only if it cannot be started.
pub fn replace_process(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

/// Lets a Ctrl-C of this console not reach a command that is started.
pub fn outside_of_group(command: &mut Command) -> &mut Command {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP)
}

/// Starts a command that outlives this process, without a console. It runs in the root folder of this program's disk.
///
/// It must not inherit the pipes of this process: a program that reads them would wait for its end.
///
/// # Errors
/// If it cannot be started.
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
    for which in [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
        // SAFETY: takes no pointer.
        let handle = unsafe { GetStdHandle(which) };
        if !handle.is_null() && handle != INVALID_HANDLE_VALUE {
            // SAFETY: the handle is one of this process, which stays open. A closed one is an error, which changes nothing.
            unsafe { SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0) };
        }
    }
    let program = std::env::current_exe()?;
    if let Some(root) = program.ancestors().last() {
        command.current_dir(root);
    }
    command.creation_flags(DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP).spawn()
}

/// Does nothing: [`spawn_detached`] starts it without a console.
pub fn leave_terminal() {}

/// Does nothing: threads do not inherit a priority. The limit of threads must do.
pub fn lower_priority() {}

/// Returns the command that opens a URL in the user's browser.
pub fn url_opener(url: &str) -> Command {
    let mut opener = Command::new("rundll32");
    opener.args(["url.dll,FileProtocolHandler", url]);
    opener
}

/// Makes the console obey escape sequences, which it prints by default. Before Windows 10 it cannot.
pub fn enable_escapes() {
    for mut console in [Console::stdout(), Console::stderr()].into_iter().flatten() {
        // What was printed so far stays as it is.
        let _ = console.set_virtual_terminal_processing(true);
    }
}

/// Returns the name of this machine; empty if it has none.
pub fn host_name() -> String {
    use winapi_util::sysinfo::{ComputerNameKind, get_computer_name};
    let name = get_computer_name(ComputerNameKind::DnsHostname).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Ends a process at once, if it runs.
pub fn end_process(process: i32) {
    if let Some(handle) = open(process, PROCESS_TERMINATE) {
        // SAFETY: the handle is open until it is dropped, and has the right to end the process.
        unsafe { TerminateProcess(handle.as_raw_handle(), 1) };
    }
}

fn open(process: i32, rights: u32) -> Option<OwnedHandle> {
    let process = u32::try_from(process).ok()?;
    // SAFETY: takes no pointer. The handle that it returns is this function's alone.
    let handle = unsafe { OpenProcess(rights, 0, process) };
    // SAFETY: the handle is open, and nothing else closes it.
    (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle) })
}

impl ProcessStart {
    /// Returns when a running process started; `None` if there is no such process, or it is another user's.
    pub fn of(process: i32) -> Option<Self> {
        if !is_alive(u32::try_from(process).ok()?) {
            return None;
        }
        let handle = open(process, PROCESS_QUERY_LIMITED_INFORMATION)?;
        let mut times = [FILETIME::default(); 4];
        let [created, exited, kernel, user] = &mut times;
        // SAFETY: the handle is open and has the right; the four times live until the call ends.
        let is_known = unsafe { GetProcessTimes(handle.as_raw_handle(), created, exited, kernel, user) };
        if is_known == 0 {
            return Some(Self::default());
        }
        let ticks = u64::from(created.dwHighDateTime) << 32 | u64::from(created.dwLowDateTime);
        let at_ms = i64::try_from(ticks.saturating_sub(UNIX_EPOCH_TICKS) / 10_000).ok();
        // In which form a harness would note the moment is not known.
        Some(Self { ticks: String::new(), at_ms })
    }
}

/// Returns the parent of a process, which may have ended; `None` if there is no such process.
pub fn parent_of(process: i32) -> Option<i32> {
    let process = u32::try_from(process).ok()?;
    // SAFETY: takes no pointer. The handle that it returns is this function's alone.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return None;
    }
    // SAFETY: the handle is open, and nothing else closes it.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let size = u32::try_from(mem::size_of::<PROCESSENTRY32W>()).ok()?;
    let mut entry = PROCESSENTRY32W { dwSize: size, ..PROCESSENTRY32W::default() };
    // SAFETY: the handle is a snapshot of processes; the entry has its size and lives until the call ends.
    let mut has_one = unsafe { Process32FirstW(snapshot.as_raw_handle(), &raw mut entry) };
    while has_one != 0 {
        if entry.th32ProcessID == process {
            return i32::try_from(entry.th32ParentProcessID).ok().filter(|parent| *parent > 0);
        }
        // SAFETY: as of the first.
        has_one = unsafe { Process32NextW(snapshot.as_raw_handle(), &raw mut entry) };
    }
    None
}

/// Returns nothing: a process has no group.
pub fn group_of(_: i32) -> Option<i32> {
    None
}
