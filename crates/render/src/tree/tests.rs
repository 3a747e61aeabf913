//! Snapshots of trees at common widths and styles, and properties that hold at any width.

use subscope_model::{AgentStatus, Basis, LivenessKind, SessionRow, ToolStatus};

use super::*;
use crate::sample;

fn options(detail: Detail, width: usize) -> TreeOptions {
    TreeOptions {
        detail,
        style: Style { color: false, ascii: false, width },
        now: Some(sample::NOW),
        agent: None,
        offset_minutes: 0,
        flat: false,
        most: None,
    }
}

fn drawn(detail: Detail, width: usize) -> String {
    render_tree(&sample::session(), &options(detail, width))
}

#[test]
fn draw_session_at_each_detail_and_width() {
    for width in [60, 80, 120] {
        for detail in Detail::ALL {
            insta::assert_snapshot!(format!("tree_{}_{width}", detail.as_str()), drawn(detail, width));
        }
    }
}

#[test]
fn draw_session_in_color_and_in_ascii() {
    let mut colored = options(Detail::Moderate, 100);
    colored.style.color = true;
    let text = render_tree(&sample::session(), &colored);
    insta::assert_snapshot!("tree_moderate_100_color", text.replace('\u{1b}', "ESC"));
    let mut ascii = options(Detail::Full, 100);
    ascii.style.ascii = true;
    insta::assert_snapshot!("tree_full_100_ascii", render_tree(&sample::session(), &ascii));
}

#[test]
fn colors_change_nothing_but_color() {
    let mut colored = options(Detail::Full, 80);
    colored.style.color = true;
    let mut text = render_tree(&sample::session(), &colored);
    for sequence in ["\u{1b}[36m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[33m", "\u{1b}[35m", "\u{1b}[0m"] {
        text = text.replace(sequence, "");
    }
    assert_eq!(text, drawn(Detail::Full, 80));
}

#[test]
fn ascii_draws_ascii_only_around_ascii_texts() {
    let mut tree = sample::session();
    tree.agents.retain(|agent| agent.agent_type.as_deref() != Some("translator"));
    for detail in Detail::ALL {
        let mut options = options(detail, 70);
        options.style.ascii = true;
        let text = render_tree(&tree, &options);
        assert!(text.is_ascii(), "{text}");
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for detail in Detail::ALL {
        for width in (1..140).step_by(3) {
            for line in drawn(detail, width).lines() {
                assert!(text::width(line) <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn most_bounds_calls_and_texts_and_says_what_is_left_out() {
    let mut tree = sample::session();
    tree.agents.truncate(2);
    tree.agents[1].tools =
        (0..30).map(|at| sample::call("Read", &format!("{at}.js"), ToolStatus::Ok, at, Some(5))).collect();
    tree.agents[1].prompt = Some("one\ntwo\nthree\nfour".into());
    let text = render_tree(&tree, &TreeOptions { most: Some(3), ..options(Detail::Full, 80) });
    for shown in ["27 earlier calls", "Read 27.js", "Read 29.js", "three", "1 more line"] {
        assert!(text.contains(shown), "{shown} in\n{text}");
    }
    assert!(!text.contains("26.js") && !text.contains("four"), "{text}");
}

#[test]
fn each_level_of_detail_shows_more() {
    assert_eq!(drawn(Detail::Off, 80), "");
    let lines = |detail| drawn(detail, 80).lines().count();
    assert!(
        lines(Detail::Minimal) < lines(Detail::Moderate) && lines(Detail::Moderate) < lines(Detail::Full)
    );
    assert!(!drawn(Detail::Moderate, 80).contains("Name every place"));
    assert!(drawn(Detail::Full, 80).contains("Name every place"));
}

#[test]
fn read_detail_accepts_the_four_words_only() {
    for detail in Detail::ALL {
        assert_eq!(detail.as_str().parse(), Ok(detail));
    }
    for word in ["invalid", "", "123", "FULL"] {
        let error = word.parse::<Detail>().unwrap_err().to_string();
        assert!(error.contains("off, minimal, moderate, full"), "{error}");
    }
}

#[test]
fn narrow_terminal_keeps_icon_type_description_and_duration() {
    let text = drawn(Detail::Minimal, 60);
    let row = text.lines().find(|line| line.contains("[Plan] Guest")).unwrap();
    assert!(row.starts_with("├─! [Plan] Guest-cart") && row.contains('…') && row.ends_with("2m 5s"), "{row}");
}

#[test]
fn titles_count_active_subagents_or_all() {
    assert!(drawn(Detail::Minimal, 80).starts_with("Agent Tree (5 active)"));
    let ended = sample::tree_of_depths(&[0, 1, 2]);
    assert!(render_tree(&ended, &options(Detail::Minimal, 80)).starts_with("Agent Tree (2)"));
    let mut with_own = ended;
    with_own.agents[2].flags.push(subscope_model::Flag::Warmup);
    assert!(render_tree(&with_own, &options(Detail::Minimal, 80)).starts_with("Agent Tree (1)"));
}

#[test]
fn one_agent_shows_its_subtree_and_its_figures() {
    let asked = TreeOptions { agent: Some(AgentId::from("a71d2")), ..options(Detail::Moderate, 80) };
    insta::assert_snapshot!("tree_subtree_80", render_tree(&sample::session(), &asked));
    let unknown = TreeOptions { agent: Some(AgentId::from("x\u{1b}")), ..options(Detail::Moderate, 80) };
    assert_eq!(render_tree(&sample::session(), &unknown), "no agent x␛ in this session\n");
}

#[test]
fn deep_chain_keeps_its_words_at_any_width() {
    let depths: Vec<u32> = (0..250).collect();
    let mut tree = sample::tree_of_depths(&depths);
    for agent in &mut tree.agents {
        agent.agent_type = Some("worker".into());
    }
    for width in [40, 60, 120] {
        let text = render_tree(&tree, &options(Detail::Minimal, width));
        let row = text.lines().find(|line| line.contains("⋯249")).unwrap();
        assert!(row.contains("[worker] agent-249"), "{row}");
    }
}

#[test]
fn draw_thousands_of_agents_in_output_linear_in_them() {
    let of = |count: u32| {
        let depths: Vec<u32> = (0..count).map(|at| at % 300).collect();
        let mut tree = sample::tree_of_depths(&depths);
        for agent in &mut tree.agents {
            agent.tools =
                (0..10).map(|at| sample::call("Read", "a.js", ToolStatus::Ok, at, Some(5))).collect();
            agent.result = Some("fine ".repeat(1_000).into());
        }
        render_tree(&tree, &options(Detail::Moderate, 120)).len()
    };
    let (some, many) = (of(300), of(3_000));
    assert!(many < some * 11, "{some} {many}");
}

#[test]
fn activity_names_the_wait_and_marks_guesses() {
    let tree = sample::session();
    let style = Style { color: false, ascii: false, width: 80 };
    let words = |id: &str, change: &dyn Fn(&mut Agent)| {
        let mut agent = tree.agents.iter().find(|agent| &*agent.id == id).unwrap().clone();
        change(&mut agent);
        activity(&agent, Some(sample::NOW), &style)
    };
    let plain = |_: &mut Agent| {};
    assert_eq!(words("a70c1", &plain), Some((Ink::Running, "Read server.js · 3s".into())));
    assert_eq!(words("a71d2", &plain), Some((Ink::Waiting, "waits for permission Bash · 40s".into())));
    assert_eq!(words("a73f4", &plain), Some((Ink::Running, "~waits for the model · 31s".into())));
    let retry = "waits for the model · 3m 11s · retry 4/10: overloaded";
    assert_eq!(words("a74a5", &plain), Some((Ink::Stalled, retry.into())));
    assert_eq!(words("root", &plain), Some((Ink::Running, "waits for 4 subagents · 1m 50s".into())));
    assert_eq!(words("a72e3", &plain), None);
    let guess = words("a70c1", &|agent| agent.tools[2].basis = Basis::Unknown);
    assert_eq!(guess.unwrap().1, "~Read server.js · 3s");
    let several = words("a70c1", &|agent| agent.open_tools = 3);
    assert_eq!(several.unwrap().1, "Read server.js · 3s · +2 more");
    let idle = words("a70c1", &|agent| {
        let live = agent.liveness.as_mut().unwrap();
        (live.kind, live.since_ms) = (LivenessKind::Idle, None);
    });
    assert_eq!(idle.unwrap().1, "idle");
    assert_eq!(words("a70c1", &|agent| agent.status = AgentStatus::Lost), None);
}

#[test]
fn unknown_figures_are_blank_and_never_zero() {
    let text = render_tree(&sample::tree_of_depths(&[0, 1]), &options(Detail::Minimal, 120));
    let row = text.lines().find(|line| line.contains("agent-1")).unwrap();
    assert!(row.ends_with("—      0       —     —"), "{row:?}");
}

/// Cases that the page is tested with, too.
#[test]
fn rows_have_the_words_and_marks_of_the_page() {
    let list = include_str!("../../../../fixtures/figures.json");
    let list: serde_json::Value = serde_json::from_str(list).unwrap();
    let style = Style { color: false, ascii: false, width: 80 };
    for case in list["agents"].as_array().unwrap() {
        let agent = Agent::unknown(AgentId::from("a1"), 1, AgentStatus::Completed);
        let mut agent = serde_json::to_value(agent).unwrap();
        for (name, value) in case[0].as_object().unwrap() {
            agent[name] = value.clone();
        }
        let agent: Agent = serde_json::from_value(agent).unwrap();
        let words = activity(&agent, Some(91_000), &style).map(|(_, words)| words);
        let shown = (agent.title(), style.glyphs().agent(&agent), words);
        let expected = (
            case[1].as_str().unwrap().to_owned(),
            case[3].as_str().unwrap(),
            case[4].as_str().map(str::to_owned),
        );
        assert_eq!(shown, expected, "{case}");
    }
    for case in list["sessions"].as_array().unwrap() {
        let status = if case[0] == "ended" { "ended" } else { "live" };
        let row: SessionRow = serde_json::from_value(serde_json::json!({
            "id": "s", "status": status, "attention": case[0], "root": case[1], "runs": 1, "agents": 1, "running": 0,
            "failed": 0, "tool_calls": 0,
        }))
        .unwrap();
        assert_eq!(style.glyphs().session(&row).0, case[3].as_str().unwrap(), "{case}");
    }
}
