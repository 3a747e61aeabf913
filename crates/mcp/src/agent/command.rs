//! The command of a run: where prompt and inputs stand in it.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use super::call::Call;

const PROMPT: &[u8] = b"{prompt}";
const INPUTS: &[u8] = b"{inputs}";

/// A program with its arguments, and what it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    /// What it is to read on its stdin; nothing where the prompt stands among the arguments.
    pub(super) stdin: Option<String>,
}

/// Puts prompt and inputs where the command has `{prompt}` and `{inputs}`. A word that is `{inputs}` and nothing else becomes
/// one word for each. Inputs without a place follow the prompt as lines; a prompt without a place goes to the stdin. The first
/// word, the program, is left as it is. `None` for an empty command.
pub(super) fn command_line(command: &[OsString], call: &Call) -> Option<CommandLine> {
    let (program, words) = command.split_first()?;
    let has = |mark: &[u8]| words.iter().any(|word| find(word.as_bytes(), mark).is_some());
    let (has_prompt, has_inputs) = (has(PROMPT), has(INPUTS));
    let lines = call.inputs.join("\n");
    let prompt = if has_inputs || call.inputs.is_empty() {
        call.prompt.clone()
    } else {
        format!("{}\n{lines}", call.prompt)
    };
    let mut arguments = Vec::new();
    for word in words {
        if word.as_bytes() == INPUTS {
            arguments.extend(call.inputs.iter().map(OsString::from));
        } else {
            arguments.push(OsString::from_vec(fill(word.as_bytes(), prompt.as_bytes(), lines.as_bytes())));
        }
    }
    let stdin = (!has_prompt).then_some(prompt);
    Some(CommandLine { program: program.clone(), arguments, stdin })
}

/// Replaces both marks in one pass: a prompt that holds a mark is no template.
fn fill(word: &[u8], prompt: &[u8], inputs: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), word);
    while let Some((first, _)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(PROMPT) {
            out.extend_from_slice(prompt);
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix(INPUTS) {
            out.extend_from_slice(inputs);
            rest = behind;
        } else {
            out.push(*first);
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    out
}

fn find(text: &[u8], mark: &[u8]) -> Option<usize> {
    text.windows(mark.len()).position(|window| window == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str], inputs: &[&str]) -> (Vec<String>, Option<String>) {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let call = Call {
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
