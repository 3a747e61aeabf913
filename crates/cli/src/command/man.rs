//! `subscope man`: generates manual pages from the command line definition.

use std::{fs, path::Path};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::{
    args::{Cli, ManArgs},
    error::CliError,
    output,
};

/// Runs the command: prints the main page, or writes all pages into a directory.
pub(crate) fn run(args: &ManArgs) -> Result<(), CliError> {
    let Some(folder) = &args.dir else {
        let page = Man::new(Cli::command());
        return output::to_stdout(|mut out| page.render(&mut out));
    };
    write_pages(folder).map_err(|error| CliError::write(&folder.display().to_string(), error))
}

fn write_pages(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_gets_a_page() {
        let folder = tempfile::tempdir().unwrap();
        run(&ManArgs { dir: Some(folder.path().join("man1")) }).unwrap();
        for command in Cli::command().get_subcommands() {
            let page = folder.path().join(format!("man1/subscope-{}.1", command.get_name()));
            assert!(fs::read_to_string(&page).unwrap().starts_with(".ie"), "{}", page.display());
        }
    }
}
