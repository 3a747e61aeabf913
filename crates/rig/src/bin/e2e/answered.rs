//! Permission requests of the real Claude Code at six terminals: one is allowed in the terminal UI, one denied by
//! `subscope answer`, one answered in its own terminal first, and one waits when the hub is killed. Each command ran or did
//! not run as was answered. Two questions are answered in the terminal UI, and a plan is approved.

use std::{path::Path, thread, time::Duration};

use anyhow::{Context, Result, bail};
use subscope_client::{Address, Client};
use subscope_model::{PermissionDecision, PermissionRequest};
use subscope_rig::tick;
use subscope_testkit::env::Terminal as Screen;

use crate::{
    finding::Findings,
    served::{Hub, obey},
    terminal::Terminal,
    world::{POLL, Programs, World},
};

/// Folders of the four projects.
const PROJECTS: [&str; 4] = ["q1-cart", "q2-prices", "q3-stock", "q4-papers"];
/// The folder whose agent asks questions, and that whose agent plans.
const OTHERS: [&str; 2] = ["q5-unit", "q6-plan"];
/// No command is allowed without a question.
const MODE: [&str; 2] = ["--permission-mode", "default"];
/// Far more than any step takes.
const LIMIT: Duration = Duration::from_secs(60);
/// What a terminal shows that asks.
const ASKS: &str = "Do you want to proceed?";
/// What a terminal shows with a plan.
const SHOWS_PLAN: &str = "Would you like to proceed?";
/// What the agent says when its call has ended.
const DONE: &str = "All is noted.";

pub(crate) fn play(programs: &Programs, script: &Path, findings: &mut Findings) -> Result<()> {
    let world = World::new(programs, script)?;
    let folders: Vec<_> = PROJECTS.iter().chain(&OTHERS).copied().collect();
    for project in &folders {
        world.copy_repository(project)?;
    }
    obey(&world, "config set answers.enabled true")?;
    obey(&world, "hooks install --scope user")?;
    let hub = Hub::start(world.subscope("serve --listen 127.0.0.1:0"))?;
    let mut client = Client::connect(Address::Tcp(hub.address))?;
    Terminal::trust(&world, &folders.iter().map(|project| world.path(project)).collect::<Vec<_>>());
    let Some(screen) = Screen::start(world.env(), 120, 40, &[]) else {
        findings.note("skipped: tmux is not installed");
        return Ok(());
    };
    screen.wait_for_text(LIMIT, "subscope");
    let start = |project: &str, mode: &[&str], prompt: &str| {
        let terminal = Terminal::start_in(&world, &world.path(project), mode)?.context("tmux has gone")?;
        terminal.wait_for("the prompt", |screen| screen.contains('❯'))?;
        terminal.enter(prompt)?;
        anyhow::Ok(terminal)
    };

    // Two questions are answered in the terminal UI: the second option, then the first and other words for several.
    let [asker, planner] = OTHERS;
    let terminal = start(asker, &MODE, "Ask about the unit.")?;
    until(&mut client, |requests| requests.len() == 1)?;
    terminal.wait_for("its own question", |screen| screen.contains("Which unit?"))?;
    screen.wait_for_text(LIMIT, "p answers");
    screen.send(&["p"]);
    screen.wait_for_text(LIMIT, "1 of 2");
    screen.send(&["Down", "Enter"]);
    screen.wait_for_text(LIMIT, "2 of 2");
    screen.send(&["Space", "Down", "Space", "Enter"]);
    terminal.wait_for("the answers", |screen| {
        ["Which unit? → Euros", "Which parts? → Cart, Stock", DONE].iter().all(|words| screen.contains(words))
    })?;
    drop(terminal);

    // A plan is approved by the command; the agent goes on in the mode that it had before.
    let terminal = start(planner, &["--permission-mode", "plan"], "Plan the mark.")?;
    let asked = until(&mut client, |requests| requests.len() == 1)?;
    terminal.wait_for("its own question", |screen| screen.contains(SHOWS_PLAN))?;
    let plan = of(&world, planner, &asked)?;
    findings.same("the whole plan is shown", plan.arguments.contains("1. Write the mark."), true);
    obey(&world, &format!("answer {} --allow", plan.id))?;
    terminal.wait_for("the approval", |screen| screen.contains(DONE) && screen.contains("manual mode on"))?;
    drop(terminal);

    let mut terminals = Vec::new();
    for project in PROJECTS {
        terminals.push((project, start(project, &MODE, "Write the mark.")?));
    }
    let asked = until(&mut client, |requests| requests.len() == PROJECTS.len())?;
    for (_, terminal) in &terminals {
        // The terminal asks, too, while the hook waits.
        terminal.wait_for("its own question", |screen| screen.contains(ASKS))?;
    }

    // Allowed in the terminal UI, which opens the request that it chooses.
    screen.send(&["p"]);
    let shown = screen.wait_for_text(LIMIT, "allow once");
    let in_folder = |project: &str| format!(" in {}", world.path(project).display());
    let place = PROJECTS.iter().position(|project| shown.contains(&in_folder(project)));
    let (allowed, terminal) =
        terminals.remove(place.with_context(|| format!("whose request is it?\n{shown}"))?);
    findings.same("the whole call is shown", shown.contains("command: touch mark.txt && git tag v1"), true);
    screen.send(&["y"]);
    terminal.wait_for("the answer", |screen| screen.contains(DONE))?;
    findings.same(format!("{allowed}: allowed, ran"), has_run(&world, allowed), true);

    // Denied by the command, with a reason that the agent reads.
    let (denied, terminal) = terminals.remove(0);
    let request = of(&world, denied, &asked)?;
    obey(&world, &format!("answer {} --deny --reason tomorrow", request.id))?;
    terminal.wait_for("the refusal", |screen| screen.contains("tomorrow") && screen.contains(DONE))?;
    findings.same(format!("{denied}: denied, ran"), has_run(&world, denied), false);
    let again = client.answer_permission(&request.id, &PermissionDecision::ALLOW);
    findings.same("a second answer is taken", again.is_ok(), false);

    // Answered in its own terminal first.
    let (first, terminal) = terminals.remove(0);
    let request = of(&world, first, &asked)?;
    terminal.press("Enter")?;
    terminal.wait_for("the answer", |screen| screen.contains(DONE))?;
    until(&mut client, |requests| requests.iter().all(|other| other.id != request.id))?;
    let late = client.answer_permission(&request.id, &PermissionDecision::deny(None));
    findings.same("a late answer is taken", late.is_ok(), false);
    findings.same(format!("{first}: allowed in its terminal, ran"), has_run(&world, first), true);

    // The hub is killed while a hook waits: the terminal decides. Without the terminal UI nobody starts another.
    let (left, terminal) = terminals.remove(0);
    drop(screen);
    drop(hub);
    terminal.wait_for("its own question", |screen| screen.contains(ASKS))?;
    terminal.press("Escape")?;
    terminal.wait_for("the interruption", |screen| screen.contains("Interrupted"))?;
    findings.same(format!("{left}: refused in its terminal, ran"), has_run(&world, left), false);
    findings.note(
        "questions answered and a call allowed in the terminal UI, a plan approved and a call denied by the command, one \
         answered at its terminal, hub killed",
    );
    Ok(())
}

fn has_run(world: &World, project: &str) -> bool {
    world.path(project).join("mark.txt").exists()
}

/// The request of a project.
fn of<'r>(world: &World, project: &str, requests: &'r [PermissionRequest]) -> Result<&'r PermissionRequest> {
    let folder = world.path(project);
    let mut found = requests.iter().filter(|request| request.cwd.as_deref().map(Path::new) == Some(&folder));
    found.next().with_context(|| format!("{project} has no request"))
}

/// Waits until the requests that wait are as they should be.
fn until(
    client: &mut Client,
    is_so: impl Fn(&[PermissionRequest]) -> bool,
) -> Result<Vec<PermissionRequest>> {
    let began = tick();
    loop {
        let requests = client.permissions()?.requests;
        if is_so(&requests) {
            return Ok(requests);
        }
        if began.elapsed() > LIMIT {
            bail!("the requests that wait: {requests:?}");
        }
        thread::sleep(POLL);
    }
}
