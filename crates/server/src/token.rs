//! The token of callers whom nothing else tells: on an address that other machines reach, and on TCP where the system does
//! not say whose a connection is. It travels in the header `Authorization: Bearer` and nowhere else; no message holds it.
//!
//! A browser shows a cookie instead. It gets one for a code that counts once, which whoever may ask for it hands to the page
//! behind the `#` of an address: that part no browser sends, and no log holds.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    fs::{self, OpenOptions},
    io::{self, Read, Write as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};

use subscope_hub::clock;

use crate::peer;

/// How many random bytes a token is made of.
const BYTES: usize = 32;

/// The shortest that is taken: a word that somebody thought of can be guessed.
const SHORTEST: usize = 32;

/// The longest.
const LONGEST: u64 = 4096;

/// How long a code may be used, once.
const CODE_LASTS: Duration = Duration::from_secs(3600);

/// How many codes and how many cookies count at once; the oldest gives way.
const MOST: usize = 64;

/// What a caller must show. Clones share what was given for it.
#[derive(Clone)]
pub struct Token {
    word: Arc<str>,
    given: Arc<Mutex<Given>>,
}

/// What is as good as the token. It is forgotten when the server ends.
#[derive(Default)]
struct Given {
    codes: VecDeque<(Instant, String)>,
    cookies: VecDeque<String>,
}

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
                return Ok(Self::new(&token));
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
        Ok(Self::new(token))
    }

    fn new(word: &str) -> Self {
        Self { word: word.into(), given: Arc::default() }
    }

    /// The address of the page there, with a code for one browser.
    pub(crate) fn page(&self, url: &str) -> io::Result<String> {
        Ok(format!("{url}/#code={}", self.code()?))
    }

    /// Makes a code, for which one browser gets a cookie.
    fn code(&self) -> io::Result<String> {
        let code = random()?;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        push(&mut given.codes, (clock::tick(), code.clone()));
        Ok(code)
    }

    /// Takes a code and returns the value of the cookie that is shown from now on; `None` for one that does not count.
    pub(crate) fn redeem(&self, code: &str) -> io::Result<Option<String>> {
        let cookie = random()?;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.codes.retain(|(made, _)| made.elapsed() < CODE_LASTS);
        let place = given.codes.iter().position(|(_, known)| is_equal(known.as_bytes(), code.as_bytes()));
        let Some(place) = place else { return Ok(None) };
        given.codes.remove(place);
        push(&mut given.cookies, cookie.clone());
        Ok(Some(cookie))
    }

    /// Whether a request shows it, or a cookie that was given for it at this port: cookies know no ports.
    pub(crate) fn is_shown(&self, headers: &HeaderMap, port: u16) -> bool {
        self.is_in_header(headers) || self.is_in_cookie(headers, &cookie_name(port))
    }

    fn is_in_header(&self, headers: &HeaderMap) -> bool {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(one), None) = (shown.next(), shown.next()) else { return false };
        let Some((scheme, word)) = one.to_str().ok().and_then(|value| value.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && is_equal(word.trim().as_bytes(), self.word.as_bytes())
    }

    fn is_in_cookie(&self, headers: &HeaderMap, name: &str) -> bool {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = headers.get_all(header::COOKIE).iter().filter_map(|list| list.to_str().ok());
        let mut shown = lists.flat_map(|list| list.split(';')).filter_map(|one| one.trim().split_once('='));
        shown.any(|(shown, value)| {
            let is_given = |known: &String| is_equal(known.as_bytes(), value.as_bytes());
            shown == name && given.cookies.iter().any(is_given)
        })
    }
}

/// The name of the cookie of a listener.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("subscope-{port}")
}

fn push<T>(list: &mut VecDeque<T>, one: T) {
    if list.len() == MOST {
        list.pop_front();
    }
    list.push_back(one);
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
        assert_eq!(made.word.len(), 2 * BYTES);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::of_file(&path).unwrap().word, made.word);
        assert_ne!(Token::of_file(&folder.path().join("other")).unwrap().word, made.word);
        assert!(!format!("{made:?}").contains(&*made.word));
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
        let token = Token::new(word);
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            token.is_shown(&headers, 7337)
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

    #[test]
    fn code_gives_a_cookie_once() {
        let token = Token::new("0123456789abcdef0123456789abcdef");
        let code = token.code().unwrap();
        assert_eq!(token.redeem("").unwrap(), None);
        assert_eq!(token.redeem(&code[1..]).unwrap(), None);
        let cookie = token.clone().redeem(&code).unwrap().unwrap();
        assert_eq!(token.redeem(&code).unwrap(), None);
        let is_shown = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.append(header::COOKIE, HeaderValue::from_str(value).unwrap());
            token.is_shown(&headers, 7337)
        };
        assert!(is_shown(&format!("a=b; subscope-7337={cookie}")));
        for other in [
            format!("subscope-7338={cookie}"),
            format!("subscope-7337={code}"),
            format!("subscope-7337={cookie}0"),
            "subscope-7337=".to_owned(),
            "subscope-7337=0123456789abcdef0123456789abcdef".to_owned(),
        ] {
            assert!(!is_shown(&other), "{other}");
        }
        // Only so many count.
        let codes: Vec<String> = (0..=MOST).map(|_| token.code().unwrap()).collect();
        assert_eq!(token.redeem(&codes[0]).unwrap(), None);
        assert!(token.redeem(&codes[1]).unwrap().is_some());
    }
}
