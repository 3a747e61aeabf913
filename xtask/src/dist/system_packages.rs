//! The .deb and the .rpm of each Linux target, made by cargo-deb and cargo-generate-rpm from the unpacked archive.
//!
//! Both read a manifest. It is written next to the files, so that a package holds the archive's bytes and neither tool
//! builds.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::archive::{Archive, TIME, below};
use super::targets::LinuxNames;
use super::{Release, empty_folder, template, tools, write};
use crate::step::{announce, output};

/// Writes the packages.
pub(super) fn write_all(release: &Release, archives: &[Archive]) -> Result<()> {
    let linux: Vec<_> = archives.iter().filter_map(|it| Some((it, it.target.linux?))).collect();
    if linux.is_empty() {
        return Ok(());
    }
    announce("dist: .deb and .rpm");
    let (deb, rpm) = (tools::DEB.install()?, tools::RPM.install()?);
    for (archive, names) in linux {
        let folder = manifest(release, archive)?;
        let file = deb_file(release, names);
        let target = ["--target", archive.target.triple];
        let mut make = tool(&deb, &folder);
        make.args(["--no-build", "--no-strip", "--deb-revision=1", "--quiet", "--output"])
            .arg(&file)
            .args(target);
        output(&mut make).context("cargo-deb")?;
        let file = rpm_file(release, names);
        let mut make = tool(&rpm, &folder);
        make.args(["--auto-req", "disabled", "--arch", names.rpm, "--output"]).arg(&file).args(target);
        make.arg("--source-date").arg(TIME.to_string());
        output(&mut make).context("cargo-generate-rpm")?;
    }
    Ok(())
}

/// Returns the path of a .deb.
pub(super) fn deb_file(release: &Release, names: LinuxNames) -> PathBuf {
    release.folder.join(format!("subscope_{}-1_{}.deb", release.version, names.deb))
}

/// Returns the path of an .rpm.
pub(super) fn rpm_file(release: &Release, names: LinuxNames) -> PathBuf {
    release.folder.join(format!("subscope-{}-1.{}.rpm", release.version, names.rpm))
}

/// Writes a package with the files of an archive, and returns its folder.
fn manifest(release: &Release, archive: &Archive) -> Result<PathBuf> {
    let folder = release.scratch.join("system").join(archive.target.triple);
    empty_folder(&folder)?;
    for (name, path) in below(&archive.contents)? {
        let copy = folder.join("files").join(name);
        fs::create_dir_all(copy.parent().unwrap_or(&folder))?;
        fs::copy(&path, &copy).with_context(|| format!("cannot copy {}", path.display()))?;
    }
    write(&folder.join("Cargo.toml"), template("linux/Cargo.toml")?.replace("@VERSION@", &release.version))?;
    write(&folder.join("src/main.rs"), "fn main() {}\n")?;
    Ok(folder)
}

/// Returns a tool in a folder, with reproducible times and without this build's settings.
fn tool(path: &Path, folder: &Path) -> std::process::Command {
    let mut tool = std::process::Command::new(path);
    // Installed outside of PATH, each is called as cargo calls it.
    tool.arg(path.file_name().unwrap_or_default().to_string_lossy().trim_start_matches("cargo-"));
    tool.current_dir(folder).env("SOURCE_DATE_EPOCH", TIME.to_string());
    tool.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_MANIFEST_DIR");
    tool
}
