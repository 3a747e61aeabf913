//! `cargo xtask dist [--package] [--try] [TARGET…]`: archives of each target, and the packages made from them.
//!
//! An archive is built where the standard library of its target is installed, or its source; what cannot be built is
//! skipped by name. `--package` builds nothing: it takes the archives that `target/publish` holds, which other machines
//! may have built. `--try` installs each package from its file into an empty folder and runs it.

mod archive;
mod clients;
mod inventory;
mod notices;
mod npm_package;
#[cfg(test)]
mod publishing;
mod readme;
mod recipes;
mod system_packages;
mod targets;
mod tools;
mod trial;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::step::{announce, root, skipped, target_folder};
use archive::Archive;
use targets::{Target, Toolchain};

/// What every archive and package installs: the tool, and the server of a team. Each is also the name of its package.
const PROGRAMS: [&str; 2] = ["subscope", "subscope-team"];

/// A `dist` run: what it makes, and where.
#[derive(Debug)]
struct Release {
    /// Version of the programs.
    version: String,
    /// Holds the archives and packages, which are published.
    folder: PathBuf,
    /// Holds unpacked archives and other intermediate files.
    scratch: PathBuf,
}

/// Runs with the arguments after `dist`.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (flags, names): (Vec<&str>, Vec<&str>) = arguments.iter().partition(|word| word.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| !["--package", "--try"].contains(flag)) {
        bail!("dist has no option {unknown}: --package, --try");
    }
    let release = Release::open()?;
    if !flags.contains(&"--package") {
        release.build(&targets::named(&names)?)?;
    }
    let archives = release.archives()?;
    if archives.is_empty() {
        bail!("{} holds no archive of version {}", release.folder.display(), release.version);
    }
    release.package(&archives)?;
    if flags.contains(&"--try") {
        trial::all(&release, &archives)?;
    }
    release.report()
}

impl Release {
    fn open() -> Result<Self> {
        // Not `dist`, where cargo has files of the profile of that name.
        let folder = target_folder()?.join("publish");
        let scratch = folder.join("scratch");
        fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
        Ok(Self { version: inventory::version()?, folder, scratch })
    }

    /// Builds the archives of these targets, except those for which this machine lacks a standard library.
    fn build(&self, targets: &[&'static Target]) -> Result<()> {
        let toolchain = Toolchain::find()?;
        let mut built = Vec::new();
        for target in targets {
            if let Some(folder) = toolchain.build(target)? {
                built.push((*target, folder));
            }
        }
        if built.is_empty() {
            bail!("no target can be built on this machine");
        }
        let documents = archive::documents(self, &built)?;
        for (target, folder) in &built {
            Archive::write(self, target, folder, &documents)?;
        }
        Ok(())
    }

    /// Returns the archives of this version, unpacked.
    fn archives(&self) -> Result<Vec<Archive>> {
        let found = targets::TARGETS.iter().map(|target| Archive::open(self, target));
        Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Makes every package of these archives, and the sums of all files.
    fn package(&self, archives: &[Archive]) -> Result<()> {
        npm_package::write_all(self, archives)?;
        wheel::write_all(self, archives)?;
        clients::write_all(self)?;
        system_packages::write_all(self, archives)?;
        recipes::write_all(self, archives)?;
        archive::write_sums(self)
    }

    /// Prints the published files with their sizes, and what was skipped.
    fn report(&self) -> Result<()> {
        announce(&format!("dist: {}", self.folder.display()));
        for path in archive::files(&self.folder)? {
            let bytes = fs::metadata(&path)?.len();
            println!("{bytes:>12}  {}", file_name(&path));
        }
        for line in skipped() {
            println!("{line}");
        }
        Ok(())
    }
}

/// Returns the last part of a path as text.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns a file of the folder `packaging`, which holds the templates.
fn template(name: &str) -> Result<String> {
    let path = root().join("packaging").join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file, and the folders above it.
fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Empties a folder, or makes it.
fn empty_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}
