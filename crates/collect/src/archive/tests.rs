//! Archived files outlive their originals, and nothing else is changed.

use std::io::Write;

use super::*;

struct Place {
    _folder: tempfile::TempDir,
    archive: Archive,
    original: PathBuf,
}

/// Whether the archive's file of an original is another file.
fn is_copy(archive: &Archive, original: &Path) -> bool {
    let id = |path: &Path| device_inode(path, &fs::metadata(path).unwrap()).unwrap();
    id(&archive.find(original).unwrap().unwrap().path) != id(original)
}

/// A transcript in a folder of its own, and an empty archive next to it.
fn place(content: &[u8]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("projects/-a/s.jsonl");
    fs::create_dir_all(original.parent().unwrap()).unwrap();
    fs::write(&original, content).unwrap();
    Place { archive: Archive::new(folder.path().join("archive")), original, _folder: folder }
}

fn text(archive: &Archive, original: &Path) -> Vec<u8> {
    let kept = archive.find(original).unwrap().unwrap();
    let mut all = Vec::new();
    let end = crate::read::read_file(&kept.path, 0, &mut Vec::new(), &mut |_, bytes| all.extend(bytes));
    assert_eq!((end.unwrap(), all.len() as u64), (kept.bytes, kept.bytes));
    all
}

#[test]
fn what_is_taken_grows_with_its_original_and_outlives_it() {
    let Place { archive, original, _folder } = place(b"one\n");
    assert_eq!(archive.find(&original).unwrap(), None);
    assert_eq!(archive.settle(&original).unwrap(), None);
    archive.take(&original).unwrap();
    assert!(is_copy(&archive, &original), "the archive has bytes of its own");
    OpenOptions::new().append(true).open(&original).unwrap().write_all(b"two\n").unwrap();
    archive.take(&original).unwrap();
    let before = fs::metadata(&original).unwrap();
    let known = [(original.clone(), "s".to_owned())];
    assert_eq!(archive.originals().unwrap().known, known);
    fs::remove_file(&original).unwrap();
    assert_eq!(archive.originals().unwrap().known, known);
    let kept = archive.settle(&original).unwrap().unwrap();
    assert_eq!(archive.originals().unwrap().known, known, "also compressed");
    assert_eq!((kept.bytes, kept.modified_ns), (8, modified_ns(&before)), "it stands as the original stood");
    assert!(frames::is_frames(&kept.path));
    assert_eq!(text(&archive, &original), b"one\ntwo\n");
    assert_eq!(archive.read_span(&original, 4, 3).unwrap(), b"two");
    assert_eq!(archive.settle(&original).unwrap(), Some(kept), "once is enough");
    archive.remove(&original).unwrap();
    assert_eq!(archive.find(&original).unwrap(), None);
    let gone = archive.read_span(&original, 0, 1).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}

/// An archive as an older version wrote it, without checksums, of files that are gone.
const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/archive/without-checksums");
const OLD_FILE: &str = "5fc6934e-ead9-44d1-b2be-8c629ff9d172.jsonl.zst";

/// Replaces an archived file with the old archive's file, and returns its path.
fn older(archive: &Archive, original: &Path) -> PathBuf {
    archive.take(original).unwrap();
    fs::remove_file(original).unwrap();
    let kept = archive.settle(original).unwrap().unwrap();
    fs::copy(Path::new(OLD).join(OLD_FILE), &kept.path).unwrap();
    kept.path
}

#[test]
fn a_file_of_an_older_version_is_read_and_gets_checksums() {
    let Place { archive, original, _folder } = place(b"one\n");
    let path = older(&archive, &original);
    let content = text(&archive, &original);
    assert!(content.len() > 10_000 && content.starts_with(b"{") && content.ends_with(b"}\n"));
    assert_eq!(archive.verify(), Verified { files: 1, without_checksums: 1, damaged: Vec::new() });
    let before = archive.find(&original).unwrap();
    assert_eq!(archive.settle(&original).unwrap(), before, "same path, length and time");
    assert_eq!(archive.verify(), Verified { files: 1, without_checksums: 0, damaged: Vec::new() });
    assert_eq!(text(&archive, &original), content);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn a_damaged_file_of_an_older_version_stays_as_it_is() {
    let Place { archive, original, _folder } = place(b"one\n");
    let path = older(&archive, &original);
    let mut bytes = fs::read(&path).unwrap();
    bytes[5] ^= 0xFF;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(archive.settle(&original).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let Verified { files, without_checksums, damaged } = archive.verify();
    assert_eq!((files, without_checksums, damaged.len()), (1, 1, 1));
    assert!(damaged[0].0 == path && damaged[0].1.contains("lost bytes 0 to "), "{damaged:?}");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn what_does_not_read_back_as_its_original_does_not_replace_it() {
    let Place { archive, original, _folder } = place(b"one\n");
    archive.take(&original).unwrap();
    let part = original.with_extension("part");
    let length = write_frames(&original, &part).unwrap();
    assert!(compare(&part, &original, length).is_ok());
    let other = original.with_extension("other");
    for content in ["two\n", "one\ntwo\n", "on", ""] {
        fs::write(&other, content).unwrap();
        let length = content.len() as u64;
        assert_eq!(compare(&part, &other, length).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
    let mut bytes = fs::read(&part).unwrap();
    bytes[12] ^= 1;
    fs::write(&part, bytes).unwrap();
    assert_eq!(compare(&part, &original, length).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn what_an_original_no_longer_says_is_kept_as_a_former_file() {
    let Place { archive, original, _folder } = place(b"one\ntwo\n");
    assert_eq!(archive.take(&original).unwrap(), None);
    // In place, by rename, and after a deletion; shorter, of the same length, and longer.
    fs::write(&original, b"one\n").unwrap();
    let first = archive.take(&original).unwrap().unwrap();
    let other = original.with_file_name("other");
    fs::write(&other, b"new!").unwrap();
    fs::rename(&other, &original).unwrap();
    let second = archive.take(&original).unwrap().unwrap();
    fs::remove_file(&original).unwrap();
    fs::write(&original, b"what is longer\n").unwrap();
    let third = archive.take(&original).unwrap().unwrap();
    assert_eq!(archive.take(&original).unwrap(), None);
    for (former, content) in [(&first, &b"one\ntwo\n"[..]), (&second, b"one\n"), (&third, b"new!")] {
        assert_eq!(text(&archive, former), content);
        assert_eq!(original_of(former).as_ref(), Some(&original));
    }
    assert_eq!(text(&archive, &original), b"what is longer\n");
    let all: Vec<PathBuf> = archive.originals().unwrap().known.into_iter().map(|(path, _)| path).collect();
    assert_eq!(all, [original.clone(), first.clone(), second, third]);
    archive.remove(&original).unwrap();
    assert_eq!((archive.find(&original).unwrap(), archive.find(&first).unwrap()), (None, None));
}

#[test]
fn link_of_an_older_version_becomes_a_copy() {
    let Place { archive, original, _folder } = place(b"one\n");
    archive.take(&original).unwrap();
    let place = archive.place(&original).unwrap();
    archive.remove(&original).unwrap();
    fs::hard_link(&original, &place).unwrap();
    archive.take(&original).unwrap();
    assert!(is_copy(&archive, &original));
    assert_eq!(text(&archive, &original), b"one\n");
}

#[test]
fn nothing_is_written_outside_the_archive() {
    let Place { archive, original, _folder } = place(b"one\n");
    for path in ["../x.jsonl", "x.jsonl", "/", "", "/a/../../../../x"] {
        assert!(archive.take(Path::new(path)).is_err(), "{path}");
        assert_eq!(archive.settle(Path::new(path)).unwrap(), None, "{path}");
        archive.remove(Path::new(path)).unwrap();
    }
    let folder = original.parent().unwrap();
    assert_eq!(archive.take(folder).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert!(!archive.folder.exists());
}

#[test]
#[cfg(unix)]
fn link_to_a_device_is_not_archived() {
    let Place { archive, original, _folder } = place(b"one\n");
    let link = original.with_file_name("link.jsonl");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    assert_eq!(archive.take(&link).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert!(!archive.folder.exists());
}

#[test]
#[cfg(unix)]
fn a_link_to_a_file_is_archived_as_that_file_under_its_own_path() {
    let Place { archive, original, _folder } = place(b"one\n");
    let link = original.with_file_name("link.jsonl");
    std::os::unix::fs::symlink(&original, &link).unwrap();
    archive.take(&link).unwrap();
    assert_eq!(archive.take(&link).unwrap(), None);
    assert_eq!(text(&archive, &link), b"one\n");
    fs::remove_file(&original).unwrap();
    assert_eq!(text(&archive, &link), b"one\n");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
#[cfg(unix)]
fn the_archive_is_for_its_user_alone() {
    use std::os::unix::fs::MetadataExt as _;

    let Place { archive, original, _folder } = place(b"one\n");
    archive.take(&original).unwrap();
    fs::remove_file(&original).unwrap();
    let kept = archive.settle(&original).unwrap().unwrap();
    assert_eq!(fs::metadata(&kept.path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&archive.folder).unwrap().mode() & 0o777, 0o700);
}
