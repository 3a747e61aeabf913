//! The licenses of everything inside the programs: crates by cargo-about, npm packages of the page from their own files,
//! and the libraries that the compiler links in.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::inventory::{Component, Inventory, Registry};
use super::{PROGRAMS, template, tools};
use crate::step::{cargo, output, program, root};
use crate::web;

/// Separates the licenses.
const RULE: &str = "\n────────────────────────────────────────────────────────────────────────────────\n";

/// What the compiler links in, each with the file of its license in `packaging/licenses`.
const LINKED: [(&str, &str); 2] = [
    ("The Rust standard library, MIT OR Apache-2.0", "rust.txt"),
    ("musl, the C library of the Linux binaries, MIT", "musl.txt"),
];

/// Returns the text.
pub(super) fn text(inventory: &Inventory) -> Result<String> {
    let about = tools::ABOUT.install()?;
    // Of every target; after that, a crate that ships no license gets the text of its SPDX name instead of a download.
    output(cargo().args(["fetch", "--locked"]))?;
    let mut text = "Licenses of what is inside subscope\n".to_owned();
    for (name, folder) in PROGRAMS.iter().zip(["cli", "team"]) {
        let manifest = format!("crates/{folder}/Cargo.toml");
        let mut generate = program(&about);
        generate.args(["generate", "--locked", "--offline", "--fail", "--config", "packaging/about.toml"]);
        generate.args(["--manifest-path", &manifest, "packaging/about.hbs"]);
        text += &format!("\nCrates of {name}:\n{}", output(&mut generate).context("cargo about")?);
    }
    for (name, file) in LINKED {
        text += &format!("{RULE}{name}\n\n{}", template(&format!("licenses/{file}"))?);
    }
    text += &of_page(inventory)?;
    Ok(text)
}

/// Returns the licenses of the npm packages that the page consists of.
pub(super) fn of_page(inventory: &Inventory) -> Result<String> {
    if !web::has_packages("licenses of the page")? {
        bail!("the licenses of the page's packages are in web/node_modules, which npm cannot install");
    }
    let modules = root().join("web/node_modules");
    let mut text = String::new();
    for package in inventory.components.iter().filter(|it| it.registry == Registry::Npm) {
        text += &format!("{RULE}{}", notice(&modules, package)?);
    }
    Ok(text)
}

/// Returns the license of an npm package: its own files. Without any it is named with its SPDX expression.
fn notice(modules: &Path, package: &Component) -> Result<String> {
    let Component { name, version, license, .. } = package;
    let folder = modules.join(name);
    let license = license.as_deref().with_context(|| format!("{name} {version} names no license"))?;
    let mut text = format!("{name} {version} (npm), {license}\n");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| is_license(&super::file_name(path)));
    files.sort();
    for file in files {
        let own = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        text += &format!("\n{}\n", own.trim_end());
    }
    Ok(text)
}

fn is_license(name: &str) -> bool {
    let name = name.to_lowercase();
    ["licen", "copying", "notice"].iter().any(|word| name.starts_with(word))
}
