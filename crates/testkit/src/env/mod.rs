//! A hermetic environment for running the real binary: the test sees nothing of the machine that runs it, and leaves
//! nothing on it.

mod redact;
mod terminal;

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use tempfile::TempDir;
pub use {redact::redact_durations, terminal::Terminal};

use crate::fixtures::Recording;

/// The search path of the binary: enough for a shell and the usual tools.
const PATH: &str = "/usr/bin:/bin";
/// How long a run may take until it is ended: generous, since a slow machine is no failure.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// How often a running child is looked at.
const POLL: Duration = Duration::from_millis(5);

/// A temporary home and its environment; removed when dropped.
///
/// Variables: `HOME`, `XDG_{CONFIG,DATA,STATE,CACHE}_HOME`, `XDG_RUNTIME_DIR`, `TMPDIR`, a short `PATH`,
/// `LANG=C.UTF-8`, `TZ=UTC`, and `SUBSCOPE_NO_AUTOSTART=1`, so that no run leaves a hub running; a test that needs one
/// removes that variable. Nothing else is passed on.
#[derive(Debug)]
pub struct TestEnv {
    root: TempDir,
    binary: PathBuf,
}

/// Exit and output of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// Standard output; bytes that are no UTF-8 as U+FFFD.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

impl Ran {
    /// Returns standard output; panics with all of it where the run failed.
    pub fn success(self) -> String {
        assert_eq!(self.code, Some(0), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self.stdout
    }
}

impl TestEnv {
    /// An empty environment for the binary of that path: `TestEnv::new(env!("CARGO_BIN_EXE_subscope"))`.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let root = tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let env = Self { root, binary: binary.into() };
        for folder in ["home", "config", "data", "state", "cache", "run", "tmp", "work"] {
            make_folder(&env.path(folder));
        }
        make_private(&env.path("run"));
        env
    }

    /// A path inside the environment.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root().join(relative)
    }

    /// The folder of everything.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// `$HOME`.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The folder that commands start in.
    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a file, relative to the environment's root, and its folders; returns its path.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        if let Some(parent) = path.parent() {
            make_folder(parent);
        }
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Puts a recording's conversations where the harness keeps them: `$HOME/.claude/projects`.
    pub fn adopt(&self, recording: &Recording) {
        let projects = recording.projects();
        for file in recording.conversation() {
            let relative = file.strip_prefix(&projects).unwrap_or(&file);
            self.write(
                &format!("home/.claude/projects/{}", relative.display()),
                crate::fixtures::bytes(&file),
            );
        }
    }

    /// The binary in this environment, without arguments.
    pub fn command(&self) -> Command {
        self.command_of(&self.binary)
    }

    /// Any program in this environment.
    pub fn command_of(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().current_dir(self.work());
        for (name, folder) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_RUNTIME_DIR", "run"),
            ("TMPDIR", "tmp"),
        ] {
            command.env(name, self.path(folder));
        }
        command.env("PATH", PATH).env("LANG", "C.UTF-8").env("TZ", "UTC").env("SUBSCOPE_NO_AUTOSTART", "1");
        command
    }

    /// Runs the binary with these arguments and nothing on standard input.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_stdin(arguments, b"")
    }

    /// Runs the binary with these arguments and bytes on standard input.
    pub fn run_with_stdin(&self, arguments: &[&str], stdin: &[u8]) -> Ran {
        let mut command = self.command();
        command.args(arguments);
        run(command, stdin)
    }

    /// Returns `text` with this environment's paths as `[HOME]`, `[WORK]` and `[ROOT]`, and the fixtures' as
    /// `[FIXTURES]`. Durations are left: see [`redact_durations`].
    pub fn redact(&self, text: &str) -> String {
        let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let named = [
            (self.home(), "[HOME]"),
            (self.work(), "[WORK]"),
            (self.root().to_owned(), "[ROOT]"),
            (crate::fixtures::root(), "[FIXTURES]"),
        ];
        named.iter().fold(text.to_owned(), |text, (path, name)| {
            // A program may print the path as given or with links resolved.
            let text = text.replace(&*resolved(path).to_string_lossy(), name);
            text.replace(&*path.to_string_lossy(), name)
        })
    }
}

/// Runs a command to its end; panics with its output so far if it takes longer than a minute.
pub fn run(mut command: Command, stdin: &[u8]) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let (mut input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        // A program that ends without reading its input closes the pipe: no failure of the test.
        scope.spawn(move || input.take().map(|mut pipe| pipe.write_all(stdin)));
        let stdout = scope.spawn(move || read_all(output));
        let stderr = scope.spawn(move || read_all(errors));
        let status = wait(&mut child);
        let text =
            |bytes: thread::Result<Vec<u8>>| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        let ran = Ran {
            code: status.and_then(|status| status.code()),
            stdout: text(stdout.join()),
            stderr: text(stderr.join()),
        };
        assert!(status.is_some(), "{command:?} did not end in {RUN_LIMIT:?}: {ran:#?}");
        ran
    })
}

fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before an error is what the test is shown.
        let _ = pipe.read_to_end(&mut bytes);
    }
    bytes
}

/// Waits for the end; `None` where the child had to be ended.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    for _ in 0..RUN_LIMIT.as_millis() / POLL.as_millis() {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => thread::sleep(POLL),
            Err(_) => break,
        }
    }
    // It may have ended meanwhile; then there is nothing to end.
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn make_folder(folder: &Path) {
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
}

/// The runtime folder must be its owner's alone (XDG Base Directory Specification, "XDG_RUNTIME_DIR").
#[cfg(unix)]
fn make_private(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(folder, private).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
}

#[cfg(not(unix))]
fn make_private(_folder: &Path) {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn run_gives_output_and_exit_code_of_a_clean_environment() {
        let env = TestEnv::new("/bin/sh");
        let ran = env.run_with_stdin(&["-c", "cat; echo err >&2; exit 3"], b"in");
        assert_eq!(ran, Ran { code: Some(3), stdout: "in".to_owned(), stderr: "err\n".to_owned() });
        let variables = env.run(&["-c", "env; pwd"]).success();
        assert!(!variables.contains("CARGO"), "{variables}");
        let redacted = env.redact(&variables);
        for line in ["HOME=[HOME]", "XDG_RUNTIME_DIR=[ROOT]/run", "TZ=UTC", "PWD=[WORK]", "[WORK]"] {
            assert!(redacted.lines().any(|found| found == line), "{line} in {redacted}");
        }
    }

    #[test]
    fn run_takes_more_input_and_output_than_a_pipe_holds() {
        let env = TestEnv::new("/bin/cat");
        let input = vec![b'x'; 1 << 20];
        assert_eq!(env.run_with_stdin(&[], &input).success().len(), input.len());
        let ignores = TestEnv::new("/bin/true");
        assert_eq!(ignores.run_with_stdin(&[], &input).code, Some(0));
    }

    #[test]
    fn adopt_puts_a_recording_where_the_harness_keeps_it() {
        let env = TestEnv::new("/bin/ls");
        let recording = crate::fixtures::recording("2.1.330", "c-nested");
        env.adopt(&recording);
        let folder = env.home().join(".claude/projects/-home-user-shop");
        let listed = env.run(&[&folder.to_string_lossy()]).success();
        assert_eq!(listed.lines().count(), 2, "{listed}");
    }
}
