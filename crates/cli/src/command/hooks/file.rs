//! Reads a settings file and replaces its text atomically: a program that reads it meanwhile sees the old text or the
//! new one.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use subscope_platform::OpenPolicy as _;
use tempfile::NamedTempFile;

use crate::{config::read_text, prelude::*};

/// The greatest file that is edited. Real ones have some thousand bytes.
const LIMIT_BYTES: u64 = 4 << 20;
/// Links to follow, as many as Linux does, so that a ring of them ends.
const LINK_LIMIT: usize = 40;

/// Who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum NewFile {
    /// Its owner alone.
    Private,
    /// All whom the folder and the umask let.
    Shared,
}

/// Resolves links: the file to which a dotfile manager links is edited, and the link stays. The file need not exist.
pub(in super::super) fn behind_links(path: &Path) -> Result<PathBuf, CliError> {
    let mut path = path.to_owned();
    for _ in 0..LINK_LIMIT {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // No link, or nothing there.
            Err(_) => return Ok(path),
        }
    }
    Err(CliError::failed(format!("{} is a ring of links", path.display())))
}

/// Returns the text of a file; `None` where there is none.
pub(in super::super) fn read(path: &Path) -> Result<Option<String>, CliError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Ok(metadata) if !metadata.is_file() => {
            Err(CliError::failed(format!("{} is not a regular file", path.display())))
        }
        Ok(_) | Err(_) => read_text(path, LIMIT_BYTES, ErrorKind::Input).map(Some),
    }
}

/// Replaces the text `before`, which the file must still contain: writes a temporary file, syncs it and renames it.
///
/// The mode is kept; a file that was not there is as `new_file` says. A write of another program between the last check
/// and the rename is lost: file systems offer no way to prevent that.
pub(in super::super) fn replace(
    path: &Path,
    before: Option<&str>,
    text: &str,
    new_file: NewFile,
) -> Result<(), CliError> {
    check_untouched(path, before)?;
    let failed = |error| CliError::write(path.display(), error);
    let beside = write_beside(path, text, new_file).map_err(failed)?;
    check_untouched(path, before).map_err(|_| touched(path))?;
    beside.persist(path).map_err(|error| failed(error.error))?;
    sync_folder(path);
    Ok(())
}

/// Removes a file that still has the expected text.
pub(in super::super) fn remove(path: &Path, before: &str) -> Result<(), CliError> {
    check_untouched(path, Some(before))?;
    fs::remove_file(path).map_err(|error| CliError::write(path.display(), error))?;
    sync_folder(path);
    Ok(())
}

/// Makes the folder of a file, and returns the folders that were missing, the innermost first.
pub(in super::super) fn make_folder_of(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(Vec::new());
    };
    let missing = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    fs::create_dir_all(folder).map_err(|error| CliError::write(folder.display(), error))?;
    Ok(missing)
}

fn check_untouched(path: &Path, before: Option<&str>) -> Result<(), CliError> {
    if read(path)?.as_deref() == before { Ok(()) } else { Err(touched(path)) }
}

fn touched(path: &Path) -> CliError {
    let message =
        format!("{} was changed by somebody else at this moment; it is as they left it", path.display());
    CliError::failed(message).hint("run the command again")
}

fn write_beside(path: &Path, text: &str, new_file: NewFile) -> io::Result<NamedTempFile> {
    let old = fs::metadata(path).ok().map(|metadata| metadata.permissions());
    if old.as_ref().is_some_and(Permissions::readonly) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"));
    }
    // A private file stays private at every moment.
    let is_private = old.is_some() || new_file == NewFile::Private;
    let create = |path: &Path| {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if is_private { options.private().open(path) } else { options.open(path) }
    };
    let mut beside =
        tempfile::Builder::new().prefix(".subscope-").suffix(".tmp").make_in(folder_of(path), create)?;
    let file = beside.as_file_mut();
    file.write_all(text.as_bytes())?;
    old.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
    file.sync_all()?;
    Ok(beside)
}

/// Returns the folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs the folder, so that the rename survives a power failure. A folder that cannot be synced is no error.
fn sync_folder(path: &Path) {
    let _ = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn replace_keeps_mode_and_leaves_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, Some("old"), "new", NewFile::Private).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn replace_and_remove_leave_what_somebody_else_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        fs::write(&path, "theirs").unwrap();
        for error in [
            replace(&path, Some("old"), "new", NewFile::Private).unwrap_err(),
            replace(&path, None, "new", NewFile::Private).unwrap_err(),
            remove(&path, "old").unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Failed);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn replace_leaves_a_read_only_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(replace(&path, Some("old"), "new", NewFile::Private).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn links_are_followed_to_the_file_or_to_where_it_would_be() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("b", at("a")).unwrap();
        symlink(at("c"), at("b")).unwrap();
        assert_eq!(behind_links(&at("a")).unwrap(), at("c"));
        symlink("ring", at("ring")).unwrap();
        assert!(behind_links(&at("ring")).is_err());
    }
}
