//! Programs that `dist` needs, each of one version: from PyPI into a virtual environment, or built by cargo; both below
//! the target folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::pypi;
use crate::step::{cargo, run, target_folder};

/// Links for Linux and macOS: zig brings the C libraries of both.
const ZIGBUILD: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// Packs a folder as a wheel.
const WHEEL: [&str; 1] = ["wheel==0.48.0"];

/// A program from crates.io.
#[derive(Clone, Copy, Debug)]
pub(super) struct CargoTool {
    name: &'static str,
    version: &'static str,
    features: &'static str,
}

/// Collects the licenses of all crates.
pub(super) const ABOUT: CargoTool = CargoTool { name: "cargo-about", version: "0.9.3", features: "cli" };
/// Makes a .deb.
pub(super) const DEB: CargoTool = CargoTool { name: "cargo-deb", version: "3.8.0", features: "" };
/// Makes an .rpm.
pub(super) const RPM: CargoTool = CargoTool { name: "cargo-generate-rpm", version: "0.21.1", features: "" };

/// Returns the folder of `cargo-zigbuild`. The inner error is that PyPI is unavailable.
pub(super) fn zigbuild() -> Result<Result<PathBuf, String>> {
    python_commands("zigbuild", &ZIGBUILD)
}

/// Returns a Python that has the package `wheel`.
pub(super) fn wheel_python() -> Result<PathBuf> {
    let folder = python_commands("wheel", &WHEEL)?;
    let folder =
        folder.map_err(anyhow::Error::msg).context("the package wheel is not to be had from PyPI")?;
    Ok(folder.join("python"))
}

/// Installs packages in an environment whose name has their versions.
pub(super) fn python_commands(name: &str, requirements: &[&str]) -> Result<Result<PathBuf, String>> {
    let versions: Vec<&str> = requirements.iter().filter_map(|one| one.rsplit("==").next()).collect();
    let folder = target_folder()?.join("pypi").join(format!("{name}-{}", versions.join("-")));
    pypi::install(Path::new("python3"), &folder, requirements)
}

impl CargoTool {
    /// Returns the program, built below the target folder unless done before. Optimized a little: its own build takes longer
    /// than its run, but without any optimization cargo-about compares licenses for many minutes.
    pub(super) fn install(self) -> Result<PathBuf> {
        let Self { name, version, features } = self;
        let folder = target_folder()?.join("tools").join(format!("{name}-{version}"));
        let program = folder.join("bin").join(name);
        if !program.is_file() {
            let mut install = cargo();
            install.args(["install", "--locked", "--debug", "--quiet", "--root"]).arg(&folder);
            install
                .args(["--features", features])
                .arg(format!("{name}@{version}"))
                .env("CARGO_PROFILE_DEV_DEBUG", "0");
            install.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
            run(&format!("install {name} {version}"), &mut install)?;
        }
        Ok(program)
    }
}
