//! The targets of a release, and how this machine builds each.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{PROGRAMS, tools};
use crate::step::{cargo, output, program, root, run, skip, target_folder};

/// A target of a release, with its names on each channel.
#[derive(Debug)]
pub(super) struct Target {
    /// Rust's name.
    pub(super) triple: &'static str,
    /// Name of Node's `process.platform` and `process.arch`.
    pub(super) node: (&'static str, &'static str),
    /// Platform tags of a wheel, sorted as in its file name. The Linux binaries are static: they need no C library, so both kinds are true.
    pub(super) wheel: &'static str,
    /// Architecture of a .deb and an .rpm; `None` except for Linux.
    pub(super) linux: Option<LinuxNames>,
    /// Oldest macOS on which the binary runs, as in the tag of the wheel; `None` for Linux.
    oldest_macos: Option<&'static str>,
}

/// Architecture names of Linux packages.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinuxNames {
    pub(super) deb: &'static str,
    pub(super) rpm: &'static str,
}

/// Every target. The channels' recipes name them all.
pub(super) const TARGETS: [Target; 4] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        node: ("linux", "x64"),
        wheel: "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64",
        linux: Some(LinuxNames { deb: "amd64", rpm: "x86_64" }),
        oldest_macos: None,
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        node: ("linux", "arm64"),
        wheel: "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64",
        linux: Some(LinuxNames { deb: "arm64", rpm: "aarch64" }),
        oldest_macos: None,
    },
    Target {
        triple: "aarch64-apple-darwin",
        node: ("darwin", "arm64"),
        wheel: "macosx_11_0_arm64",
        linux: None,
        oldest_macos: Some("11.0"),
    },
    Target {
        triple: "x86_64-apple-darwin",
        node: ("darwin", "x64"),
        wheel: "macosx_10_12_x86_64",
        linux: None,
        oldest_macos: Some("10.12"),
    },
];

/// Returns the targets with these names; all if there are none.
pub(super) fn named(names: &[&str]) -> Result<Vec<&'static Target>> {
    if let Some(unknown) = names.iter().find(|name| TARGETS.iter().all(|target| target.triple != **name)) {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
        bail!("{unknown} is no target of a release: {}", known.join(", "));
    }
    let is_named = |target: &&Target| names.is_empty() || names.contains(&target.triple);
    Ok(TARGETS.iter().filter(is_named).collect())
}

impl Target {
    fn is_apple(&self) -> bool {
        self.oldest_macos.is_some()
    }
}

/// The Rust toolchain that runs this task, and the linker for other systems.
pub(super) struct Toolchain {
    host: String,
    sysroot: PathBuf,
    /// Whether cargo accepts `-Z build-std`.
    is_unstable: bool,
    /// Folder of `cargo-zigbuild` and of the zig that it runs; the error says why there is none.
    zig: Result<PathBuf, String>,
}

/// Where the standard library of a target comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandardLibrary {
    Installed,
    /// Built from the source in the sysroot.
    Source,
}

impl Toolchain {
    /// Looks at the toolchain, and installs cargo-zigbuild from PyPI unless done before.
    pub(super) fn find() -> Result<Self> {
        let verbose = output(rustc().arg("-vV"))?;
        let field = |name: &str| verbose.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let host = field("host:").context("rustc -vV names no host")?.to_owned();
        let release = field("release:").context("rustc -vV names no release")?;
        let is_unstable = release.contains("nightly") || std::env::var_os("RUSTC_BOOTSTRAP").is_some();
        let sysroot = PathBuf::from(output(rustc().args(["--print", "sysroot"]))?.trim());
        Ok(Self { host, sysroot, is_unstable, zig: tools::zigbuild()? })
    }

    /// Builds the programs of a target with the profile `dist`, and returns their folder. `None`, after it said why, if this
    /// machine cannot.
    pub(super) fn build(&self, target: &Target) -> Result<Option<PathBuf>> {
        let name = format!("dist {}", target.triple);
        let library = match self.standard_library(target) {
            Ok(library) => library,
            Err(reason) => {
                skip(&name, &reason);
                return Ok(None);
            }
        };
        let is_native = target.is_apple() && self.host.contains("apple");
        let mut build = cargo();
        match &self.zig {
            _ if is_native => {
                build.arg("build");
            }
            Ok(folder) => {
                build.arg("zigbuild").env("PATH", before_path(folder)?);
            }
            Err(reason) => {
                skip(&name, &format!("its linker is cargo-zigbuild from PyPI: {reason}"));
                return Ok(None);
            }
        }
        let folder = target_folder()?;
        build.args(["--locked", "--profile", "dist", "--target", target.triple]);
        build.args(PROGRAMS.iter().flat_map(|name| ["--package", name]));
        build.env("CARGO_TARGET_DIR", &folder);
        if library == StandardLibrary::Source {
            build.args(["-Z", "build-std"]);
        }
        let flags = if !target.is_apple() {
            // The objects that start a program, and the C library, come from zig in either case.
            Some("-C link-self-contained=no".to_owned())
        } else if !is_native && std::env::var_os("SDKROOT").is_none() {
            // zig brings the C library, but none of Apple's frameworks: their names are enough for a linker.
            Some(format!("-L framework={}", root().join("packaging/macos/frameworks").display()))
        } else {
            None
        };
        if let Some(flags) = flags {
            let target = target.triple.to_uppercase().replace('-', "_");
            build.env(format!("CARGO_TARGET_{target}_RUSTFLAGS"), flags);
        }
        build.envs(target.oldest_macos.map(|version| ("MACOSX_DEPLOYMENT_TARGET", version)));
        if target.is_apple() && !is_native {
            // The linker signs the binary, as an arm64 Mac demands; stripping it afterwards would void that.
            build.env("CARGO_PROFILE_DIST_STRIP", "none");
        }
        run(&name, &mut build)?;
        Ok(Some(folder.join(target.triple).join("dist")))
    }

    /// The error says what is missing.
    fn standard_library(&self, target: &Target) -> Result<StandardLibrary, String> {
        let rustlib = self.sysroot.join("lib/rustlib");
        if holds_std(&rustlib.join(target.triple).join("lib")) {
            return Ok(StandardLibrary::Installed);
        }
        let has_source = rustlib.join("src/rust/library/Cargo.lock").is_file();
        match (has_source, self.is_unstable) {
            (true, true) => Ok(StandardLibrary::Source),
            (true, false) => Err(format!(
                "its standard library is not installed (`rustup target add {}`), and only a nightly cargo builds it from \
                 source",
                target.triple
            )),
            (false, _) => Err(format!(
                "neither its standard library is installed (`rustup target add {}`) nor the source (`rustup component add \
                 rust-src`)",
                target.triple
            )),
        }
    }
}

fn rustc() -> Command {
    program(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Whether a folder holds a compiled standard library.
fn holds_std(folder: &Path) -> bool {
    let Ok(entries) = folder.read_dir() else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}

/// Returns `PATH` with a folder before all others.
fn before_path(folder: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).context("PATH holds a folder that cannot be in it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_says_the_oldest_macos() {
        for target in &TARGETS {
            let tag = target.oldest_macos.map(|version| format!("macosx_{}_", version.replace('.', "_")));
            assert!(tag.is_none_or(|tag| target.wheel.starts_with(&tag)), "{target:?}");
        }
    }

    #[test]
    fn named_takes_all_or_the_named_ones_and_refuses_others() {
        assert_eq!(named(&[]).unwrap().len(), TARGETS.len());
        let one = named(&["aarch64-apple-darwin"]).unwrap();
        assert_eq!(one.iter().map(|target| target.triple).collect::<Vec<_>>(), ["aarch64-apple-darwin"]);
        let error = named(&["sparc"]).unwrap_err().to_string();
        assert!(error.contains("sparc") && error.contains("x86_64-unknown-linux-musl"), "{error}");
    }

    #[test]
    fn a_missing_standard_library_is_named_with_what_brings_it() {
        let sysroot = std::env::temp_dir().join(format!("subscope-sysroot-{}", std::process::id()));
        let library = |is_unstable| {
            let toolchain = Toolchain {
                host: String::new(),
                sysroot: sysroot.clone(),
                is_unstable,
                zig: Err(String::new()),
            };
            toolchain.standard_library(&TARGETS[1])
        };
        let install = "rustup target add aarch64-unknown-linux-musl";
        let missing = library(true).unwrap_err();
        assert!(missing.contains(install) && missing.contains("rust-src"), "{missing}");
        super::super::write(&sysroot.join("lib/rustlib/src/rust/library/Cargo.lock"), "").unwrap();
        assert_eq!(library(true), Ok(StandardLibrary::Source));
        assert!(library(false).unwrap_err().contains("nightly"));
        let std = "lib/rustlib/aarch64-unknown-linux-musl/lib/libstd-0.rlib";
        super::super::write(&sysroot.join(std), "").unwrap();
        assert_eq!(library(false), Ok(StandardLibrary::Installed));
        std::fs::remove_dir_all(&sysroot).unwrap();
    }
}
