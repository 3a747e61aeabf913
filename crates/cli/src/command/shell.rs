//! `subscope completions` and `subscope man`: generate shell completions and manual pages from the command line
//! definition.

use std::fs;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::prelude::*;

/// Prints the completions for a shell.
pub(crate) fn print_completions(args: CompletionsArgs) -> Result<(), CliError> {
    let all = Cli::command();
    // The generator of some shells offers hidden commands, too.
    let ours = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown = clap::Command::new("subscope").disable_help_subcommand(true);
    shown = shown.args(all.get_arguments().cloned()).subcommands(ours);
    // Buffered: the generator panics if its writer fails, for example on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown, "subscope", &mut script);
    output::to_stdout(|out| out.write_all(&script))
}

/// Prints the main manual page, or writes all pages into a directory.
pub(crate) fn print_man(args: &ManArgs) -> Result<(), CliError> {
    let Some(folder) = &args.dir else {
        let page = Man::new(Cli::command());
        return output::to_stdout(|mut out| page.render(&mut out));
    };
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| CliError::write(folder.display(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_gets_a_page() {
        let folder = tempfile::tempdir().unwrap();
        print_man(&ManArgs { dir: Some(folder.path().join("man1")) }).unwrap();
        let all = Cli::command();
        for command in all.get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = folder.path().join(format!("man1/subscope-{}.1", command.get_name()));
            assert!(fs::read_to_string(&page).unwrap().starts_with(".ie"), "{}", page.display());
        }
    }
}
