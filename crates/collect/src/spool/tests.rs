//! Concurrent writers, consumers that die, foreign files in the folder.

use std::thread;

use super::*;

fn bodies(spool: &Spool) -> Vec<String> {
    spool.iter().map(|spooled| String::from_utf8(spooled.unwrap().body).unwrap()).collect()
}

#[test]
fn delivery_reads_what_it_writes_and_nothing_else() {
    let delivery = Delivery::new(1_795_293_906_647_000_001, 4711, u64::MAX);
    let text = delivery.to_string();
    assert_eq!(text.parse(), Ok(delivery));
    assert_eq!(delivery.received_ms(), 1_795_293_906_647);
    for wrong in ["", "-", "1-2-3", &text[1..], &format!("{text}-"), &text.to_uppercase(), "../../etc/passwd"]
    {
        assert_eq!(wrong.parse::<Delivery>(), Err(NoDelivery), "{wrong}");
    }
}

#[test]
fn open_gives_the_oldest_first_whatever_was_written_first() {
    let folder = tempfile::tempdir().unwrap();
    let folder = super::folder(folder.path());
    assert!(Spool::open(&folder).unwrap().is_empty());
    for at_ms in [3, 1, 20, 2] {
        let body = [format!("{{\"at\":{at_ms}"), "}".to_owned()];
        write(&folder, Kind::Hook("claude-code"), Delivery::new(at_ms * 1_000_000, 9, 5), &body).unwrap();
    }
    let spool = Spool::open(&folder).unwrap();
    assert_eq!(bodies(&spool), ["{\"at\":1}", "{\"at\":2}", "{\"at\":3}", "{\"at\":20}"]);
    let times: Vec<Millis> = spool.iter().map(|spooled| spooled.unwrap().received_ms).collect();
    assert_eq!(times, [1, 2, 3, 20]);
}

#[test]
fn remove_takes_one_for_good_and_may_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    for at in 1..=2 {
        write(folder.path(), Kind::Hook("claude-code"), Delivery::new(at, 9, 5), &[at.to_string()]).unwrap();
    }
    let spool = Spool::open(folder.path()).unwrap();
    let first = spool.iter().next().unwrap().unwrap();
    spool.remove(&first).unwrap();
    spool.remove(&first).unwrap();
    assert_eq!(bodies(&spool), ["2"], "what somebody else took is left out");
    assert_eq!(Spool::open(folder.path()).unwrap().len(), 1);
}

#[test]
#[cfg(unix)]
fn folder_and_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let data = tempfile::tempdir().unwrap();
    let folder = super::folder(&data.path().join("new/data"));
    write(&folder, Kind::Hook("claude-code"), Delivery::new(1, 1, 1), &[b"{}"]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!((mode(&folder), mode(&data.path().join("new/data")), mode(&file)), (0o700, 0o700, 0o600));
}

#[test]
fn damaged_payloads_are_told_and_set_aside_and_foreign_files_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for at in 1..=4 {
        write(folder, Kind::Hook("claude-code"), Delivery::new(at, 1, 1), &[b"{\"whole\":1}"]).unwrap();
    }
    let path = |at| {
        folder.join(
            Name { delivery: Delivery::new(at, 1, 1), length: 11, kind: Kind::Hook("claude-code") }
                .to_string(),
        )
    };
    fs::write(path(1), "{\"who").unwrap();
    fs::remove_file(path(2)).unwrap();
    fs::create_dir(path(2)).unwrap();
    fs::remove_file(path(3)).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc/passwd", path(3)).unwrap();
    #[cfg(windows)]
    fs::create_dir(path(3)).unwrap();
    fs::write(folder.join("notes.json"), "mine").unwrap();
    let spool = Spool::open(folder).unwrap();
    let taken: Vec<_> = spool.iter().collect();
    assert!(matches!(&taken[0], Err(SpoolError::Damaged { expected: 11, found: 5, .. })), "{taken:?}");
    assert!(matches!(&taken[1], Err(SpoolError::NoPayload { .. })), "{taken:?}");
    assert!(matches!(&taken[2], Err(SpoolError::NoPayload { .. })), "{taken:?}");
    assert_eq!(taken[3].as_ref().unwrap().body, b"{\"whole\":1}");
    for error in taken.iter().filter_map(|taken| taken.as_ref().err()) {
        spool.set_aside(error).unwrap();
    }
    let spool = Spool::open(folder).unwrap();
    assert_eq!(bodies(&spool), ["{\"whole\":1}"]);
    assert_eq!((spool.set_aside_count().unwrap(), spool.dropped().unwrap()), (3, 0));
    fs::create_dir(folder.join("dropped")).unwrap();
    assert!(spool.dropped().is_err(), "a count that cannot be read is not none");
    assert_eq!(fs::read(folder.join("notes.json")).unwrap(), b"mine");
}

#[test]
fn sweep_removes_what_a_killed_hook_left_and_nothing_younger() {
    let folder = tempfile::tempdir().unwrap();
    let unfinished = |at_ms: u64| folder.path().join(format!(".{}", Delivery::new(at_ms * 1_000_000, 1, 1)));
    for at_ms in [1, 3_600_000] {
        fs::write(unfinished(at_ms), "{\"ha").unwrap();
    }
    fs::write(folder.path().join(".keep"), "").unwrap();
    let spool = Spool::open(folder.path()).unwrap();
    assert!(spool.is_empty());
    assert_eq!(spool.sweep(3_600_002), 1);
    assert!(
        !unfinished(1).exists() && unfinished(3_600_000).exists() && folder.path().join(".keep").exists()
    );
}

#[test]
fn writers_beside_each_other_lose_nothing() {
    let data = tempfile::tempdir().unwrap();
    let folder = super::folder(data.path());
    thread::scope(|scope| {
        for process in 0..200 {
            let folder = &folder;
            scope.spawn(move || {
                write(folder, Kind::Hook("claude-code"), Delivery::new(7, process, 5), &[process.to_string()])
                    .unwrap()
            });
        }
    });
    let mut all: Vec<u32> =
        bodies(&Spool::open(&folder).unwrap()).iter().map(|body| body.parse().unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
}

#[test]
fn write_that_fails_leaves_nothing() {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("spool"), "in the way").unwrap();
    assert!(
        write(&super::folder(data.path()), Kind::Hook("claude-code"), Delivery::new(1, 1, 1), &[b"{}"])
            .is_err()
    );
    // The name of the payload is taken by a folder that is not empty, so the rename fails as on a full disk.
    let folder = data.path().join("other");
    let taken = folder.join(
        Name { delivery: Delivery::new(1, 1, 1), length: 2, kind: Kind::Hook("claude-code") }.to_string(),
    );
    fs::create_dir_all(taken.join("x")).unwrap();
    assert!(write(&folder, Kind::Hook("claude-code"), Delivery::new(1, 1, 1), &[b"{}"]).is_err());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}
