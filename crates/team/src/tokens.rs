//! Authorization: the token file, and the codes and cookies that browsers get in exchange for a token.
//!
//! A line of the file is `SHA256-hex tenant user role [team]`; `#` begins a comment. The file is read again when it
//! changes: deleting a line revokes its token. Codes and cookies are signed with the hash of the token that they were
//! made for, so that every server knows them and they end with their token's line. A server notes the codes that were
//! used with it, until they are too old.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    fs, io,
    net::IpAddr,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use clap::ValueEnum as _;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subscope_hub::clock;
use subscope_program::TokenRole;
use subscope_server::random_hex;

/// Begin of every token: what scanners for secrets look for.
const PREFIX: &str = "sst_";
/// How often the file is looked at, at most.
const REREAD: Duration = Duration::from_secs(1);
/// Largest token file: some thousand users have a few hundred kilobytes.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Time within which a code is used.
const CODE_SECONDS: i64 = 300;
/// Lifetime of a browser's cookie.
const COOKIE_SECONDS: i64 = 30 * 86_400;
/// Wrong tokens of one address within [`WRONG_SPAN`] from which on it is refused with 429.
const MAX_WRONG: u32 = 100;
const WRONG_SPAN: Duration = Duration::from_secs(60);
/// Most addresses that are remembered for wrong tokens.
const MAX_ADDRESSES: usize = 10_000;
/// Characters of a token's hash by which a code names it.
const ID_CHARS: usize = 16;

/// A tenant: made from a token's line only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The owner of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The tenant whose rows are read and written.
    pub tenant: Tenant,
    /// The user.
    pub user: String,
    /// What the user may do.
    pub role: TokenRole,
    /// The user's team; empty if there is none.
    pub team: String,
}

/// Error of reading a token file.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot read the token file {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Other users can read it.
    #[error("{} is not this user's alone: make it so with chmod 600", .0.display())]
    Open(PathBuf),
    /// A line has no valid token entry.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// There is no token in it.
    #[error("{} has no token: `subscope team token new` makes one", .0.display())]
    Empty(PathBuf),
}

struct TokenLine {
    hash: [u8; 32],
    identity: Identity,
}

/// What identifies a version of the file.
type FileState = (i64, i64, u64, u64);

struct LoadedTokens {
    entries: Arc<[TokenLine]>,
    state: FileState,
    looked_at: Instant,
}

/// The tokens of a file, read again when it changes: every check may read a file.
pub struct TokenFile {
    path: PathBuf,
    loaded: Mutex<LoadedTokens>,
    wrong: Mutex<HashMap<IpAddr, (Instant, u32)>>,
    /// Codes that this server has redeemed.
    used: Mutex<HashSet<String>>,
}

/// Result of checking a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Known(Identity),
    Unknown,
    /// Too many unknown ones came from its address.
    TooMany,
}

/// Returns a new token and its line for the token file.
///
/// # Errors
/// The system has no random bytes, or a name is empty or has spaces.
pub fn new_token(
    tenant: &str,
    user: &str,
    role: TokenRole,
    team: Option<&str>,
) -> io::Result<(String, String)> {
    let names = [Some(tenant), Some(user), team];
    if names.into_iter().flatten().any(|name| !is_name(name)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name is one word without #"));
    }
    let token = format!("{PREFIX}{}", random_hex()?);
    let mut line = format!("{} {tenant} {user} {}", hex(&hash_of(&token)), role.as_str());
    if let Some(team) = team {
        line += &format!(" {team}");
    }
    Ok((token, line))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 100
        && name.chars().all(|one| !one.is_whitespace() && !one.is_control() && one != '#')
}

fn hash_of(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Compares in constant time.
fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    std::hint::black_box(one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other))) == 0
}

impl TokenFile {
    /// Reads a token file, which must have mode 0600 and a token.
    ///
    /// # Errors
    /// [`TokenFileError`].
    pub fn open(path: &Path) -> Result<Self, TokenFileError> {
        let (entries, state, wrong) = read(path)?;
        if let Some(wrong) = wrong.into_iter().next() {
            return Err(wrong);
        }
        if entries.is_empty() {
            return Err(TokenFileError::Empty(path.to_owned()));
        }
        let loaded = LoadedTokens { entries: entries.into(), state, looked_at: clock::tick() };
        Ok(Self {
            path: path.to_owned(),
            loaded: Mutex::new(loaded),
            wrong: Mutex::default(),
            used: Mutex::default(),
        })
    }

    /// Calls `find` with the current entries; again with new ones if it finds nothing and the file has just changed.
    fn with_entries<T>(&self, find: impl Fn(&[TokenLine]) -> Option<T>) -> Option<T> {
        find(&self.entries(REREAD)).or_else(|| find(&self.entries(Duration::ZERO)))
    }

    fn lock(&self) -> MutexGuard<'_, LoadedTokens> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current entries. Reads the file again if it has changed and was not looked at for a while; others go on
    /// with the entries read before.
    fn entries(&self, at_most_every: Duration) -> Arc<[TokenLine]> {
        let known = {
            let mut loaded = self.lock();
            if loaded.looked_at.elapsed() < at_most_every {
                return Arc::clone(&loaded.entries);
            }
            loaded.looked_at = clock::tick();
            loaded.state
        };
        if !state_of(&self.path).is_ok_and(|state| state == known) {
            match read(&self.path) {
                // An invalid line gives no token and does not prevent revocation: tokens of deleted lines are revoked.
                Ok((entries, state, wrong)) => {
                    wrong.iter().for_each(|error| tracing::warn!("a token is left out: {error}"));
                    let mut loaded = self.lock();
                    (loaded.entries, loaded.state) = (entries.into(), state);
                }
                Err(error) => tracing::warn!("the tokens read before stay valid: {error}"),
            }
        }
        Arc::clone(&self.lock().entries)
    }

    /// Returns the owner of a token.
    pub fn identity(&self, token: &str) -> Option<Identity> {
        let hash = hash_of(token);
        self.with_entries(|entries| {
            let mut found = None;
            // Compare all of them, so that the time reveals nothing.
            for entry in entries {
                if is_equal(&entry.hash, &hash) {
                    found = Some(entry.identity.clone());
                }
            }
            found
        })
    }

    /// Returns the owner of a token that came from an address.
    pub(crate) fn show(&self, token: &str, from: IpAddr) -> Shown {
        match self.identity(token) {
            Some(identity) => Shown::Known(identity),
            None if self.counts_wrong(from) > MAX_WRONG => Shown::TooMany,
            None => Shown::Unknown,
        }
    }

    /// Counts a wrong token of an address; returns how many it has sent within the span.
    fn counts_wrong(&self, from: IpAddr) -> u32 {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() >= MAX_ADDRESSES {
            wrong.retain(|_, (since, _)| since.elapsed() < WRONG_SPAN);
        }
        if wrong.len() >= MAX_ADDRESSES {
            wrong.clear();
        }
        let (since, count) = wrong.entry(from).or_insert((clock::tick(), 0));
        if since.elapsed() >= WRONG_SPAN {
            (*since, *count) = (clock::tick(), 0);
        }
        *count += 1;
        *count
    }

    /// Returns a code that lets one browser in as the owner of a token.
    pub(crate) fn code(&self, token: &str) -> io::Result<Option<String>> {
        let hash = hash_of(token);
        if self.identity(token).is_none() {
            return Ok(None);
        }
        let nonce: String = random_hex()?.chars().take(16).collect();
        Ok(Some(signed(&hash, &format!("code.{nonce}"), CODE_SECONDS)))
    }

    /// Redeems a code for a cookie's value; `None` if it is none, too old, or was used on this server.
    pub(crate) fn redeem(&self, code: &str) -> Option<String> {
        let (hash, _) = self.verified(code, "code")?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|code| expiry_of(code).is_some_and(|expiry| expiry > now_seconds()));
        used.insert(code.to_owned()).then(|| signed(&hash, "cookie.0", COOKIE_SECONDS))
    }

    /// Returns the owner of a cookie.
    pub(crate) fn of_cookie(&self, value: &str) -> Option<Identity> {
        self.verified(value, "cookie").map(|(_, identity)| identity)
    }

    /// Checks the signature and the age of a code or cookie.
    fn verified(&self, text: &str, kind: &str) -> Option<([u8; 32], Identity)> {
        let (content, signature) = text.rsplit_once('.')?;
        let signature = from_hex(signature)?;
        let id = content.split('.').nth(3)?;
        if !content.starts_with(&format!("{kind}.")) || expiry_of(text)? <= now_seconds() {
            return None;
        }
        self.with_entries(|entries| {
            let entry =
                entries.iter().find(|entry| hex(&entry.hash).starts_with(id) && id.len() == ID_CHARS)?;
            is_equal(&signature_of(&entry.hash, content), &signature)
                .then(|| (entry.hash, entry.identity.clone()))
        })
    }
}

fn now_seconds() -> i64 {
    clock::now_ms() / 1000
}

/// Returns `KIND.NONCE.EXPIRY.ID.SIGNATURE`.
fn signed(hash: &[u8; 32], head: &str, seconds: i64) -> String {
    let id: String = hex(hash).chars().take(ID_CHARS).collect();
    let content = format!("{head}.{}.{id}", now_seconds() + seconds);
    let signature = hex(&signature_of(hash, &content));
    format!("{content}.{signature}")
}

fn expiry_of(text: &str) -> Option<i64> {
    text.split('.').nth(2)?.parse().ok()
}

fn signature_of(key: &[u8; 32], content: &str) -> [u8; 32] {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("any length");
    mac.update(content.as_bytes());
    mac.finalize().into_bytes().into()
}

fn state_of(path: &Path) -> io::Result<FileState> {
    let found = fs::metadata(path)?;
    Ok((found.mtime(), found.mtime_nsec(), found.ino(), found.len()))
}

/// Returns the tokens of a file, its state, and the errors of its wrong lines.
fn read(path: &Path) -> Result<(Vec<TokenLine>, FileState, Vec<TokenFileError>), TokenFileError> {
    let file_error = |source| TokenFileError::File { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(file_error)?;
    if !found.is_file() || found.permissions().mode() & 0o077 != 0 {
        return Err(TokenFileError::Open(path.to_owned()));
    }
    if found.len() > MAX_FILE_BYTES {
        return Err(file_error(io::Error::new(io::ErrorKind::InvalidData, "it is too large")));
    }
    let state = state_of(path).map_err(file_error)?;
    let text = fs::read_to_string(path).map_err(file_error)?;
    let (mut entries, mut wrong) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(text.lines()) {
        match parse_line(text) {
            Ok(entry) => entries.extend(entry),
            Err(what) => wrong.push(TokenFileError::Line { path: path.to_owned(), line, what }),
        }
    }
    Ok((entries, state, wrong))
}

/// Returns the token of a line; `None` for a comment or an empty line.
fn parse_line(text: &str) -> Result<Option<TokenLine>, &'static str> {
    let text = text.split('#').next().unwrap_or_default();
    let mut words = text.split_whitespace();
    let Some(hash) = words.next() else { return Ok(None) };
    let hash = from_hex(hash).ok_or("it begins with no SHA-256 in hexadecimal digits")?;
    let (Some(tenant), Some(user), Some(role)) = (words.next(), words.next(), words.next()) else {
        return Err("it is not: SHA256 TENANT USER ROLE [TEAM]");
    };
    let role = TokenRole::from_str(role, false).map_err(|_| "the role is none of writer, reader, admin")?;
    let team = words.next().unwrap_or_default().to_owned();
    let identity = Identity { tenant: Tenant(tenant.into()), user: user.to_owned(), role, team };
    Ok(Some(TokenLine { hash, identity }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn file(lines: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        write(&path, lines);
        (folder, path)
    }

    fn write(path: &Path, lines: &str) {
        let mut file = fs::File::create(path).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }

    #[test]
    fn token_is_known_by_its_hash_until_its_line_is_deleted() {
        let (token, line) = new_token("acme", "ana", TokenRole::Writer, Some("web")).unwrap();
        let (other, _) = new_token("acme", "ana", TokenRole::Admin, None).unwrap();
        assert!(token.starts_with("sst_") && !line.contains(&token) && token != other);
        let (_folder, path) = file(&format!("# who\n{line} # laptop\n\n"));
        let tokens = TokenFile::open(&path).unwrap();
        let Shown::Known(identity) = tokens.show(&token, HERE) else { panic!("unknown") };
        assert_eq!(
            (identity.tenant.as_str(), &*identity.user, identity.role, &*identity.team),
            ("acme", "ana", TokenRole::Writer, "web")
        );
        for wrong in [&*other, "", &line, &token[..token.len() - 1], &format!("{token} ")] {
            assert_eq!(tokens.show(wrong, HERE), Shown::Unknown, "{wrong}");
        }
        let code = tokens.code(&token).unwrap().unwrap();
        let cookie = tokens.redeem(&code).unwrap();
        assert_eq!(tokens.of_cookie(&cookie).map(|identity| identity.user).as_deref(), Some("ana"));
        write(&path, &line.replace(" ana ", " bob "));
        tokens.loaded.lock().unwrap().looked_at -= REREAD;
        let Shown::Known(identity) = tokens.show(&token, HERE) else { panic!("unknown") };
        assert_eq!(identity.user, "bob");
        write(&path, "# nobody\n");
        tokens.loaded.lock().unwrap().looked_at -= REREAD;
        assert_eq!(tokens.show(&token, HERE), Shown::Unknown);
        assert_eq!(tokens.of_cookie(&cookie), None, "the cookie ends with its token");
    }

    #[test]
    fn codes_are_used_once_and_cannot_be_made_up() {
        let (token, line) = new_token("acme", "ana", TokenRole::Reader, None).unwrap();
        let (_folder, path) = file(&line);
        let tokens = TokenFile::open(&path).unwrap();
        let code = tokens.code(&token).unwrap().unwrap();
        assert!(tokens.of_cookie(&code).is_none(), "a code is no cookie");
        let cookie = tokens.redeem(&code).unwrap();
        assert_eq!(tokens.redeem(&code), None, "used");
        assert!(tokens.redeem(&cookie).is_none(), "a cookie is no code");
        let another = TokenFile::open(&path).unwrap();
        assert!(another.of_cookie(&cookie).is_some(), "every server knows it");
        let later = cookie.replace(&expiry_of(&cookie).unwrap().to_string(), "9999999999");
        for wrong in [
            "",
            ".",
            "cookie.0.9.0.0",
            &later,
            &cookie[..cookie.len() - 1],
            &cookie.replace("cookie", "code"),
        ] {
            assert!(tokens.of_cookie(wrong).is_none(), "{wrong}");
        }
        let hash = hash_of(&token);
        assert!(tokens.of_cookie(&signed(&hash, "cookie.0", -1)).is_none(), "too old");
        assert_eq!(tokens.code("sst_none").unwrap(), None);
    }

    #[test]
    fn files_of_everybody_and_wrong_lines_are_refused() {
        let (_, line) = new_token("acme", "ana", TokenRole::Reader, None).unwrap();
        let (_folder, path) = file(&line);
        for mode in [0o644, 0o640, 0o604] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(TokenFile::open(&path), Err(TokenFileError::Open(_))), "{mode:o}");
        }
        for (text, line) in
            [("abc acme ana reader", 1), ("\n# x\nzz", 3), (&*line.replace("reader", "root"), 1)]
        {
            write(&path, text);
            let Err(TokenFileError::Line { line: found, .. }) = TokenFile::open(&path) else {
                panic!("{text}")
            };
            assert_eq!(found, line, "{text}");
        }
        write(&path, "# nothing\n");
        assert!(matches!(TokenFile::open(&path), Err(TokenFileError::Empty(_))));
    }

    #[test]
    fn a_wrong_line_beside_a_deleted_one_keeps_no_token() {
        let (deleted, line) = new_token("acme", "ana", TokenRole::Reader, None).unwrap();
        let (kept, other) = new_token("acme", "bob", TokenRole::Reader, None).unwrap();
        let (_folder, path) = file(&format!("{line}\n{other}\n"));
        let tokens = TokenFile::open(&path).unwrap();
        assert!(tokens.identity(&deleted).is_some() && tokens.identity(&kept).is_some());
        write(&path, &format!("{other}\nabc acme cid reader\n"));
        tokens.loaded.lock().unwrap().looked_at -= REREAD;
        assert_eq!(tokens.identity(&deleted), None);
        assert!(tokens.identity(&kept).is_some());
    }

    #[test]
    fn names_of_tokens_are_one_word() {
        assert!(new_token("a b", "c", TokenRole::Reader, None).is_err());
    }

    #[test]
    fn too_many_wrong_tokens_of_an_address_are_refused_and_the_right_one_is_not() {
        let (token, line) = new_token("acme", "ana", TokenRole::Reader, None).unwrap();
        let (_folder, path) = file(&line);
        let tokens = TokenFile::open(&path).unwrap();
        for _ in 0..MAX_WRONG {
            assert_eq!(tokens.show("sst_wrong", HERE), Shown::Unknown);
        }
        assert_eq!(tokens.show("sst_wrong", HERE), Shown::TooMany);
        assert!(matches!(tokens.show(&token, HERE), Shown::Known(_)));
        assert_eq!(tokens.show("sst_wrong", IpAddr::from([10, 0, 0, 1])), Shown::Unknown);
    }
}
