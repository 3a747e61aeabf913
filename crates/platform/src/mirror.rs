//! Folders that mirror the paths of other files: the place of a file below such a folder, and the way back.

use std::path::{Component, Path, PathBuf, Prefix};

/// Returns the path below a folder that stands for the absolute path of a file; `None` for a path that is relative, has
/// `..` in it, or names no file of a disk or share.
///
/// A disk of Windows is a folder named by its letter, a share the folders `UNC`, server and name.
pub fn mirrored(folder: &Path, original: &Path) -> Option<PathBuf> {
    let mut place = folder.to_owned();
    for part in original.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => place.push(name),
            Component::Prefix(prefix) => place.push(folder_of(prefix.kind())?),
            Component::CurDir | Component::ParentDir => return None,
        }
    }
    (original.is_absolute() && place != folder).then_some(place)
}

/// Returns the absolute path for which a path below a mirroring folder stands, given without that folder.
pub fn original(below: &Path) -> PathBuf {
    super::system::root_of(below)
}

/// Returns the folder that stands for what a path of Windows begins with; `None` for a device.
fn folder_of(prefix: Prefix<'_>) -> Option<PathBuf> {
    match prefix {
        Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
            Some(char::from(letter).to_ascii_uppercase().to_string().into())
        }
        Prefix::UNC(server, share) | Prefix::VerbatimUNC(server, share) => {
            Some(Path::new(SHARES).join(server).join(share))
        }
        Prefix::DeviceNS(_) | Prefix::Verbatim(_) => None,
    }
}

/// Folder with the shares of other machines. No disk has such a name.
pub(crate) const SHARES: &str = "UNC";

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn disks_and_shares_have_folders_of_their_own_and_devices_none() {
        let share = Prefix::UNC(OsStr::new("server"), OsStr::new("share"));
        let verbatim = Prefix::VerbatimUNC(OsStr::new("server"), OsStr::new("share"));
        assert_eq!(folder_of(Prefix::Disk(b'c')), Some("C".into()));
        assert_eq!(folder_of(Prefix::VerbatimDisk(b'C')), Some("C".into()));
        assert_eq!(folder_of(share), Some(Path::new("UNC").join("server").join("share")));
        assert_eq!(folder_of(verbatim), folder_of(share));
        assert_eq!(folder_of(Prefix::DeviceNS(OsStr::new("COM1"))), None);
        assert_eq!(folder_of(Prefix::Verbatim(OsStr::new("pipe"))), None);
    }

    #[test]
    fn path_comes_back_from_its_mirror() {
        let own = std::env::current_dir().unwrap().join("sessions").join("a.jsonl");
        let folder = Path::new("archive");
        let place = mirrored(folder, &own).unwrap();
        assert!(place.starts_with(folder) && place.ends_with("sessions/a.jsonl"), "{}", place.display());
        assert_eq!(original(place.strip_prefix(folder).unwrap()), own);
    }

    #[test]
    fn path_that_is_relative_or_leads_out_has_no_mirror() {
        let own = std::env::current_dir().unwrap();
        let root = own.ancestors().last().unwrap();
        for path in [Path::new("a.jsonl"), &own.join("..").join("a.jsonl"), root] {
            let place = mirrored(Path::new("archive"), path);
            assert!(place.is_none() || path == root && cfg!(windows), "{}", path.display());
        }
    }
}
