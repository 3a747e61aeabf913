//! `cargo xtask drift [HARNESS…] [--live] [--version X]`: is the newest version of each harness still read right?
//!
//! Each program is installed from npm and plays two scripts without network (`crates/rig`, `e2e --harness`): the tree of
//! the files that it writes is compared with the log of the fake model server. If the newest version is read wrong,
//! older ones are tried. The table goes to `docs/src/drift.md`. Fails if a newest version is read wrong. With `--live`
//! a hub follows the newest version while it works: latencies are printed, and no table is written.

mod report;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use report::{Played, Row};
use serde_json::Value;

use crate::{
    e2e::{claude_below, without_network},
    npm,
    step::{announce, cargo, output, program, root, run as run_step, skip, target_folder},
};

/// A harness from npm.
struct Cli {
    /// Its name in the registry of harnesses.
    name: &'static str,
    /// The name that people know.
    title: &'static str,
    package: &'static str,
    /// The package that it would fetch itself to load a plugin.
    plugin_package: Option<&'static str>,
    /// Whether it needs a newer Node than many systems have: [`NODE`].
    needs_node: bool,
}

impl Cli {
    const fn new(name: &'static str, title: &'static str, package: &'static str) -> Self {
        Self { name, title, package, plugin_package: None, needs_node: false }
    }
}

const CLIS: [Cli; 9] = [
    Cli::new("claude-code", "Claude Code", "@anthropic-ai/claude-code"),
    Cli::new("cline", "Cline CLI", "cline"),
    Cli::new("codex", "Codex", "@openai/codex"),
    Cli::new("copilot", "Copilot CLI", "@github/copilot"),
    Cli::new("gemini", "Gemini CLI", "@google/gemini-cli"),
    Cli::new("kilo", "Kilo CLI", KILO),
    Cli { needs_node: true, ..Cli::new("kimi", "Kimi Code", "@moonshot-ai/kimi-code") },
    Cli { plugin_package: Some("@opencode-ai/plugin"), ..Cli::new("opencode", "OpenCode", "opencode-ai") },
    Cli::new("qwen", "Qwen Code", "@qwen-code/qwen-code"),
];

/// The package of Kilo CLI's program: a version of `@kilocode/cli` may come without that of some system.
const KILO: &str =
    if cfg!(target_os = "macos") { "@kilocode/cli-darwin-arm64" } else { "@kilocode/cli-linux-x64" };

/// The version of Node for a harness that needs a newer one. npm has it as a package for each system.
const NODE: &str = "22.23.3";

/// Number of older versions that are tried if the newest one is read wrong.
const OLDER: usize = 5;

/// Plays these harnesses, or all.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (words, version) = match words {
        [words @ .., "--version", version] => (words, Some(*version)),
        words => (words, None),
    };
    let is_live = words.contains(&"--live");
    let names: Vec<&str> = words.iter().copied().filter(|word| *word != "--live").collect();
    if let Some(unknown) = names.iter().find(|name| CLIS.iter().all(|cli| cli.name != **name)) {
        bail!("no harness {unknown:?}: it is one of {}", CLIS.map(|cli| cli.name).join(", "));
    }
    if version.is_some() && names.len() != 1 {
        bail!("--version is of one harness");
    }
    run_step(
        "build for drift",
        cargo().args(["build", "--package", "subscope", "--package", "subscope-rig"]),
    )?;
    let mut rows = report::read()?;
    let way = if is_live { Way::Live } else { Way::Scripts };
    let mut wrong = Vec::new();
    for cli in CLIS.iter().filter(|cli| names.is_empty() || names.contains(&cli.name)) {
        if version.is_some() || is_live {
            let wanted = match version {
                Some(version) => Some(version.to_owned()),
                None => newest(cli)?.map(|it| it.version),
            };
            let Some(version) = wanted else { continue };
            let is_right = play(cli, &version, way)?.iter().all(Played::is_right);
            println!("{} {version} is {}", cli.title, if is_right { "right" } else { "wrong" });
            wrong.extend((!is_right).then(|| format!("{} {version}", cli.title)));
            continue;
        }
        let Some(row) = newest_right(cli)? else { continue };
        if row.newest_right.as_deref() != Some(&row.newest) {
            wrong.push(format!("{} {}", cli.title, row.newest));
        }
        rows.retain(|other| other.name != row.name);
        rows.push(row);
    }
    if version.is_none() && !is_live {
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        report::write(&rows)?;
    }
    if !wrong.is_empty() {
        bail!("not right: {}", wrong.join(", "));
    }
    Ok(())
}

/// What a harness does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It plays scripts, and its files are read when it has ended.
    Scripts,
    /// It plays one script while a hub runs, with hooks, and under `run`.
    Live,
}

/// The newest version of a harness.
struct Newest {
    version: String,
    /// The day on which it was published.
    published: String,
    view: Value,
}

/// Asks npm for the newest version; `None` if it does not answer.
fn newest(cli: &Cli) -> Result<Option<Newest>> {
    let view = ["view", cli.package, "version", "versions", "time", "--json", "--fetch-retries=1"];
    let json = match output(program("npm").args(view)) {
        Ok(json) => json,
        Err(reason) => {
            skip(&format!("drift {}", cli.name), &format!("npm does not answer: {reason:#}"));
            return Ok(None);
        }
    };
    let view: Value = serde_json::from_str(&json).context("cannot read what npm view prints")?;
    let version = view["version"].as_str().context("npm names no newest version")?.to_owned();
    let published = view["time"][&version].as_str().and_then(|time| time.get(..10));
    Ok(Some(Newest { published: published.unwrap_or_default().to_owned(), version, view }))
}

/// Plays the newest version, and where that is read wrong those before it; `None` if npm is unavailable.
fn newest_right(cli: &Cli) -> Result<Option<Row>> {
    let Some(Newest { version: newest, published, view }) = newest(cli)? else { return Ok(None) };
    let played = play(cli, &newest, Way::Scripts)?;
    let mut newest_right = played.iter().all(Played::is_right).then(|| newest.clone());
    for version in stable_before(&view, &newest).into_iter().take(OLDER) {
        if newest_right.is_some() {
            break;
        }
        // A version that is no longer available for this system does not end the search.
        let is_right =
            play(cli, &version, Way::Scripts).is_ok_and(|played| played.iter().all(Played::is_right));
        newest_right = is_right.then_some(version);
    }
    Ok(Some(Row {
        name: cli.name.to_owned(),
        title: cli.title.to_owned(),
        package: cli.package.to_owned(),
        newest,
        published,
        newest_right,
        played,
    }))
}

/// Returns the versions without a suffix that were published before this one, the newest first.
fn stable_before(view: &Value, newest: &str) -> Vec<String> {
    let time = |version: &str| view["time"][version].as_str().unwrap_or_default().to_owned();
    let all = view["versions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_stable = |version: &&str| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let mut before: Vec<String> =
        all.filter(is_stable).filter(|version| time(version) < time(newest)).map(str::to_owned).collect();
    before.sort_by_key(|version| std::cmp::Reverse(time(version)));
    before
}

/// Installs a version and has it play.
fn play(cli: &Cli, version: &str, way: Way) -> Result<Vec<Played>> {
    let target = target_folder()?;
    let folder = target.join("drift").join(cli.name).join(version);
    let modules = npm::install(&folder, cli.package, version)?;
    let modules =
        modules.map_err(|reason| anyhow::anyhow!("npm gives no {} {version}: {reason}", cli.title))?;
    if let Some(package) = cli.plugin_package {
        npm::install(&folder, package, version)?
            .map_err(|reason| anyhow::anyhow!("npm gives no {package} {version}: {reason}"))?;
    }
    if cli.needs_node {
        npm::install(&folder, &node_package(), NODE)?
            .map_err(|reason| anyhow::anyhow!("npm gives no Node {NODE}: {reason}"))?;
    }
    let harness = program_below(cli, &modules)?;
    announce(&format!("drift: {} {version}", cli.title));
    let built = target.join("debug");
    let mut e2e = without_network(&built.join("e2e"));
    e2e.args(["--harness", cli.name, "--program"]).arg(harness).arg("--subscope").arg(built.join("subscope"));
    e2e.args((way == Way::Live).then_some("--live"));
    let ended = e2e.stderr(Stdio::inherit()).output().context("cannot start e2e")?;
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let (text, json) = said.trim_end().rsplit_once('\n').unwrap_or(("", &said));
    println!("{text}");
    serde_json::from_str(json).with_context(|| format!("e2e ended with {}: {json}", ended.status))
}

/// Returns the program that npm has installed. Without its scripts npm puts nothing in the place of a native one.
fn program_below(cli: &Cli, modules: &Path) -> Result<PathBuf> {
    match cli.name {
        "claude-code" => claude_below(modules),
        "opencode" => Ok(modules.join(format!("opencode-{}/bin/opencode", this_system()))),
        "kilo" => Ok(modules.join(KILO).join("bin/kilo")),
        "cline" => Ok(modules.join(format!("@cline/cli-{}/bin/cline", this_system()))),
        name if cli.needs_node => {
            let node = modules.join(node_package()).join("bin/node");
            let script = modules.with_file_name(name);
            let own = modules.join(".bin").join(name);
            fs::write(&script, format!("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", node.display(), own.display()))
                .with_context(|| format!("cannot write {}", script.display()))?;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
                .with_context(|| format!("cannot make {} a program", script.display()))?;
            Ok(script)
        }
        name => Ok(modules.join(".bin").join(name)),
    }
}

/// The system and machine, as packages of npm name them.
fn this_system() -> String {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let system = if system == "macos" { "darwin" } else { system };
    let machine = if machine == "x86_64" { "x64" } else { "arm64" };
    format!("{system}-{machine}")
}

/// The package of Node for this system.
fn node_package() -> String {
    format!("node-{}", this_system())
}

/// The page with the table.
fn page() -> PathBuf {
    root().join("docs/src/drift.md")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stable_versions_before_the_newest_come_newest_first() {
        let view = json!({"versions": ["0.9.0", "1.0.0", "1.1.0-beta.1", "1.1.0", "0.9.1"], "time": {
            "0.9.0": "2026-01-01", "1.0.0": "2026-02-01", "1.1.0-beta.1": "2026-02-02", "1.1.0": "2026-03-01",
            "0.9.1": "2026-02-15"}});
        assert_eq!(stable_before(&view, "1.1.0"), ["0.9.1", "1.0.0", "0.9.0"]);
    }
}
