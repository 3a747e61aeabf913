//! Bearer token of TCP clients that the system cannot identify: on an address that other machines reach, and on systems
//! that do not report the user of a connection. It is sent in the header `Authorization: Bearer` only; no message
//! contains it.
//!
//! Browsers send a cookie instead, which they get for a single-use code. The code is in the fragment (`#`) of the
//! page's URL, which browsers do not send and logs do not contain.

use std::{
    collections::VecDeque,
    fmt,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};

use subscope_hub::clock;
use subscope_platform::{OpenPolicy as _, is_private, random_bytes};

/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;

/// Minimum length of a token in a file: a short one can be guessed.
const MIN_LENGTH: usize = 32;

/// Bytes read of a token file.
const MAX_FILE_BYTES: u64 = 4096;

/// Lifetime of an unused code.
const CODE_LIFETIME: Duration = Duration::from_secs(3600);

/// Maximum number of valid codes, and of valid cookies; the oldest is dropped.
const MAX_SECRETS: usize = 64;

/// Required token. Clones share the issued codes and cookies.
#[derive(Clone)]
pub struct Token {
    secret: Arc<str>,
    issued: Arc<Mutex<IssuedSecrets>>,
}

/// Codes and cookies that replace the token; valid until the server ends.
#[derive(Default)]
struct IssuedSecrets {
    codes: VecDeque<(Instant, String)>,
    cookies: VecDeque<String>,
}

/// Without the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Error of loading a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or created.
    #[error("cannot use the token in {path}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Other users can access the file, or own it.
    #[error("{path} is not this user's alone: make it so with chmod 600", path = .0.display())]
    Open(PathBuf),
    /// The token is too short.
    #[error("the token in {path} is not one word of at least {MIN_LENGTH} characters: remove the file, and `serve` creates a new one", path = .0.display())]
    Weak(PathBuf),
}

impl Token {
    /// Reads the token from a file, which must be private; a missing file is created with a random token.
    ///
    /// # Errors
    ///
    /// See [`TokenError`].
    pub fn of_file(path: &Path) -> Result<Self, TokenError> {
        let file_error = |source| TokenError::File { path: path.to_owned(), source };
        match OpenOptions::new().write(true).create_new(true).private().open(path) {
            Ok(mut file) => {
                let token = random_hex().map_err(file_error)?;
                file.write_all(format!("{token}\n").as_bytes()).map_err(file_error)?;
                return Ok(Self::new(&token));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(file_error(error)),
        }
        let found = fs::metadata(path).map_err(file_error)?;
        if !found.is_file() || !is_private(&found) {
            return Err(TokenError::Open(path.to_owned()));
        }
        let mut text = String::new();
        let file = fs::File::open(path).map_err(file_error)?;
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(file_error)?;
        let token = text.trim();
        if token.len() < MIN_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Weak(path.to_owned()));
        }
        Ok(Self::new(token))
    }

    fn new(secret: &str) -> Self {
        Self { secret: secret.into(), issued: Arc::default() }
    }

    /// Returns the URL of the web page with a new sign-in code.
    pub(crate) fn page_url(&self, url: &str) -> io::Result<String> {
        Ok(format!("{url}/#code={}", self.issue_code()?))
    }

    /// Issues a code, for which one browser gets a cookie.
    fn issue_code(&self) -> io::Result<String> {
        let code = random_hex()?;
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        push_bounded(&mut issued.codes, (clock::tick(), code.clone()));
        Ok(code)
    }

    /// Redeems a code for a new cookie value; `None` if the code is invalid.
    pub(crate) fn redeem(&self, code: &str) -> io::Result<Option<String>> {
        let cookie = random_hex()?;
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        issued.codes.retain(|(made, _)| made.elapsed() < CODE_LIFETIME);
        let position = issued.codes.iter().position(|(_, known)| is_equal(known.as_bytes(), code.as_bytes()));
        let Some(position) = position else { return Ok(None) };
        issued.codes.remove(position);
        push_bounded(&mut issued.cookies, cookie.clone());
        Ok(Some(cookie))
    }

    /// Whether a request contains the token or a cookie of this port; the port is in the name, since cookies apply to
    /// all ports.
    pub(crate) fn is_in(&self, headers: &HeaderMap, port: u16) -> bool {
        self.is_in_header(headers) || self.is_in_cookie(headers, &cookie_name(port))
    }

    fn is_in_header(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(one), None) = (values.next(), values.next()) else { return false };
        let Some((scheme, secret)) = one.to_str().ok().and_then(|value| value.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && is_equal(secret.trim().as_bytes(), self.secret.as_bytes())
    }

    fn is_in_cookie(&self, headers: &HeaderMap, name: &str) -> bool {
        let issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = headers.get_all(header::COOKIE).iter().filter_map(|list| list.to_str().ok());
        let mut cookies = lists.flat_map(|list| list.split(';')).filter_map(|one| one.trim().split_once('='));
        cookies.any(|(cookie, value)| {
            let is_issued = |known: &String| is_equal(known.as_bytes(), value.as_bytes());
            cookie == name && issued.cookies.iter().any(is_issued)
        })
    }
}

/// Returns the cookie name of a listener.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("subscope-{port}")
}

fn push_bounded<T>(list: &mut VecDeque<T>, one: T) {
    if list.len() == MAX_SECRETS {
        list.pop_front();
    }
    list.push_back(one);
}

/// Compares in constant time for equal lengths.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

/// Returns 256 random bits as hexadecimal digits.
///
/// # Errors
/// If the system has no random bytes.
pub fn random_hex() -> io::Result<String> {
    let mut halves = [[0; RANDOM_BYTES / 2]; 2];
    random_bytes(halves.as_flattened_mut())?;
    Ok(halves.map(|half| format!("{:032x}", u128::from_be_bytes(half))).concat())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn file_is_created_private_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = Token::of_file(&path).unwrap();
        assert_eq!(made.secret.len(), 2 * RANDOM_BYTES);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::of_file(&path).unwrap().secret, made.secret);
        assert_ne!(Token::of_file(&folder.path().join("other")).unwrap().secret, made.secret);
        assert!(!format!("{made:?}").contains(&*made.secret));
    }

    #[test]
    fn files_of_others_and_weak_tokens_are_refused() {
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
    fn only_the_exact_token_in_its_header_is_accepted() {
        let word = "0123456789abcdef0123456789abcdef";
        let token = Token::new(word);
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            token.is_in(&headers, 7337)
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
    fn code_is_redeemed_once() {
        let token = Token::new("0123456789abcdef0123456789abcdef");
        let code = token.issue_code().unwrap();
        assert_eq!(token.redeem("").unwrap(), None);
        assert_eq!(token.redeem(&code[1..]).unwrap(), None);
        let cookie = token.clone().redeem(&code).unwrap().unwrap();
        assert_eq!(token.redeem(&code).unwrap(), None);
        let is_shown = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.append(header::COOKIE, HeaderValue::from_str(value).unwrap());
            token.is_in(&headers, 7337)
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
        // The oldest code is dropped.
        let codes: Vec<String> = (0..=MAX_SECRETS).map(|_| token.issue_code().unwrap()).collect();
        assert_eq!(token.redeem(&codes[0]).unwrap(), None);
        assert!(token.redeem(&codes[1]).unwrap().is_some());
    }
}
