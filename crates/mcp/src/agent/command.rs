//! Builds the command line of a run from its template.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use aho_corasick::AhoCorasick;

use super::call::AgentCall;

const PROMPT: &str = "{prompt}";
const INPUTS: &str = "{inputs}";

/// A program with arguments and stdin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    /// Text for stdin; `None` if the prompt is among the arguments.
    pub(super) stdin: Option<String>,
}

/// A text of the caller that the command would take for an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} begins with \"-\", so that the agent's command would take it for an option: begin it with a word"
)]
pub(super) struct OptionLike {
    /// The argument of the call.
    name: &'static str,
}

/// Fills `{prompt}` and `{inputs}` in the command's arguments. An argument that is exactly `{inputs}` becomes one
/// argument per input. Without `{inputs}`, inputs are appended to the prompt as lines; without `{prompt}`, the prompt
/// is written to stdin. The program name is not a template. `None` for an empty command.
///
/// # Errors
/// If the text for a placeholder at the start of a word begins with `-`, and no `--` precedes the word.
pub(super) fn command_line(
    command: &[OsString],
    call: &AgentCall,
) -> Result<Option<CommandLine>, OptionLike> {
    let (Some((program, words)), Ok(placeholders)) =
        (command.split_first(), AhoCorasick::new([PROMPT, INPUTS]))
    else {
        return Ok(None);
    };
    let has = |which: usize| {
        words.iter().any(|word| {
            placeholders.find_iter(word.as_bytes()).any(|found| found.pattern().as_usize() == which)
        })
    };
    let lines = call.inputs.join("\n");
    let mut prompt = call.prompt.clone();
    if !(has(1) || call.inputs.is_empty()) {
        prompt = format!("{prompt}\n{lines}");
    }
    let mut arguments: Vec<OsString> = Vec::new();
    let mut takes_options = true;
    for word in words {
        let first = arguments.len();
        if word == INPUTS {
            arguments.extend(call.inputs.iter().map(OsString::from));
        } else {
            // In one pass, so that placeholders in the prompt are not expanded.
            let filled = placeholders.replace_all_bytes(word.as_bytes(), &[&prompt, &lines]);
            arguments.push(OsString::from_vec(filled));
        }
        takes_options &= word != "--";
        let is_option = |word: &OsString| word.as_bytes().starts_with(b"-");
        let mut filled = arguments.get(first..).unwrap_or_default().iter();
        if takes_options && !is_option(word) && filled.any(is_option) {
            let is_prompt = word.as_bytes().starts_with(PROMPT.as_bytes());
            return Err(OptionLike { name: if is_prompt { "prompt" } else { "inputs" } });
        }
    }
    let stdin = (!has(0)).then_some(prompt);
    Ok(Some(CommandLine { program: program.clone(), arguments, stdin }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str], inputs: &[&str]) -> (Vec<String>, Option<String>) {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let call = AgentCall {
            prompt: "do {inputs}".into(),
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
            run_id: "r".into(),
        };
        let line = command_line(&words, &call).unwrap().unwrap();
        let arguments = line.arguments.iter().map(|word| word.to_string_lossy().into_owned());
        (arguments.collect(), line.stdin)
    }

    #[test]
    fn prompt_and_inputs_stand_where_the_command_has_a_place() {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let read = |text: &str| Some(text.to_owned());
        assert_eq!(line(&["a", "-p"], &[]), (owned(&["-p"]), read("do {inputs}")));
        assert_eq!(line(&["a"], &["x", "y"]), (owned(&[]), read("do {inputs}\nx\ny")));
        assert_eq!(line(&["a", "-p", "{prompt}"], &["x"]), (owned(&["-p", "do {inputs}\nx"]), None));
        assert_eq!(
            line(&["a", "{prompt}", "{inputs}"], &["x", "y"]),
            (owned(&["do {inputs}", "x", "y"]), None)
        );
        assert_eq!(line(&["a", "--in={inputs}"], &["x", "y"]), (owned(&["--in=x\ny"]), read("do {inputs}")));
        assert_eq!(line(&["{prompt}", "{inputs}"], &[]), (owned(&[]), read("do {inputs}")));
    }

    #[test]
    fn text_of_the_caller_is_never_an_option() {
        let filled = |words: &[&str], prompt: &str, inputs: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let inputs = inputs.iter().map(|input| (*input).to_owned()).collect();
            let call = AgentCall { prompt: prompt.to_owned(), inputs, run_id: "r".into() };
            command_line(&words, &call).map(|line| line.unwrap().arguments)
        };
        let danger = "--dangerously-skip-permissions";
        let refused = |name| Err(OptionLike { name });
        assert_eq!(filled(&["claude", "-p", "{prompt}"], danger, &[]), refused("prompt"));
        assert_eq!(filled(&["claude", "{prompt} please"], danger, &[]), refused("prompt"));
        assert_eq!(filled(&["claude", "{inputs}"], "p", &["a", "-b"]), refused("inputs"));
        // A text that cannot be read as an option may begin with `-`.
        assert_eq!(filled(&["claude", "-p", "--", "{prompt}"], "-x", &[]).unwrap().len(), 3);
        assert_eq!(filled(&["claude", "--prompt={prompt}"], "-x", &[]).unwrap(), ["--prompt=-x"]);
        assert_eq!(filled(&["claude", "Do: {prompt}"], "-x", &[]).unwrap(), ["Do: -x"]);
        assert_eq!(filled(&["claude", "-p"], "-x", &[]).unwrap(), ["-p"]);
    }
}
