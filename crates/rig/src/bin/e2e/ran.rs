//! A scenario under `subscope run -- claude …`: the output must be unchanged, and all agents observed.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, thread, time::Duration};

use anyhow::{Context, Result};
use subscope_model::Tree;
use subscope_rig::tick;

use crate::{
    blocks,
    finding::Findings,
    served::{SETTINGS, limits},
    truth,
    world::{POLL, Programs, World},
};

/// How long subscope may take, after the run, to know all that the transcript says.
const LIMIT: Duration = Duration::from_secs(20);

/// How Claude Code is asked to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As a stream, by options that the user gives.
    Stream,
    /// As text, without such options: `run` adds some.
    Text,
    /// As text, by an option that the user gives: the transcript is the source.
    Chosen,
}

/// Plays a scenario without subscope, then in every form.
pub(crate) fn play(programs: &Programs, script: &Path, findings: &mut Findings) -> Result<()> {
    // Without hooks, which change when a report reaches the main thread, and with that what is printed.
    let world = World::new(programs, script)?;
    let ended = world.run(world.claude())?;
    findings.same("alone: exit code", ended.status.code(), Some(world.scenario.exit_code));
    let plain = &ended.stdout;
    for form in [Form::Stream, Form::Text, Form::Chosen] {
        play_as(form, programs, script, plain, findings)?;
    }
    Ok(())
}

fn play_as(
    form: Form,
    programs: &Programs,
    script: &Path,
    plain: &[u8],
    findings: &mut Findings,
) -> Result<()> {
    let world = World::new(programs, script)?;
    world.write("home/.claude/settings.json", SETTINGS);
    let before = world.settings();
    let copied = copying(&world, &programs.harness, "claude")?;
    let mut command = world.subscope(&format!("run {} --", limits(&world.scenario)));
    // As on a user's machine: input goes to a hub, which is started if none runs.
    command.env_remove("SUBSCOPE_NO_AUTOSTART").arg(world.path("copying/claude")).args(world.arguments());
    match form {
        Form::Stream => command.args(["--output-format", "stream-json", "--verbose"]),
        Form::Text => &mut command,
        Form::Chosen => command.args(["--output-format", "text"]),
    };
    let ended = world.run(command)?;
    let what = match form {
        Form::Stream => "run, a stream",
        Form::Text => "run, text",
        Form::Chosen => "run, text by choice",
    };
    let child = copied.read()?;
    findings.same(format!("{what}: exit code"), ended.status.code(), Some(child.code));
    findings.same(format!("{what}: exit code of claude"), child.code, world.scenario.exit_code);
    match form {
        Form::Stream | Form::Chosen if ended.stdout != child.stdout => {
            let (own, childs) = (ended.stdout.len(), child.stdout.len());
            findings.fault(format!("{what}: stdout of {own} bytes is not the child's of {childs}"));
        }
        Form::Stream => {}
        Form::Chosen => {
            findings.same(
                format!("{what}: stdout"),
                String::from_utf8_lossy(&ended.stdout),
                String::from_utf8_lossy(plain),
            );
        }
        Form::Text => {
            let [found, wanted] = [&ended.stdout, plain].map(String::from_utf8_lossy);
            findings.same(format!("{what}: stdout"), found, wanted);
            if !child.stdout.starts_with(b"{") {
                findings
                    .fault(format!("{what}: the child printed no stream, so that nothing was seen of it"));
            }
        }
    }
    findings.same(format!("{what}: settings"), world.settings(), before);
    let wanted = world.tree(&world.transcript()?)?;
    let tree = settled(&world, &wanted)?;
    for difference in truth::differences(&tree, &wanted) {
        findings.fault(format!("{what}: the tree: {difference}"));
    }
    let known = truth::known(&world.scenario, &world.stand_in.log());
    truth::compare(&known, &tree, findings);
    if form != Form::Stream {
        // With the options that `run` adds the stream has the calls of all agents, at every depth; transcripts have
        // them anyway.
        findings.add(blocks::compare(what, &ended.stderr, &world.scenario, &known, &tree));
    }
    findings.same(format!("{what}: requests for anything but the model"), world.stand_in.others(), vec![]);
    let share = |used: Duration| {
        format!(", {:.1} % of it our processor time", used.as_secs_f64() / ended.took.as_secs_f64() * 100.0)
    };
    findings.note(format!(
        "{what}: {:.1} s{}",
        ended.took.as_secs_f64(),
        ended.used.map(share).unwrap_or_default()
    ));
    world.run(world.subscope("serve --stop"))?;
    Ok(())
}

/// What subscope knows of the session by its id, once that is what the transcript says; else the last that it knew.
fn settled(world: &World, wanted: &Tree) -> Result<Tree> {
    let session = wanted.session.id.to_string();
    let began = tick();
    loop {
        let tree = world.tree(Path::new(&session));
        if began.elapsed() > LIMIT {
            return tree;
        }
        if let Ok(tree) = tree
            && truth::differences(&tree, wanted).is_empty()
        {
            return Ok(tree);
        }
        thread::sleep(POLL);
    }
}

/// Where a copy of what the child prints, and its exit code, are put down.
pub(crate) struct Copied {
    stdout: std::path::PathBuf,
    code: std::path::PathBuf,
}

/// What the child printed, and how it ended.
pub(crate) struct Child {
    pub(crate) stdout: Vec<u8>,
    pub(crate) code: i32,
}

/// Puts a program of this name in place that runs the real one and copies what it prints, byte for byte.
pub(crate) fn copying(world: &World, harness: &Path, name: &str) -> Result<Copied> {
    let copied = Copied { stdout: world.path("copying/stdout"), code: world.path("copying/code") };
    let text = format!(
        "#!/bin/bash\n'{}' \"$@\" | tee '{}'\ncode=${{PIPESTATUS[0]}}\necho \"$code\" > '{}'\nexit \"$code\"\n",
        harness.display(),
        copied.stdout.display(),
        copied.code.display()
    );
    let path = format!("copying/{name}");
    world.write(&path, &text);
    fs::set_permissions(world.path(&path), fs::Permissions::from_mode(0o755))?;
    Ok(copied)
}

impl Copied {
    pub(crate) fn read(&self) -> Result<Child> {
        let code = fs::read_to_string(&self.code).context("the child was never run to its end")?;
        Ok(Child { stdout: fs::read(&self.stdout)?, code: code.trim().parse().context("no exit code")? })
    }
}
