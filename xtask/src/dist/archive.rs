//! Archives: one .tar.gz per target with the programs, completions, manual pages, licenses and the bill of materials. The
//! same files give the same bytes.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use sha2::{Digest, Sha256};

use super::targets::Target;
use super::{PROGRAMS, Release, empty_folder, file_name, inventory, notices, write};
use crate::step::{announce, output, program, root, succeeds};

/// File of the sums.
pub(super) const SUMS: &str = "SHA256SUMS";

/// Shells, each with the file name under which it finds completions.
const SHELLS: [(&str, &str); 3] =
    [("bash", "subscope.bash"), ("zsh", "_subscope"), ("fish", "subscope.fish")];

/// Files of the repository that every archive has.
const COPIED: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"];

/// Licenses of everything inside.
const NOTICES: &str = "THIRD-PARTY-LICENSES.txt";

/// Bill of materials, in CycloneDX.
const SBOM: &str = "subscope.cdx.json";

/// Modification time of every file, in seconds since 1970: 1980-01-01, the first that zip files know.
pub(super) const TIME: u64 = 315_532_800;

/// The archive of one target.
#[derive(Debug)]
pub(super) struct Archive {
    pub(super) target: &'static Target,
    pub(super) file: PathBuf,
    /// Hexadecimal.
    pub(super) sha256: String,
    /// Where its files are unpacked.
    pub(super) contents: PathBuf,
}

/// Makes the content of every archive except the programs: completions, manual pages, licenses, bill of materials. The
/// tool of one of the targets, each with the folder of its programs, must run on this machine.
pub(super) fn documents(release: &Release, built: &[(&'static Target, PathBuf)]) -> Result<PathBuf> {
    announce("dist: completions, manual pages, licenses, bill of materials");
    let folder = release.scratch.join("documents");
    empty_folder(&folder)?;
    let mut tools = built.iter().map(|(_, folder)| folder.join(PROGRAMS[0]));
    let binary = &tools
        .find(|binary| succeeds(program(binary).arg("--version")))
        .context("none of the built binaries runs on this machine, so nothing prints the manual")?;
    let version = output(program(binary).arg("--version"))?;
    if !version.contains(&release.version) {
        bail!("the binary is {}, the manifest {}", version.trim(), release.version);
    }
    for (shell, name) in SHELLS {
        let script = output(program(binary).args(["completions", shell]))?;
        write(&folder.join("completions").join(name), script)?;
    }
    output(program(binary).args(["man", "--dir"]).arg(folder.join("man")))?;
    for name in COPIED {
        write(
            &folder.join(name),
            fs::read(root().join(name)).with_context(|| format!("cannot read {name}"))?,
        )?;
    }
    let inventory = inventory::read()?;
    write(&folder.join(NOTICES), notices::text(&inventory)?)?;
    write(&folder.join(SBOM), inventory.cyclone_dx(&release.version)?)?;
    Ok(folder)
}

impl Archive {
    /// Writes the archive of a target, with the programs in `built`, and its bill of materials, which is published next to
    /// it as well.
    pub(super) fn write(release: &Release, target: &Target, built: &Path, documents: &Path) -> Result<()> {
        let file = Self::path(release, target);
        announce(&format!("dist: {}", file_name(&file)));
        let folder = format!("subscope-{}-{}", release.version, target.triple);
        let mut files: Vec<(String, PathBuf)> =
            below(documents)?.into_iter().map(|(name, path)| (format!("{folder}/{name}"), path)).collect();
        files.extend(PROGRAMS.map(|name| (format!("{folder}/{name}"), built.join(name))));
        files.sort();
        let writer = File::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
        let mut tar = tar::Builder::new(GzEncoder::new(writer, Compression::best()));
        for (name, path) in files {
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(if path.parent() == Some(built) { 0o755 } else { 0o644 });
            header.set_mtime(TIME);
            tar.append_data(&mut header, name, bytes.as_slice())?;
        }
        tar.into_inner()?.finish()?;
        fs::copy(
            documents.join(SBOM),
            release.folder.join(format!("subscope-{}.cdx.json", release.version)),
        )?;
        Ok(())
    }

    /// Unpacks the archive of a target; `None` if the release has none.
    pub(super) fn open(release: &Release, target: &'static Target) -> Result<Option<Self>> {
        let file = Self::path(release, target);
        if !file.is_file() {
            return Ok(None);
        }
        let folder = release.scratch.join("unpacked");
        let contents = folder.join(format!("subscope-{}-{}", release.version, target.triple));
        empty_folder(&contents)?;
        let reader = File::open(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut tar = tar::Archive::new(GzDecoder::new(reader));
        tar.unpack(&folder).with_context(|| format!("cannot unpack {}", file.display()))?;
        Ok(Some(Self { target, sha256: sha256(&file)?, file, contents }))
    }

    fn path(release: &Release, target: &Target) -> PathBuf {
        release.folder.join(format!("subscope-{}-{}.tar.gz", release.version, target.triple))
    }

    /// Returns the unpacked tool.
    pub(super) fn tool(&self) -> PathBuf {
        self.contents.join(PROGRAMS[0])
    }

    /// Copies the programs into a folder.
    pub(super) fn copy_programs(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for name in PROGRAMS {
            fs::copy(self.contents.join(name), folder.join(name))
                .with_context(|| format!("cannot copy {name}"))?;
        }
        Ok(())
    }

    /// Whether this machine runs its programs.
    pub(super) fn runs_here(&self) -> bool {
        succeeds(program(self.tool()).arg("--version"))
    }
}

/// Writes the sums of all files of the release, in the form that `sha256sum --check` reads.
pub(super) fn write_sums(release: &Release) -> Result<()> {
    let mut sums = String::new();
    for path in files(&release.folder)? {
        if file_name(&path) != SUMS {
            sums += &format!("{}  {}\n", sha256(&path)?, file_name(&path));
        }
    }
    write(&release.folder.join(SUMS), sums)
}

/// Returns the files in a folder, without those in folders below it, sorted.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

/// Returns all files below a folder, each with its path from there.
pub(super) fn below(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), folder.to_path_buf())];
    while let Some((prefix, folder)) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            let name = format!("{prefix}{}", file_name(&path));
            if path.is_dir() {
                folders.push((format!("{name}/"), path));
            } else {
                found.push((name, path));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the SHA-256 of a file in hexadecimal digits.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::super::targets::TARGETS;
    use super::*;

    #[test]
    fn archive_gives_the_same_bytes_again_and_its_files_back() {
        let folder = std::env::temp_dir().join(format!("subscope-archive-{}", std::process::id()));
        let release =
            Release { version: "1.2.3".to_owned(), folder: folder.clone(), scratch: folder.join("scratch") };
        let documents = folder.join("documents");
        write(&documents.join("man/subscope.1"), "manual").unwrap();
        write(&documents.join(SBOM), "{}").unwrap();
        let built = folder.join("built");
        for name in PROGRAMS {
            write(&built.join(name), name).unwrap();
        }
        let target = &TARGETS[0];
        assert!(Archive::open(&release, target).unwrap().is_none());
        let made = |()| {
            Archive::write(&release, target, &built, &documents).unwrap();
            Archive::open(&release, target).unwrap().unwrap()
        };
        let archive = made(());
        assert_eq!(made(()).sha256, archive.sha256);
        assert_eq!(fs::read_to_string(archive.contents.join("man/subscope.1")).unwrap(), "manual");
        archive.copy_programs(&folder.join("installed")).unwrap();
        for name in PROGRAMS {
            let installed = folder.join("installed").join(name);
            assert_eq!(fs::read_to_string(&installed).unwrap(), name);
            assert!(!fs::metadata(&installed).unwrap().permissions().readonly());
        }
        write_sums(&release).unwrap();
        let sums = fs::read_to_string(folder.join(SUMS)).unwrap();
        assert!(sums.contains(&format!("{}  {}\n", archive.sha256, file_name(&archive.file))), "{sums}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
