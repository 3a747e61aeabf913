//! The client libraries as packages: a wheel for PyPI, an npm package.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Release, empty_folder, file_name, tools};
use crate::step::{announce, output, program, root, target_folder};
use crate::{clients, npm};

/// Writes both packages.
pub(super) fn write_all(release: &Release) -> Result<()> {
    announce("dist: client libraries");
    wheel(release)?;
    npm_package(release)
}

/// Builds the wheel as `pip` does, without its dependencies, of which it has none.
fn wheel(release: &Release) -> Result<()> {
    let python = tools::wheel_python()?;
    let scratch = copied(release, "python", &["README.md", "pyproject.toml"], &["src/subscope_client"])?;
    let mut pip = program(&python);
    pip.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"]);
    // Times in the file, which is a zip.
    pip.arg(&release.folder).arg(&scratch).env("SOURCE_DATE_EPOCH", super::archive::TIME.to_string());
    output(&mut pip).context("the Python library cannot be built")?;
    Ok(())
}

/// Compiles the TypeScript, and packs it.
fn npm_package(release: &Release) -> Result<()> {
    let scratch = copied(release, "typescript", &["README.md", "package.json", "tsconfig.json"], &["src"])?;
    let (name, version) = clients::TSC;
    let folder = target_folder()?.join("npm").join(format!("{name}-{version}"));
    let modules = npm::install(&folder, name, version)?
        .map_err(anyhow::Error::msg)
        .context("npm gives no TypeScript compiler")?;
    let mut tsc = program("node");
    output(tsc.arg(modules.join("typescript/bin/tsc")).arg("--project").arg(&scratch))?;
    let mut npm = program("npm");
    // It is compiled already, by the version of the compiler that is tested.
    npm.args(["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination"]);
    let packed = output(npm.arg(&release.folder).arg(&scratch))
        .with_context(|| format!("npm pack {}", file_name(&scratch)))?;
    println!("{}", packed.trim());
    Ok(())
}

/// Copies a library without what its tests and builds leave beside it; licenses are added.
fn copied(release: &Release, library: &str, files: &[&str], folders: &[&str]) -> Result<PathBuf> {
    let from = root().join("clients").join(library);
    let scratch = release.scratch.join("clients").join(library);
    empty_folder(&scratch)?;
    let licenses = ["LICENSE-APACHE", "LICENSE-MIT"].map(|name| (name, root().join(name)));
    for (name, path) in files.iter().map(|name| (*name, from.join(name))).chain(licenses) {
        fs::copy(&path, scratch.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
    }
    for folder in folders {
        for (name, path) in super::archive::below(&from.join(folder))? {
            if !name.contains("__pycache__") {
                super::write(&scratch.join(folder).join(name), fs::read(path)?)?;
            }
        }
    }
    Ok(scratch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::inventory;

    #[test]
    fn libraries_have_the_version_of_the_programs() {
        let version = inventory::version().unwrap();
        let manifest = |path: &str| fs::read_to_string(root().join("clients").join(path)).unwrap();
        let python = format!("\nversion = \"{version}\"\n");
        assert!(manifest("python/pyproject.toml").contains(&python), "clients/python/pyproject.toml");
        let typescript = format!("\"version\": \"{version}\"");
        assert!(manifest("typescript/package.json").contains(&typescript), "clients/typescript/package.json");
    }

    #[test]
    fn compiler_is_the_one_that_the_library_names() {
        let manifest = fs::read_to_string(root().join("clients/typescript/package.json")).unwrap();
        let (name, version) = clients::TSC;
        assert!(manifest.contains(&format!("\"{name}\": \"{version}\"")));
    }
}
