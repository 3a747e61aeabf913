//! Environment of a scenario: a home directory, the fake server, and programs without other network access.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use subscope_model::Tree;
use subscope_rig::{Scenario, StandIn, tick};
use subscope_testkit::env::TestEnv;

/// How long a run of Claude Code may take: far more than any script does.
const LIMIT: Duration = Duration::from_secs(120);
/// Polling interval for what no event reports.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// What agents may do without being asked. As root Claude Code refuses to skip permissions altogether.
const ALLOWED: &str = "Agent,Task,Bash,Read,Grep,Glob,ToolSearch,TaskStop,mcp__shop__worker";

/// The programs that are tried.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The harness: Claude Code, but for `drift`.
    pub(crate) harness: PathBuf,
    pub(crate) subscope: PathBuf,
}

/// A home, a project and a fake model server; removed when dropped.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) stand_in: StandIn,
    env: TestEnv,
    programs: Programs,
    /// More variables, for all programs.
    variables: Vec<(&'static str, String)>,
}

/// Exit and output of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    /// What the program itself has used of a processor, without what it has started; `None` where the system does not
    /// tell.
    pub(crate) used: Option<Duration>,
}

impl World {
    /// Makes one for a script of Claude Code.
    pub(crate) fn new(programs: &Programs, script: &Path) -> Result<Self> {
        let env = TestEnv::new(&programs.subscope);
        let scenario = Scenario::load(script, &env.work())?;
        for (name, text) in &scenario.agents {
            env.write(&format!("work/.claude/agents/{name}.md"), text);
        }
        fs::create_dir_all(env.path("bin"))?;
        symlink(&programs.harness, env.path("bin/claude"))?;
        let mut world = Self::in_env(programs, scenario, env)?;
        world.variables = claude_variables(&world.stand_in.url());
        Ok(world)
    }

    /// Makes one for any harness, with the variables that its programs need besides.
    pub(crate) fn of(
        programs: &Programs,
        scenario: Scenario,
        variables: impl FnOnce(&str) -> Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let mut world = Self::in_env(programs, scenario, TestEnv::new(&programs.subscope))?;
        world.variables = variables(&world.stand_in.url());
        Ok(world)
    }

    fn in_env(programs: &Programs, scenario: Scenario, env: TestEnv) -> Result<Self> {
        copy(&repository(), &env.work())?;
        fs::create_dir_all(env.path("bin"))?;
        symlink(&programs.subscope, env.path("bin/subscope"))?;
        let stand_in = StandIn::start(scenario.clone())?;
        Ok(Self { scenario, stand_in, env, programs: programs.clone(), variables: Vec::new() })
    }

    /// Copies the repository into another folder of it.
    pub(crate) fn copy_repository(&self, folder: &str) -> Result<()> {
        copy(&repository(), &self.path(folder))
    }

    /// Its folders and variables.
    pub(crate) fn env(&self) -> &TestEnv {
        &self.env
    }

    /// A path in it.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.env.path(relative)
    }

    /// subscope, with words.
    pub(crate) fn subscope(&self, words: &str) -> Command {
        let mut command = self.env.command();
        self.isolate(&mut command);
        command.args(words.split_whitespace());
        command
    }

    /// Arguments of `claude` that play the script.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mode = ["--permission-mode", "default", "--allowedTools", ALLOWED];
        let fixed = ["-p", &self.scenario.prompt].into_iter().chain(mode).map(str::to_owned);
        fixed.chain(self.scenario.args.iter().cloned()).collect()
    }

    /// Claude Code, about to play the script.
    pub(crate) fn claude(&self) -> Command {
        let mut command = self.env.command_of(&self.programs.harness);
        self.isolate(&mut command);
        command.args(self.arguments());
        command
    }

    /// Another program, as subscope and Claude Code are started.
    pub(crate) fn other(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.env.command_of(program);
        self.isolate(&mut command);
        command
    }

    /// Lets a program reach the fake server and nothing else.
    ///
    /// Without a namespace of its own that depends on its settings: no telemetry, no updates, and a proxy for every
    /// address but the loopback, which is the fake server and forwards nothing.
    pub(crate) fn isolate(&self, command: &mut Command) {
        let url = self.stand_in.url();
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.env.path("bin").display()));
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env(name, &url);
        }
        for name in ["NO_PROXY", "no_proxy"] {
            command.env(name, "127.0.0.1,localhost");
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs(&self.scenario.env);
    }

    /// Runs a command to its end. What it wrote is kept in files: no pipe holds it up.
    pub(crate) fn run(&self, mut command: Command) -> Result<Ended> {
        let (out, err) = (self.path("stdout"), self.path("stderr"));
        command.stdin(Stdio::null()).stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?);
        let began = tick();
        let mut child =
            command.process_group(0).spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (status, used) = wait(&mut child);
        // Nothing that it started outlives it.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let stderr = String::from_utf8_lossy(&fs::read(err)?).into_owned();
        let Some(status) = status? else {
            bail!("{:?} did not end in {LIMIT:?}: {stderr}", command.get_program());
        };
        Ok(Ended { status, stdout: fs::read(out)?, stderr, took: began.elapsed(), used })
    }

    /// The transcript of the one session that was played.
    pub(crate) fn transcript(&self) -> Result<PathBuf> {
        let projects = self.env.home().join(".claude/projects");
        let mut found = Vec::new();
        for project in fs::read_dir(&projects).context("Claude Code wrote no transcript")? {
            let files = fs::read_dir(project?.path())?.collect::<Result<Vec<_>, _>>()?.into_iter();
            let files = files.map(|file| file.path());
            found.extend(files.filter(|file| file.extension().is_some_and(|it| it == "jsonl")));
        }
        match found.as_slice() {
            [one] => Ok(one.clone()),
            _ => bail!("there are {} transcripts below {}", found.len(), projects.display()),
        }
    }

    /// What `tree TARGET --json` prints.
    pub(crate) fn tree(&self, target: &Path) -> Result<Tree> {
        let mut command = self.subscope("tree --json");
        let ended = self.run({
            command.arg(target);
            command
        })?;
        serde_json::from_slice(&ended.stdout).with_context(|| format!("tree --json: {}", ended.stderr))
    }

    /// Every settings file that Claude Code reads, with its bytes.
    pub(crate) fn settings(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for folder in ["home/.claude", "work/.claude"] {
            for name in ["settings.json", "settings.local.json"] {
                let path = format!("{folder}/{name}");
                files.extend(fs::read(self.path(&path)).ok().map(|bytes| (path, bytes)));
            }
        }
        files
    }

    /// Writes a file of it.
    pub(crate) fn write(&self, relative: &str, text: &str) {
        self.env.write(relative, text);
    }
}

/// The variables with which Claude Code talks to the fake server only.
pub(crate) fn claude_variables(url: &str) -> Vec<(&'static str, String)> {
    let quiet = [
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_AUTOUPDATER",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    ];
    let model = [("ANTHROPIC_BASE_URL", url.to_owned()), ("ANTHROPIC_API_KEY", "sk-ant-none".to_owned())];
    quiet.into_iter().map(|name| (name, "1".to_owned())).chain(model).collect()
}

/// The repository that agents look at.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("repository")
}

/// Waits for the end of a child; ends it and returns `None` where that takes too long. Says also what it has used of a
/// processor.
fn wait(child: &mut Child) -> (Result<Option<ExitStatus>>, Option<Duration>) {
    let (began, mut used) = (tick(), None);
    while began.elapsed() < LIMIT {
        match child.try_wait() {
            Ok(None) => used = processor_time(child).or(used),
            Ok(Some(status)) => return (Ok(Some(status)), used),
            Err(error) => return (Err(error.into()), used),
        }
        thread::sleep(POLL);
    }
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    (child.wait().map(|_| None).map_err(Into::into), used)
}

/// What a process has used until now, its threads that have ended included.
fn processor_time(child: &Child) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // proc_pid_stat(5): after the name, which may contain anything, the 12th and 13th field are utime and stime, in
    // 1/100 s.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}

/// Copies the content of a folder.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
