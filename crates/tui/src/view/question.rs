//! One question of an agent: its text, and what it offers.

use subscope_model::AgentQuestion;
use subscope_render::{Ink, style::StyledLine, text};

use super::paint::Canvas;
use crate::state::{AnswerForm, PermissionPrompt};

/// The lines of a question, and where its cursor is.
pub(super) struct QuestionLines {
    pub(super) lines: Vec<StyledLine>,
    /// The line behind the option at the cursor.
    pub(super) cursor: usize,
}

/// Returns the question on the screen; `None` for a call that is allowed or denied as it is.
pub(super) fn asked(prompt: &PermissionPrompt) -> Option<&AgentQuestion> {
    prompt.request.questions.get(prompt.form.question())
}

/// Returns the lines of a question, at most `room` columns wide.
pub(super) fn lines(
    asked: &AgentQuestion,
    form: &AnswerForm,
    room: usize,
    canvas: &Canvas<'_>,
) -> QuestionLines {
    let charset = canvas.style.charset();
    let safe = |words: &str| subscope_render::safe::lines(words, charset);
    let wrapped = |words: &str, ink, indent: &str| -> Vec<StyledLine> {
        let parts = words.lines().flat_map(|line| text::wrap(line, room.saturating_sub(indent.len()).max(1)));
        parts.map(|part| StyledLine::default().with(None, indent).with(ink, &part)).collect()
    };
    let mut all = wrapped(&safe(&asked.question), Some(Ink::Strong), "");
    all.push(StyledLine::default());
    let mut cursor = 0;
    let other = "other words…";
    let offered = asked.options.iter().map(|option| (safe(&option.label), option.description.as_deref()));
    for (at, (label, description)) in offered.chain([(canvas.in_charset(other), None)]).enumerate() {
        let is_here = at == form.cursor;
        let is_option = at < asked.options.len();
        let mark = match (is_here, asked.multi_select && is_option, form.is_chosen(at)) {
            (true, true, true) => "> [x] ",
            (true, true, false) => "> [ ] ",
            (false, true, true) => "  [x] ",
            (false, true, false) => "  [ ] ",
            (true, false, _) => "> ",
            (false, false, _) => "  ",
        };
        let ink = if is_here { Some(Ink::Strong) } else { None };
        let indent = " ".repeat(mark.len());
        for (line, part) in
            text::wrap(&label.replace('\n', " "), room.saturating_sub(mark.len()).max(1)).iter().enumerate()
        {
            all.push(StyledLine::default().with(ink, if line == 0 { mark } else { &indent }).with(ink, part));
        }
        all.extend(
            description.map(|words| wrapped(&safe(words), Some(Ink::Done), &indent)).unwrap_or_default(),
        );
        if is_here {
            cursor = all.len();
        }
    }
    QuestionLines { lines: all, cursor }
}

/// Returns the keys of a question, or the words that are typed.
pub(super) fn footer(
    asked: &AgentQuestion,
    form: &AnswerForm,
    width: usize,
    canvas: &Canvas<'_>,
) -> StyledLine {
    let mut line = StyledLine::default().with(None, " ");
    if let Some(words) = &form.words {
        line.paint(Ink::Running, "answer: ");
        line.push(&canvas.style.one_line(words, width));
        line.paint(Ink::Strong, if canvas.style.ascii { "_" } else { "▏" });
        line.paint(Ink::Done, &canvas.in_charset("   Enter · Esc"));
        return line;
    }
    let several = asked.multi_select.then_some(("Space", " marks several  "));
    let back = (form.question() > 0).then_some(("Backspace", " the one before  "));
    let always = [("n", " decline  "), ("Esc", " leave it to its terminal  ")];
    for (key, words) in [("Enter", " answers  ")].into_iter().chain(several).chain(back).chain(always) {
        line.add(Some(Ink::Strong), key);
        line.add(None, words);
    }
    line
}
