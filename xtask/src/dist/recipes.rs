//! What other package managers read: a Homebrew formula, a PKGBUILD for the AUR, and the install script, with the version
//! and the sums of this release.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::archive::Archive;
use super::{Release, template, write};
use crate::step::{announce, skip};

/// A template in `packaging`, and the name of its file in the release.
const TEMPLATES: [(&str, &str); 3] =
    [("homebrew/subscope.rb", "subscope.rb"), ("aur/PKGBUILD", "PKGBUILD"), ("install.sh", INSTALLER)];

/// The install script.
pub(super) const INSTALLER: &str = "install.sh";

/// Writes the recipes for which the release has all named archives; reports the missing archives of the others.
pub(super) fn write_all(release: &Release, archives: &[Archive]) -> Result<()> {
    announce("dist: formula, PKGBUILD, install script");
    let sums: BTreeMap<&str, &str> =
        archives.iter().map(|archive| (archive.target.triple, archive.sha256.as_str())).collect();
    for (path, file) in TEMPLATES {
        match fill(&template(path)?, &release.version, &sums)? {
            Ok(text) => write(&release.folder.join(file), text)?,
            Err(missing) => skip(file, &format!("it names the archive of {missing}, which is not here")),
        }
    }
    Ok(())
}

/// Replaces `@VERSION@` and `@SHA256 TARGET@`; the inner error is the target that has no archive.
fn fill(text: &str, version: &str, sums: &BTreeMap<&str, &str>) -> Result<Result<String, String>> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('@') {
        filled += before;
        let Some((word, after)) = behind.split_once('@') else {
            bail!("a mark does not end: @{}", behind.lines().next().unwrap_or_default());
        };
        match word.strip_prefix("SHA256 ") {
            _ if word == "VERSION" => filled += version,
            Some(target) => match sums.get(target) {
                Some(sum) => filled += sum,
                None => return Ok(Err(target.to_owned())),
            },
            // An at sign of the text, such as one in an address.
            None => {
                filled.push('@');
                rest = behind;
                continue;
            }
        }
        rest = after;
    }
    Ok(Ok(filled + rest))
}

#[cfg(test)]
mod tests {
    use super::super::targets::TARGETS;
    use super::*;

    #[test]
    fn recipes_are_filled_or_name_the_archive_that_is_missing() {
        let sums: BTreeMap<&str, &str> = TARGETS.iter().map(|target| (target.triple, "0123abcd")).collect();
        for (path, _) in TEMPLATES {
            let text = fill(&template(path).unwrap(), "1.2.3", &sums).unwrap().unwrap();
            assert!(
                text.contains("1.2.3") && !text.contains("@VERSION@") && !text.contains("@SHA256"),
                "{path}"
            );
        }
        let fill = |text| fill(text, "1", &BTreeMap::new());
        assert_eq!(fill("v@VERSION@ @SHA256 sparc@").unwrap(), Err("sparc".to_owned()));
        assert_eq!(fill("\"$@\" a@b@VERSION@.").unwrap(), Ok("\"$@\" a@b1.".to_owned()));
    }
}
