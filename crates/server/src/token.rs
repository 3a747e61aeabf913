//! The token of callers whom nothing else tells: on an address that other machines reach, and on TCP where the system does
//! not say whose a connection is. It travels in the header `Authorization: Bearer` and nowhere else; no message holds it.

use std::{
    fmt::{self, Write as _},
    fs::{self, OpenOptions},
    io::{self, Read, Write as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use axum::http::{HeaderMap, header};

use crate::peer;

/// How many random bytes a token is made of.
const BYTES: usize = 32;

/// The shortest that is taken: a word that somebody thought of can be guessed.
const SHORTEST: usize = 32;

/// The longest.
const LONGEST: u64 = 4096;

/// What a caller must show.
#[derive(Clone)]
pub struct Token(Box<str>);

/// It is a secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or made.
    #[error("cannot use the token in {path}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others could have read it, or have put it there.
    #[error("{path} is not this user's alone: make it so with chmod 600", path = .0.display())]
    Open(PathBuf),
    /// It could be guessed.
    #[error("the token in {path} is no word of {SHORTEST} characters or more: remove the file, and one is made", path = .0.display())]
    Weak(PathBuf),
}

impl Token {
    /// Reads the token of a file, which must be its owner's alone. Where there is no file, one is made with a random token.
    ///
    /// # Errors
    ///
    /// See [`TokenError`].
    pub fn of_file(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::File { path: path.to_owned(), source };
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                let token = random().map_err(failed)?;
                file.write_all(format!("{token}\n").as_bytes()).map_err(failed)?;
                return Ok(Self(token.into()));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let found = fs::metadata(path).map_err(failed)?;
        if !found.is_file() || found.uid() != peer::own_uid() || found.permissions().mode() & 0o077 != 0 {
            return Err(TokenError::Open(path.to_owned()));
        }
        let mut text = String::new();
        let file = fs::File::open(path).map_err(failed)?;
        file.take(LONGEST).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim();
        if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Weak(path.to_owned()));
        }
        Ok(Self(token.into()))
    }

    /// Whether a request shows it.
    pub(crate) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(one), None) = (shown.next(), shown.next()) else { return false };
        let Some((scheme, word)) = one.to_str().ok().and_then(|value| value.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && is_equal(word.trim().as_bytes(), self.0.as_bytes())
    }
}

/// Compares in a time that depends on the length alone.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

fn random() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    // Every system that has Unix sockets has this file.
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn file_is_made_private_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = Token::of_file(&path).unwrap();
        assert_eq!(made.0.len(), 2 * BYTES);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::of_file(&path).unwrap().0, made.0);
        assert_ne!(Token::of_file(&folder.path().join("other")).unwrap().0, made.0);
        assert!(!format!("{made:?}").contains(&*made.0));
    }

    #[test]
    fn files_of_others_and_weak_words_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        Token::of_file(&path).unwrap();
        for mode in [0o644, 0o640, 0o606, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(Token::of_file(&path), Err(TokenError::Open(_))), "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for weak in ["", "\n", "secret", &"x".repeat(31), &format!("{} {}", "x".repeat(20), "y".repeat(20))] {
            fs::write(&path, weak).unwrap();
            assert!(matches!(Token::of_file(&path), Err(TokenError::Weak(_))), "{weak:?}");
        }
        assert!(matches!(Token::of_file(folder.path()), Err(TokenError::Open(_))));
        let missing = folder.path().join("none/token");
        assert!(matches!(Token::of_file(&missing), Err(TokenError::File { .. })));
    }

    #[test]
    fn only_the_whole_token_in_its_header_is_one() {
        let word = "0123456789abcdef0123456789abcdef";
        let token = Token(word.into());
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            token.is_shown(&headers)
        };
        assert!(shown(&[&format!("Bearer {word}")]) && shown(&[&format!("bearer  {word}")]));
        let (short, long) = (&word[1..], format!("{word}0"));
        for wrong in [
            word,
            "Bearer",
            "Bearer ",
            &format!("Basic {word}"),
            &format!("Bearer {short}"),
            &format!("Bearer {long}"),
        ] {
            assert!(!shown(&[wrong]), "{wrong}");
        }
        assert!(!shown(&[]));
        assert!(!shown(&[&format!("Bearer {word}"), "Bearer x"]), "two are none");
    }
}
