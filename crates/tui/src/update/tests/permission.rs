//! Tests of permission requests: what is read can be allowed, a refusal has a reason, and each is answered once.

use ratatui::crossterm::event::KeyCode as K;
use subscope_model::{
    AgentId, AgentQuestion, PERMISSION_ANSWERED_SCHEMA, PERMISSIONS_SCHEMA, PermissionAnswered,
    PermissionBehavior, PermissionDecision, PermissionRequest, PermissionRequests, QuestionOption,
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
        questions: Vec::new(),
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

const ALLOW: PermissionDecision = PermissionDecision::ALLOW;

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
        answers: Vec::new(),
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
    let denial = PermissionDecision::deny(Some("use make clean".into()));
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

/// A request with two questions; the second takes several answers.
fn questions() -> PermissionRequest {
    let option = |label: &str, description: Option<&str>| QuestionOption {
        label: label.into(),
        description: description.map(Into::into),
    };
    let color = AgentQuestion {
        question: "Which color?".into(),
        header: Some("Color".into()),
        options: vec![option("Red", Some("warm")), option("Blue", Some("cold"))],
        multi_select: false,
    };
    let parts = AgentQuestion {
        question: "Which parts?".into(),
        header: None,
        options: vec![option("Door", None), option("Roof", None), option("Wall", None)],
        multi_select: true,
    };
    PermissionRequest { tool: "AskUserQuestion".into(), questions: vec![color, parts], ..request("ask", "") }
}

#[test]
fn questions_are_answered_one_by_one() {
    let mut ui = TestUi::live(100, 30);
    offer(&mut ui, &[questions()]);
    assert!(ui.screen().contains("Which color?"), "the footer says what is asked\n{}", ui.screen());
    ui.press(&[K::Char('p')]);
    let screen = ui.screen();
    assert!(
        screen.contains("AskUserQuestion 1 of 2 in /home/user/shop") && screen.contains("> Red"),
        "{screen}"
    );
    assert!(screen.contains("cold") && screen.contains("other words"), "{screen}");
    // Keys of a call mean nothing here.
    ui.press(&[K::Char('y'), K::Char('j'), K::Enter]);
    assert!(ui.screen().contains("AskUserQuestion 2 of 2"), "{}", ui.screen());
    ui.press(&[K::Char(' '), K::Char('j'), K::Char('j'), K::Char(' ')]);
    let screen = ui.screen();
    assert!(
        screen.contains("  [x] Door") && screen.contains("  [ ] Roof") && screen.contains("> [x] Wall"),
        "{screen}"
    );
    assert_eq!(permitted(&mut ui), []);
    ui.press(&[K::Enter]);
    let answer = PermissionDecision::answer(vec!["Blue".into(), "Door, Wall".into()]);
    assert_eq!(permitted(&mut ui), [("ask".to_owned(), answer.clone())]);
    let answered = PermissionAnswered {
        schema: PERMISSION_ANSWERED_SCHEMA.into(),
        id: "ask".into(),
        session_id: "another".into(),
        agent_id: AgentId::ROOT.into(),
        tool: "AskUserQuestion".into(),
        behavior: PermissionBehavior::Allow,
        answers: answer.answers.clone(),
    };
    ui.reply(Question::Permit("ask".into(), answer), Answer::Permitted(answered));
    assert!(ui.screen().contains("answered: AskUserQuestion"), "{}", ui.screen());
}

#[test]
fn question_takes_other_words_and_goes_back() {
    let mut ui = TestUi::live(80, 24);
    offer(&mut ui, &[questions()]);
    ui.press(&[K::Char('p'), K::End, K::Enter]);
    // Letters are no keys while they are typed; nothing is no answer.
    ui.press(&[K::Enter]);
    ui.type_text("green n");
    assert!(ui.screen().contains("answer: green n"), "{}", ui.screen());
    ui.press(&[K::Enter]);
    assert!(ui.screen().contains("2 of 2"), "{}", ui.screen());
    ui.press(&[K::Backspace]);
    assert!(ui.screen().contains("1 of 2"), "{}", ui.screen());
    ui.press(&[K::End, K::Enter]);
    ui.send(UiMessage::Paste("olive\nand more".to_owned()));
    ui.press(&[K::Enter, K::Char('j'), K::Enter]);
    let answer = PermissionDecision::answer(vec!["olive".into(), "Roof".into()]);
    assert_eq!(permitted(&mut ui), [("ask".to_owned(), answer)]);
}

#[test]
fn question_is_declined_with_a_reason() {
    let mut ui = TestUi::live(80, 24);
    offer(&mut ui, &[questions()]);
    ui.press(&[K::Char('p'), K::Char('n')]);
    ui.type_text("ask me later");
    ui.press(&[K::Enter]);
    let denial = PermissionDecision::deny(Some("ask me later".into()));
    assert_eq!(permitted(&mut ui), [("ask".to_owned(), denial)]);
}
