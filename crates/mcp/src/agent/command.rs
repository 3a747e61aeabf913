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

/// Fills `{prompt}` and `{inputs}` in the command's arguments. An argument that is exactly `{inputs}` becomes one
/// argument per input. Without `{inputs}`, inputs are appended to the prompt as lines; without `{prompt}`, the prompt
/// is written to stdin. The program name is not a template. `None` for an empty command.
pub(super) fn command_line(command: &[OsString], call: &AgentCall) -> Option<CommandLine> {
    let (program, words) = command.split_first()?;
    let placeholders = AhoCorasick::new([PROMPT, INPUTS]).ok()?;
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
    let mut arguments = Vec::new();
    for word in words {
        if word == INPUTS {
            arguments.extend(call.inputs.iter().map(OsString::from));
        } else {
            // In one pass, so that placeholders in the prompt are not expanded.
            let filled = placeholders.replace_all_bytes(word.as_bytes(), &[&prompt, &lines]);
            arguments.push(OsString::from_vec(filled));
        }
    }
    let stdin = (!has(0)).then_some(prompt);
    Some(CommandLine { program: program.clone(), arguments, stdin })
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
        let line = command_line(&words, &call).unwrap();
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
}
