//! The wheels for PyPI, one per target: the programs as scripts, and a module that starts the tool under the package's name.

use std::fs;

use anyhow::Result;

use super::archive::Archive;
use super::readme::with_complete_links;
use super::{Release, empty_folder, template, tools, write};
use crate::step::{announce, output, program};

/// Name on PyPI, where `subscope` is another project.
pub(super) const NAME: &str = "subscope-cli";

/// The same in names of files and modules.
const MODULE: &str = "subscope_cli";

/// Writes the wheels.
pub(super) fn write_all(release: &Release, archives: &[Archive]) -> Result<()> {
    announce("dist: wheels");
    let python = tools::wheel_python()?;
    let version = &release.version;
    for archive in archives {
        let folder = release.scratch.join("wheel");
        empty_folder(&folder)?;
        let info = folder.join(format!("{MODULE}-{version}.dist-info"));
        let scripts = folder.join(format!("{MODULE}-{version}.data/scripts"));
        // The packer keeps permissions, so the scripts stay executable.
        archive.copy_programs(&scripts)?;
        write(&folder.join(MODULE).join("__init__.py"), template("pypi/launcher.py")?)?;
        write(&info.join("entry_points.txt"), format!("[console_scripts]\n{NAME} = {MODULE}:main\n"))?;
        let tags: String =
            archive.target.wheel.split('.').map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
        let wheel = format!("Wheel-Version: 1.0\nGenerator: subscope\nRoot-Is-Purelib: false\n{tags}");
        write(&info.join("WHEEL"), wheel)?;
        let readme = fs::read_to_string(archive.contents.join("README.md"))?;
        write(&info.join("METADATA"), metadata(version, &with_complete_links(&readme, version))?)?;
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"] {
            write(&info.join("licenses").join(name), fs::read(archive.contents.join(name))?)?;
        }
        let mut pack = program(&python);
        pack.args(["-m", "wheel", "pack", "--dest-dir"]).arg(&release.folder).arg(&folder);
        // Times in the file, which is a zip.
        pack.env("SOURCE_DATE_EPOCH", super::archive::TIME.to_string());
        println!("{}", output(&mut pack)?.trim());
    }
    Ok(())
}

/// Fills the template's version and description.
fn metadata(version: &str, readme: &str) -> Result<String> {
    Ok(template("pypi/METADATA")?.replace("@NAME@", NAME).replace("@VERSION@", version) + "\n" + readme)
}
