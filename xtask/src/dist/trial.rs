//! `--try`: installs each package from its file into an empty folder, as a person with only that channel's tool would,
//! and runs it.
//!
//! npm and the install script download from a server of this task on the loopback interface: npm from a registry that
//! knows these packages alone.

mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::archive::{Archive, SUMS, files};
use super::recipes::INSTALLER;
use super::system_packages::{deb_file, rpm_file};
use super::targets::LinuxNames;
use super::{Release, empty_folder, file_name, wheel};
use crate::step::{announce, output, program, root, skip, succeeds};
use server::{Server, registry_routes};

/// A session that the binary's crate carries, for `tree`.
const SESSION: &str = "crates/cli/data/demo";

/// One channel that was tried.
struct Tried {
    channel: &'static str,
    command: String,
    /// From the command to the end of the first tree.
    took: Duration,
}

/// What a program prints, alike on every channel.
#[derive(PartialEq, Eq)]
struct Screens {
    /// The summary: at this speed blocks of the same moment come in any order.
    demo: String,
    tree: String,
}

/// Tries every channel that this machine has the tool of. An error if one does not print what the binary prints.
pub(super) fn all(release: &Release, archives: &[Archive]) -> Result<()> {
    let archive =
        archives.iter().find(|it| it.runs_here()).context("no archive's binary runs on this machine")?;
    let folder = release.scratch.join("trial");
    empty_folder(&folder)?;
    let session = folder.join("session");
    copy_folder(&root().join(SESSION), &session)?;
    let trial = Trial { release, archive, folder, session };
    announce(&format!("dist: try {}", archive.target.triple));
    let expected = trial.screens(&[archive.tool()], "archive")?;
    if !expected.tree.contains("Explore") {
        bail!("the binary prints no tree:\n{}", expected.tree);
    }
    println!("{}", expected.tree);
    for attempt in [Trial::script, Trial::npx, Trial::npm, Trial::wheel, Trial::deb, Trial::rpm] {
        if let Some((Tried { channel, command, took }, screens)) = attempt(&trial)? {
            if screens != expected {
                bail!("{channel}: prints something else:\n{}\n{}", screens.demo, screens.tree);
            }
            println!("{channel:<8} {:>6.2} s  {command}", took.as_secs_f64());
        }
    }
    Ok(())
}

/// What all channels are tried with.
struct Trial<'a> {
    release: &'a Release,
    archive: &'a Archive,
    folder: PathBuf,
    /// Transcripts of one session.
    session: PathBuf,
}

/// The channel that was tried, and what its program printed; `None` where this machine lacks its tool.
type Attempt = Result<Option<(Tried, Screens)>>;

impl Trial<'_> {
    /// `sh install.sh` in an empty home; before that with an archive that was tampered with, which it must refuse.
    fn script(&self) -> Attempt {
        let (home, published) = (self.home("script")?, files(&self.release.folder)?);
        let file = |name: &str| published.iter().find(|path| file_name(path) == name).cloned();
        let (Some(installer), Some(sums)) = (file(INSTALLER), file(SUMS)) else {
            bail!("no {INSTALLER} or {SUMS}")
        };
        let archive = file_name(&self.archive.file);
        let install = |url: &str| {
            let mut shell = self.clean("sh", &home);
            shell.arg(&installer).env("SUBSCOPE_URL", url);
            shell
        };
        let false_file =
            [(format!("/{SUMS}"), fs::read(&sums)?), (format!("/{archive}"), b"tampered".to_vec())];
        let server = Server::start(false_file.into())?;
        if succeeds(&mut install(&server.url())) || home.join(".local/bin/subscope").exists() {
            bail!("{INSTALLER} installs an archive whose sum is another");
        }
        let routes =
            [(format!("/{SUMS}"), fs::read(&sums)?), (format!("/{archive}"), fs::read(&self.archive.file)?)];
        let server = Server::start(routes.into())?;
        let started = now();
        print!("{}", output(&mut install(&server.url()))?);
        let binary = home.join(".local/bin/subscope");
        self.tree(&[&binary], &home)?;
        let took = started.elapsed();
        let screens = self.screens(&[binary], "script")?;
        Ok(Some((tried("script", &format!("sh {INSTALLER}"), took), screens)))
    }

    /// `npx subscope` with nothing installed and an empty cache.
    fn npx(&self) -> Attempt {
        let Some((registry, home)) = self.registry("npx")? else { return Ok(None) };
        let package = format!("subscope@{}", self.release.version);
        let words = ["npx", "--yes", "--registry", &registry.url(), &package].map(PathBuf::from);
        let started = now();
        self.tree(&words, &home)?;
        let took = started.elapsed();
        Ok(Some((tried("npx", "npx subscope tree", took), self.screens(&words, "npx")?)))
    }

    /// `npm install --global` into a prefix of its own.
    fn npm(&self) -> Attempt {
        let Some((registry, home)) = self.registry("npm")? else { return Ok(None) };
        let started = now();
        let mut npm = self.clean("npm", &home);
        npm.args(["install", "--global", "--no-audit", "--no-fund", "--prefix"]).arg(&home);
        npm.args(["--registry", &registry.url(), &format!("subscope@{}", self.release.version)]);
        output(&mut npm)?;
        let words = [home.join("bin/subscope")];
        self.tree(&words, &home)?;
        let took = started.elapsed();
        Ok(Some((tried("npm", "npm install --global subscope", took), self.screens(&words, "npm")?)))
    }

    /// `pip install` of the wheel's file into a new environment; both its commands.
    fn wheel(&self) -> Attempt {
        let module = wheel::NAME.replace('-', "_");
        let platform = self.archive.target.wheel;
        let file = format!("{module}-{}-py3-none-{platform}.whl", self.release.version);
        let home = self.home("wheel")?;
        let folder = home.join("environment");
        output(program("python3").args(["-m", "venv"]).arg(&folder))
            .context("python3 makes no environment")?;
        let started = now();
        let mut pip = self.clean(folder.join("bin/pip"), &home);
        pip.args(["install", "--quiet", "--no-index", "--disable-pip-version-check"]);
        output(pip.arg(self.release.folder.join(file)))?;
        let binary = [folder.join("bin/subscope")];
        self.tree(&binary, &home)?;
        let took = started.elapsed();
        let screens = self.screens(&binary, "wheel")?;
        if self.screens(&[folder.join("bin").join(wheel::NAME)], "wheel")? != screens {
            bail!("{} prints something else than subscope", wheel::NAME);
        }
        Ok(Some((tried("wheel", &format!("pip install {}", wheel::NAME), took), screens)))
    }

    /// `dpkg --install` into a root of its own.
    fn deb(&self) -> Attempt {
        let Some((home, names)) = self.empty_root("deb", "dpkg")? else { return Ok(None) };
        for folder in ["var/lib/dpkg/updates", "var/lib/dpkg/info"] {
            fs::create_dir_all(home.join(folder))?;
        }
        fs::write(home.join("var/lib/dpkg/status"), "")?;
        let mut dpkg = program("dpkg");
        dpkg.args(["--force-not-root", "--force-script-chrootless", "--log=/dev/null"]);
        dpkg.arg(format!("--root={}", home.display())).arg("--install");
        self.installed(&home, dpkg.arg(deb_file(self.release, names)), "deb", "dpkg --install")
    }

    /// `rpm --nodeps --install` into a root of its own.
    fn rpm(&self) -> Attempt {
        let Some((home, names)) = self.empty_root("rpm", "rpm")? else { return Ok(None) };
        let mut rpm = program("rpm");
        // cargo-generate-rpm names `/bin/sh` as needed by every package; this one has no script, and the root no shell.
        rpm.arg(format!("--root={}", home.display())).args(["--nodeps", "--install"]);
        self.installed(&home, rpm.arg(rpm_file(self.release, names)), "rpm", "rpm --nodeps --install")
    }

    /// Makes a folder for a root that holds no file; `None` where the tool is missing, or the archive is not for Linux.
    fn empty_root(&self, channel: &str, tool: &str) -> Result<Option<(PathBuf, LinuxNames)>> {
        let Some(names) = self.archive.target.linux else { return Ok(None) };
        if !succeeds(program(tool).arg("--version")) {
            skip(&format!("try {channel}"), &format!("there is no {tool} here"));
            return Ok(None);
        }
        let home = self.home(channel)?;
        for folder in ["tmp", "root"] {
            fs::create_dir_all(home.join(folder))?;
        }
        Ok(Some((home, names)))
    }

    /// Installs a system package into an empty root, and runs it in that root where this task may.
    fn installed(&self, home: &Path, install: &mut Command, channel: &'static str, command: &str) -> Attempt {
        let started = now();
        output(install)?;
        let is_root = output(program("id").arg("-u"))?.trim() == "0";
        let (words, session) = if is_root {
            copy_folder(&self.session, &home.join("session"))?;
            (
                vec![PathBuf::from("chroot"), home.to_owned(), PathBuf::from("/usr/bin/subscope")],
                Path::new("/session"),
            )
        } else {
            (vec![home.join("usr/bin/subscope")], self.session.as_path())
        };
        let tree = self.printed(&words, home, &["tree", "--width", "100"], Some(session))?;
        let took = started.elapsed();
        self.printed(&words, home, &TOKEN, None)?;
        let demo = summary(&self.printed(&words, home, &DEMO, None)?)?;
        Ok(Some((tried(channel, &format!("{command}, in an empty root"), took), Screens { demo, tree })))
    }

    /// Serves the npm packages, and gives an empty home; `None` where there is no npm.
    fn registry(&self, name: &str) -> Result<Option<(Server, PathBuf)>> {
        if !succeeds(program("npm").arg("--version")) {
            skip(&format!("try {name}"), "there is no npm here");
            return Ok(None);
        }
        let packages: Vec<PathBuf> = files(&self.release.folder)?
            .into_iter()
            .filter(|path| file_name(path).ends_with(".tgz"))
            .collect();
        Ok(Some((registry_routes(&packages)?, self.home(name)?)))
    }

    fn home(&self, name: &str) -> Result<PathBuf> {
        let home = self.folder.join(name);
        empty_folder(&home)?;
        Ok(home)
    }

    /// Returns a program with this home and nothing of this machine's settings.
    fn clean(&self, name: impl AsRef<Path>, home: &Path) -> Command {
        let mut command = Command::new(name.as_ref());
        command.current_dir(home).env_clear().env("HOME", home).env("LANG", "C.UTF-8").stdin(Stdio::null());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    /// Runs the demo and the tree, in a home of its own.
    fn screens(&self, words: &[PathBuf], name: &str) -> Result<Screens> {
        let home = self.folder.join(name);
        fs::create_dir_all(&home)?;
        self.printed(words, &home, &TOKEN, None)?;
        Ok(Screens {
            demo: summary(&self.printed(words, &home, &DEMO, None)?)?,
            tree: self.tree(words, &home)?,
        })
    }

    fn tree(&self, words: &[impl AsRef<Path>], home: &Path) -> Result<String> {
        self.printed(words, home, &["tree", "--width", "100"], Some(&self.session))
    }

    fn printed(
        &self,
        words: &[impl AsRef<Path>],
        home: &Path,
        arguments: &[&str],
        session: Option<&Path>,
    ) -> Result<String> {
        let Some((name, more)) = words.split_first() else { bail!("no program") };
        let mut command = self.clean(name, home);
        command.args(more.iter().map(AsRef::as_ref)).args(arguments).args(session);
        output(&mut command).with_context(|| format!("{command:?}"))
    }
}

/// Serves paths with their bytes until the task ends; returns the URL.
#[cfg(test)]
pub(super) fn serve(routes: std::collections::BTreeMap<String, Vec<u8>>) -> Result<String> {
    Ok(Server::start(routes)?.url())
}

/// The recording in the program, as fast as it can.
const DEMO: [&str; 4] = ["demo", "--plain", "--speed", "10000"];

/// A command for which the tool starts the server's program.
const TOKEN: [&str; 7] = ["team", "token", "new", "--tenant", "acme", "--user", "ana"];

/// Returns the end of what the demo prints, from the line of the agents.
fn summary(demo: &str) -> Result<String> {
    let start = demo.rfind("\nagents ").context("the demo ends without a summary")?;
    Ok(demo[start..].to_owned())
}

fn tried(channel: &'static str, command: &str, took: Duration) -> Tried {
    Tried { channel, command: command.to_owned(), took }
}

#[expect(clippy::disallowed_methods, reason = "a chore that measures")]
fn now() -> Instant {
    Instant::now()
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for (name, path) in super::archive::below(from)? {
        super::write(
            &to.join(name),
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?,
        )?;
    }
    Ok(())
}
