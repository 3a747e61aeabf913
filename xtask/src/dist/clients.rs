//! The client libraries as packages: a wheel for PyPI, an npm package; and the extension for VS Code.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Release, empty_folder, file_name, inventory, notices, tools};
use crate::step::{announce, output, program, root, target_folder};
use crate::{clients, npm, vscode};

/// Writes all three packages.
pub(super) fn write_all(release: &Release) -> Result<()> {
    announce("dist: client libraries");
    wheel(release)?;
    npm_package(release)?;
    let vsix = release.folder.join(format!("subscope-{}.vsix", release.version));
    vscode::package(&vsix, &notices::of_page(&inventory::read()?)?, super::archive::TIME)
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

    #[test]
    fn libraries_have_the_version_of_the_programs() {
        let version = inventory::version().unwrap();
        let manifest = |path: &str| fs::read_to_string(root().join("clients").join(path)).unwrap();
        let python = format!("\nversion = \"{version}\"\n");
        assert!(manifest("python/pyproject.toml").contains(&python), "clients/python/pyproject.toml");
        let typescript = format!("\"version\": \"{version}\"");
        for path in ["typescript/package.json", "vscode/package.json"] {
            assert!(manifest(path).contains(&typescript), "clients/{path}");
        }
    }

    #[test]
    fn extension_is_one_small_file_with_the_licenses_of_its_page() {
        if !vscode::is_installed() || !crate::web::is_installed() {
            return crate::step::skip(
                "packing the extension",
                "npm has not installed the packages of clients/vscode and web",
            );
        }
        let file = std::env::temp_dir().join(format!("subscope-{}.vsix", std::process::id()));
        let notices = notices::of_page(&inventory::read().unwrap()).unwrap();
        vscode::package(&file, &notices, crate::dist::archive::TIME).unwrap();
        let first = fs::read(&file).unwrap();
        vscode::package(&file, &notices, crate::dist::archive::TIME).unwrap();
        assert!(first == fs::read(&file).unwrap(), "the same files give the same bytes");
        // The directory of a zip file has the names as they are.
        let names = String::from_utf8_lossy(&first);
        for name in ["dist/extension.js", "page/index.html", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"] {
            assert!(names.contains(&format!("extension/{name}")), "{name}");
        }
        for name in ["node_modules", "src/", "test/", "e2e/"] {
            assert!(!names.contains(&format!("extension/{name}")), "{name}");
        }
        assert!(first.len() < 300_000, "{} bytes", first.len());
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn compiler_is_the_one_that_the_library_names() {
        let manifest = fs::read_to_string(root().join("clients/typescript/package.json")).unwrap();
        let (name, version) = clients::TSC;
        assert!(manifest.contains(&format!("\"{name}\": \"{version}\"")));
    }
}
