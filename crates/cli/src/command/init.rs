//! `subscope init`: prints the shell code for completion of session and agent ids, and for a prompt segment.

use std::{ffi::OsString, io, path::Path};

use clap_complete::env::{self, EnvCompleter, Shells};
use subscope_harness::quoted;

use crate::prelude::*;

/// Variable with which the shell asks for completions.
pub(crate) const COMPLETE: &str = "SUBSCOPE_COMPLETE";
/// The program's name.
const PROGRAM: &str = "subscope";
/// The shells that may ask for completions: those of which it is tested what they do with a candidate.
pub(crate) const SHELLS: Shells<'static> = Shells(&[&QuotingBash, &env::Zsh, &env::Fish]);

/// Bash inserts a candidate into the command line as it is, so a file's name could be code: this quotes each. `~/` stays,
/// so that it is the home folder.
const BASH_REGISTRATION: &str = r#"
_clap_complete_NAME() {
    local IFS=$'\013' found candidate
    local words=("${COMP_WORDS[@]}")
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        words[COMP_CWORD]="$2"
    fi
    compopt +o nospace 2> /dev/null
    read -r -d '' -a found < <( \
        _CLAP_IFS="$IFS" \
        _CLAP_COMPLETE_INDEX="$COMP_CWORD" \
        VAR="bash" \
        COMPLETER -- "${words[@]}" \
    )
    COMPREPLY=()
    for candidate in "${found[@]}"; do
        case "$candidate" in
            "~/"*) COMPREPLY+=( "~/$(printf %q "${candidate:2}")" ) ;;
            *) COMPREPLY+=( "$(printf %q "$candidate")" ) ;;
        esac
    done
    if [[ "${COMPREPLY-}" =~ [=/:]$ ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _clap_complete_NAME BIN
else
    complete -o nospace -o bashdefault -F _clap_complete_NAME BIN
fi
"#;

const BASH_PROMPT: &str = r#"
# Shows agents at work before the prompt.
subscope_prompt() { PROGRAM status --live 2>/dev/null; }
case "$PS1" in
  *subscope_prompt*) ;;
  *) PS1='$(subscope_prompt)'"$PS1" ;;
esac
"#;

const ZSH_PROMPT: &str = r#"
# Shows agents at work at the right of the prompt.
subscope_prompt() { local line="$(PROGRAM status --live 2>/dev/null)"; print -rn -- "${line//\%/%%}"; }
setopt prompt_subst
[[ "$RPROMPT" == *subscope_prompt* ]] || RPROMPT='$(subscope_prompt)'"${RPROMPT:+ $RPROMPT}"
"#;

const FISH_PROMPT: &str = r"
# Shows agents at work at the right of the prompt.
function subscope_prompt
    PROGRAM status --live 2>/dev/null
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
    let completer =
        SHELLS.completer(shell).ok_or_else(|| CliError::failed(format!("unknown shell {shell}")))?;
    // By its path: the name may be that of a launcher, which a prompt would start each time.
    let program = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    let program = program.as_deref().unwrap_or(PROGRAM);
    output::to_stdout(|mut out| {
        completer.write_registration(COMPLETE, PROGRAM, PROGRAM, program, &mut out)?;
        if !args.no_prompt {
            out.write_all(prompt.replace("PROGRAM", &quoted(program)).as_bytes())?;
        }
        Ok(())
    })
}

/// Completion in bash, with candidates that the shell reads as words only.
#[derive(Debug)]
pub(crate) struct QuotingBash;

impl EnvCompleter for QuotingBash {
    fn name(&self) -> &'static str {
        env::Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        env::Bash.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let script = BASH_REGISTRATION
            .replace("NAME", name)
            .replace("BIN", program)
            .replace("COMPLETER", &quoted(completer))
            .replace("VAR", variable);
        writeln!(out, "{script}")
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        env::Bash.write_complete(command, words, folder, out)
    }
}
