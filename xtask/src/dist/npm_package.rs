//! The npm package: launchers, and one optional package per target with the programs, of which npm installs the one of
//! the machine.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::archive::Archive;
use super::readme::with_complete_links;
use super::targets::TARGETS;
use super::{PROGRAMS, Release, empty_folder, file_name, template, write};
use crate::step::{announce, output, program};

/// Publisher's scope of the packages with binaries.
const SCOPE: &str = "@subscope";

/// Writes the packages, if there is npm.
pub(super) fn write_all(release: &Release, archives: &[Archive]) -> Result<()> {
    announce("dist: npm packages");
    let folder = release.scratch.join("npm");
    empty_folder(&folder)?;
    for archive in archives {
        let package = folder.join(archive.target.triple);
        let (system, processor) = archive.target.node;
        let mut manifest = manifest(&native_name(archive.target.node), &release.version);
        manifest["description"] = json!(format!("The programs of subscope for {system} on {processor}"));
        manifest["os"] = json!([system]);
        manifest["cpu"] = json!([processor]);
        manifest["files"] = json!(["bin", "LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"]);
        write(&package.join("package.json"), serde_json::to_string_pretty(&manifest)?)?;
        archive.copy_programs(&package.join("bin"))?;
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"] {
            fs::copy(archive.contents.join(name), package.join(name))
                .with_context(|| format!("no {name}"))?;
        }
        pack(release, &package)?;
    }
    let launcher = folder.join("subscope");
    let natives: serde_json::Map<String, Value> =
        TARGETS.iter().map(|target| (native_name(target.node), json!(release.version))).collect();
    let mut manifest = manifest("subscope", &release.version);
    manifest["description"] =
        json!("Shows what every subagent of a coding agent is doing: live, and afterwards");
    manifest["keywords"] = json!(["agents", "observability", "tracing", "tui", "mcp"]);
    for name in PROGRAMS {
        let file = format!("bin/{name}.js");
        write(&launcher.join(&file), template("npm/launcher.js")?.replace("@PROGRAM@", name))?;
        manifest["bin"][name] = json!(file);
    }
    manifest["files"] = json!(["bin"]);
    manifest["optionalDependencies"] = Value::Object(natives);
    write(&launcher.join("package.json"), serde_json::to_string_pretty(&manifest)?)?;
    let any = archives.first().context("there is no archive")?;
    let readme = fs::read_to_string(any.contents.join("README.md")).context("no README.md")?;
    write(&launcher.join("README.md"), with_complete_links(&readme, &release.version))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(any.contents.join(name), launcher.join(name)).with_context(|| format!("no {name}"))?;
    }
    pack(release, &launcher)
}

/// Name of the package with the binary of a platform and processor, as the launcher computes it.
fn native_name((system, processor): (&str, &str)) -> String {
    format!("{SCOPE}/{system}-{processor}")
}

fn manifest(name: &str, version: &str) -> Value {
    json!({
        "name": name,
        "version": version,
        "license": "MIT OR Apache-2.0",
        "repository": { "type": "git", "url": "git+https://github.com/subscope/subscope.git" },
        "engines": { "node": ">=18" },
        "publishConfig": { "access": "public" },
    })
}

fn pack(release: &Release, package: &std::path::Path) -> Result<()> {
    let mut npm = program("npm");
    npm.args(["pack", "--loglevel=error", "--pack-destination"]).arg(&release.folder).arg(package);
    let packed = output(&mut npm).with_context(|| format!("npm pack {}", file_name(package)))?;
    println!("{}", packed.trim());
    Ok(())
}
