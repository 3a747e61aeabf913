//! What every system answers alike.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::*;

fn id(path: &Path) -> DeviceInode {
    device_inode(path, &fs::metadata(path).unwrap()).unwrap()
}

#[test]
fn identity_stays_when_a_file_is_renamed_and_is_another_for_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("one"), "x").unwrap();
    let (own, open) = (id(&at("one")), File::open(at("one")).unwrap());
    assert_eq!(open_device_inode(&open, &open.metadata().unwrap()).unwrap(), own);
    fs::hard_link(at("one"), at("link")).unwrap();
    fs::rename(at("one"), at("two")).unwrap();
    assert_eq!((id(&at("two")), id(&at("link"))), (own, own));
    fs::write(at("one"), "x").unwrap();
    assert_ne!(id(&at("one")), own);
    let of_folder = id(folder.path());
    assert_eq!((of_folder.device, of_folder.inode == own.inode), (own.device, false));
}

#[test]
fn time_of_a_file_is_nanoseconds_also_before_1970() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"x").unwrap();
    // Windows counts from 1601, in steps of 100 ns.
    for ns in [0_i64, 1_700_000_000_123_456_700, -500_000_000, -1_500_000_000] {
        let since = Duration::from_nanos(ns.unsigned_abs());
        file.set_modified(if ns < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since }).unwrap();
        assert_eq!(modified_ns(&file.metadata().unwrap()), ns);
    }
}

#[test]
fn bytes_are_read_at_their_offset_and_fewer_at_the_end() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"0123456789").unwrap();
    let mut buffer = [0; 4];
    assert_eq!((read_at(&file, &mut buffer, 3).unwrap(), &buffer), (4, b"3456"));
    assert_eq!((read_at(&file, &mut buffer, 8).unwrap(), &buffer[..2]), (2, &b"89"[..]));
    // Windows answers an error at the end of a pipe only.
    assert_eq!(read_at(&file, &mut buffer, 10).unwrap(), 0);
}

#[test]
fn path_comes_back_from_its_bytes() {
    let path = Path::new("sessions").join("ä 会話 🦀.jsonl");
    assert_eq!(path_from_bytes(path_bytes(&path).into_owned()), path);
    assert_eq!(*path_bytes(&path), *path.to_str().unwrap().as_bytes());
}

#[test]
fn process_is_alive_until_it_ends() {
    assert!(is_alive(std::process::id()));
    let mut child = Command::new(std::env::current_exe().unwrap());
    let mut child = child.arg("--list").stdout(Stdio::null()).spawn().unwrap();
    child.wait().unwrap();
    let pid = child.id();
    drop(child);
    assert!(!is_alive(pid));
    assert!(!is_alive(u32::MAX));
}

#[test]
fn disk_has_room_and_a_missing_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk_space(folder.path()).unwrap();
    assert!(disk.free_bytes > 0 && disk.has_free_files);
    assert!(disk_space(&folder.path().join("none")).is_err());
}

#[test]
fn private_folder_is_created_with_those_above_it_and_may_exist() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("data").join("archive");
    create_private_folder(&below).unwrap();
    create_private_folder(&below).unwrap();
    check_private_folder(&below).unwrap();
    check_owner(&below).unwrap();
    let file = below.join("file");
    let create = || OpenOptions::new().write(true).create_new(true).private().open(&file);
    create().unwrap().write_all(b"x").unwrap();
    assert!(create().is_err() && check_private_folder(&folder.path().join("none")).is_err());
    assert_eq!(fs::read(&file).unwrap(), b"x");
    assert!(OpenOptions::new().read(true).without_waiting().open(&file).is_ok());
}

#[test]
fn home_folder_is_known() {
    assert!(variable("HOME").is_some_and(|home| !home.is_empty()));
    assert_eq!(variable("SUBSCOPE_NO_SUCH_VARIABLE"), None);
}

#[test]
fn pipe_is_ready_once_it_has_bytes_or_is_closed() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut reader = duplicate(&reader).unwrap();
    let is_ready = |reader: &File| reader.wait_ready(Readiness::Readable, Duration::from_millis(5)).unwrap();
    assert!(!is_ready(&reader));
    writer.write_all(b"x").unwrap();
    assert!(is_ready(&reader));
    std::io::Read::read_exact(&mut reader, &mut [0]).unwrap();
    assert!(!is_ready(&reader));
    drop(writer);
    assert!(is_ready(&reader), "its end can be read");
}

#[test]
fn start_of_a_process_is_known_while_it_runs() {
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!(ProcessStart::of(own), ProcessStart::of(own));
    assert!(ProcessStart::of(own).is_some() && ProcessStart::of(i32::MAX).is_none());
}
