//! Paths of Windows, which sessions of other machines have, too.

/// Whether a path begins as absolute ones of Windows do: with a disk, `C:\` or `C:/`, or with a share, `\\`.
pub fn is_windows_path(path: &str) -> bool {
    let is_of_disk =
        |path: &[u8]| matches!(path, [disk, b':', b'/' | b'\\', ..] if disk.is_ascii_alphabetic());
    path.starts_with(r"\\") || is_of_disk(path.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_disk_or_share_is_one_of_windows() {
        for path in [r"C:\Users\x", "c:/Users/x", r"\\host\share\x", r"\\?\C:\x"] {
            assert!(is_windows_path(path), "{path}");
        }
        for path in ["/home/x", "//x/y", r"/home/a\b", "C:", "C:x", "1:/x", r"a\b", "", "http://x"] {
            assert!(!is_windows_path(path), "{path}");
        }
    }
}
