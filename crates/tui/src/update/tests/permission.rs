//! Tests of permission requests: what is read can be allowed, a refusal has a reason, and each is answered once.

use ratatui::crossterm::event::KeyCode as K;
use subscope_model::{
    AgentId, PERMISSION_ANSWERED_SCHEMA, PERMISSIONS_SCHEMA, PermissionAnswered, PermissionBehavior,
    PermissionDecision, PermissionRequest, PermissionRequests,
};

use super::*;
use crate::ask::{Answer, Question};

pub(super) fn request(id: &str, command: &str) -> PermissionRequest {
    PermissionRequest {
        id: id.into(),
        session_id: "another".into(),
        agent_id: AgentId::ROOT.into(),
        tool: "Bash".into(),
        arguments: serde_json::json!({ "command": command }).to_string().into(),
        cwd: Some("/home/user/shop".into()),
        asked_at_ms: 0,
        until_ms: 0,
    }
}

fn none() -> PermissionRequests {
    PermissionRequests { schema: PERMISSIONS_SCHEMA.into(), enabled: true, requests: Vec::new() }
}

pub(super) fn off() -> PermissionRequests {
    PermissionRequests { enabled: false, ..none() }
}

/// The host lists these requests.
pub(super) fn offer(ui: &mut TestUi, requests: &[PermissionRequest]) {
    let all =
        PermissionRequests { schema: PERMISSIONS_SCHEMA.into(), enabled: true, requests: requests.to_vec() };
    ui.reply(Question::Permissions, Answer::Permissions(all));
    // What was said before has passed.
    ui.pass(60_000);
    ui.asked();
}

fn permitted(ui: &mut TestUi) -> Vec<(String, PermissionDecision)> {
    let mut all = Vec::new();
    for question in ui.asked() {
        if let Question::Permit(id, decision) = question {
            all.push((id.to_string(), decision));
        }
    }
    all
}

const ALLOW: PermissionDecision = PermissionDecision { behavior: PermissionBehavior::Allow, reason: None };

#[test]
fn short_call_is_allowed_by_one_key() {
    let mut ui = TestUi::live(100, 30);
    offer(&mut ui, &[request("one", "git tag v1"), request("two", "git push")]);
    assert!(ui.screen().contains("1 more   p answers"), "{}", ui.screen());
    ui.press(&[K::Char('p')]);
    let screen = ui.screen();
    assert!(screen.contains("Bash in /home/user/shop") && screen.contains("command: git tag v1"), "{screen}");
    // Keys of the views below mean nothing here.
    ui.press(&[K::Char('s'), K::Char('d'), K::Enter]);
    assert_eq!(permitted(&mut ui), []);
    ui.press(&[K::Char('y')]);
    assert_eq!(permitted(&mut ui), [("one".to_owned(), ALLOW)]);
    let answered = PermissionAnswered {
        schema: PERMISSION_ANSWERED_SCHEMA.into(),
        id: "one".into(),
        session_id: "another".into(),
        agent_id: AgentId::ROOT.into(),
        tool: "Bash".into(),
        behavior: PermissionBehavior::Allow,
    };
    ui.reply(Question::Permit("one".into(), ALLOW), Answer::Permitted(answered));
    assert!(ui.screen().contains("allowed: Bash"), "{}", ui.screen());
    ui.press(&[K::Char('p')]);
    assert!(ui.screen().contains("command: git push"), "the next one\n{}", ui.screen());
}

#[test]
fn long_call_is_allowed_only_after_its_end_was_on_the_screen() {
    let mut ui = TestUi::live(80, 24);
    let long: Vec<String> = (0..60).map(|line| format!("echo {line}")).collect();
    offer(&mut ui, &[request("one", &long.join("\n"))]);
    ui.press(&[K::Char('p')]);
    assert!(ui.screen().contains("to its end, then y allows"), "{}", ui.screen());
    ui.press(&[K::Char('y'), K::PageDown, K::Char('y')]);
    assert_eq!(permitted(&mut ui), []);
    ui.press(&[K::Char('G')]);
    assert!(ui.screen().contains("echo 59") && ui.screen().contains("y allow once"), "{}", ui.screen());
    ui.press(&[K::Up, K::Char('y')]);
    assert_eq!(permitted(&mut ui), [("one".to_owned(), ALLOW)]);
}

#[test]
fn refusal_takes_a_reason_whose_letters_are_no_keys() {
    let mut ui = TestUi::live(100, 30);
    offer(&mut ui, &[request("one", "rm -rf build")]);
    ui.press(&[K::Char('p'), K::Char('n')]);
    ui.type_text("not yet");
    assert!(ui.screen().contains("deny, because: not yet"), "{}", ui.screen());
    ui.press(&[K::Esc]);
    assert!(ui.screen().contains("n deny"), "Esc takes the reason back\n{}", ui.screen());
    ui.press(&[K::Char('n')]);
    ui.type_text("use make clean");
    ui.press(&[K::Enter]);
    let denial =
        PermissionDecision { behavior: PermissionBehavior::Deny, reason: Some("use make clean".into()) };
    assert_eq!(permitted(&mut ui), [("one".to_owned(), denial)]);
}

#[test]
fn request_that_is_answered_elsewhere_closes() {
    let mut ui = TestUi::live(100, 30);
    offer(&mut ui, &[request("one", "git tag v1")]);
    ui.press(&[K::Char('p')]);
    ui.reply(Question::Permissions, Answer::Permissions(none()));
    assert!(ui.screen().contains("it was answered in its terminal"), "{}", ui.screen());
    ui.press(&[K::Char('y')]);
    assert_eq!(permitted(&mut ui), []);
}

#[test]
fn host_is_asked_only_while_the_terminal_is_looked_at() {
    let mut ui = TestUi::live(100, 30);
    let is_asked = |ui: &mut TestUi| {
        ui.reply(Question::Permissions, Answer::Permissions(none()));
        ui.asked();
        ui.pass(2_000);
        ui.asked().contains(&Question::Permissions)
    };
    assert!(is_asked(&mut ui));
    ui.send(UiMessage::Focus(false));
    assert!(!is_asked(&mut ui), "its window is not in front");
    ui.send(UiMessage::Focus(true));
    assert!(is_asked(&mut ui));
}
