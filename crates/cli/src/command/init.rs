//! `subscope init`: prints the shell code for completion of session and agent ids, and for a prompt segment.

use clap_complete::env::Shells;

use crate::prelude::*;

/// Variable with which the shell asks for completions.
pub(crate) const COMPLETE: &str = "SUBSCOPE_COMPLETE";
/// The program's name, found by the shell's search path.
const PROGRAM: &str = "subscope";

const BASH_PROMPT: &str = r#"
# Shows agents at work before the prompt.
subscope_prompt() { subscope status --live 2>/dev/null; }
case "$PS1" in
  *subscope_prompt*) ;;
  *) PS1='$(subscope_prompt)'"$PS1" ;;
esac
"#;

const ZSH_PROMPT: &str = r#"
# Shows agents at work at the right of the prompt.
subscope_prompt() { local line="$(subscope status --live 2>/dev/null)"; print -rn -- "${line//\%/%%}"; }
setopt prompt_subst
[[ "$RPROMPT" == *subscope_prompt* ]] || RPROMPT='$(subscope_prompt)'"${RPROMPT:+ $RPROMPT}"
"#;

const FISH_PROMPT: &str = r"
# Shows agents at work at the right of the prompt.
function subscope_prompt
    subscope status --live 2>/dev/null
end
if not functions --query fish_right_prompt
    function fish_right_prompt
        subscope_prompt
    end
end
";

pub(crate) fn run(args: InitArgs) -> Result<(), CliError> {
    let (shell, prompt) = match args.shell {
        InitShell::Bash => ("bash", BASH_PROMPT),
        InitShell::Zsh => ("zsh", ZSH_PROMPT),
        InitShell::Fish => ("fish", FISH_PROMPT),
    };
    let shells = Shells::builtins();
    let completer =
        shells.completer(shell).ok_or_else(|| CliError::failed(format!("unknown shell {shell}")))?;
    output::to_stdout(|mut out| {
        completer.write_registration(COMPLETE, PROGRAM, PROGRAM, PROGRAM, &mut out)?;
        if !args.no_prompt {
            out.write_all(prompt.as_bytes())?;
        }
        Ok(())
    })
}
