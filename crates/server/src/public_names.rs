//! Names under which a port forward or a reverse proxy reaches this server, and pages that may show its page in a frame.

use std::fmt;

use axum::http::{Uri, uri::Authority};

/// What the server answers to besides its own address. Whoever can use such a name is another's decision, so the server
/// requires a token then.
#[derive(Clone, Debug, Default)]
pub struct PublicNames {
    /// Address of the page as browsers see it, without a slash at the end.
    url: Option<String>,
    /// Values of `Host`: a name, with a port where the browser names one.
    hosts: Vec<String>,
    /// Sources of the directive `frame-ancestors` (Content Security Policy Level 3).
    frame_ancestors: Vec<String>,
}

/// Error of a public name; a phrase about it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicNameError {
    /// No address of a page.
    #[error("{0:?} is not the address of a page: write https://HOST/ or https://HOST/PATH/")]
    Url(String),
    /// No host.
    #[error("{0:?} is not a host: write HOST or HOST:PORT")]
    Host(String),
    /// Neither an origin nor a scheme.
    #[error("{0:?} is not a page that may show this one: write https://HOST, vscode-webview: or 'self'")]
    Ancestor(String),
}

impl PublicNames {
    /// Checks the names.
    ///
    /// # Errors
    /// The first that is not understood.
    pub fn new(
        url: Option<&str>,
        hosts: &[String],
        frame_ancestors: &[String],
    ) -> Result<Self, PublicNameError> {
        let mut names = Self { url: None, hosts: hosts.to_vec(), frame_ancestors: frame_ancestors.to_vec() };
        if let Some(other) = hosts.iter().find(|host| !is_host(host)) {
            return Err(PublicNameError::Host(other.clone()));
        }
        if let Some(other) = frame_ancestors.iter().find(|source| !is_source(source)) {
            return Err(PublicNameError::Ancestor(other.clone()));
        }
        if let Some(url) = url {
            let host = host_of(url).ok_or_else(|| PublicNameError::Url(url.to_owned()))?;
            names.hosts.push(host);
            names.url = Some(url.trim_end_matches('/').to_owned());
        }
        Ok(names)
    }

    /// Whether others than this user's programs may reach the server by a name.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Address of the page as browsers see it, if it is known.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Whether a value of `Host` is one of the names.
    pub(crate) fn has_host(&self, host: &[u8]) -> bool {
        self.hosts.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host))
    }

    /// Whether a value of `Origin` is that of a page under one of the names.
    pub(crate) fn has_origin(&self, origin: &[u8]) -> bool {
        let host = origin.strip_prefix(b"https://").or_else(|| origin.strip_prefix(b"http://"));
        host.is_some_and(|host| self.has_host(host))
    }

    /// Whether another page may show this one in a frame.
    pub(crate) fn has_frames(&self) -> bool {
        !self.frame_ancestors.is_empty()
    }

    /// Returns the sources of `frame-ancestors`.
    pub(crate) fn frame_ancestors(&self) -> impl fmt::Display {
        if self.frame_ancestors.is_empty() { "'none'".to_owned() } else { self.frame_ancestors.join(" ") }
    }
}

/// Returns the value of `Host` for an address of a page.
fn host_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let host = uri.authority()?.as_str();
    (is_web && uri.query().is_none() && is_host(host)).then(|| host.to_owned())
}

fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let parsed = text.parse::<Authority>();
    text.bytes().all(is_plain) && parsed.is_ok_and(|authority| !authority.host().is_empty())
}

/// Whether a text is `'self'`, a scheme with its colon, or an origin: nothing that begins another directive.
fn is_source(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    match text.split_once(':') {
        Some((scheme, "")) => is_name(scheme),
        Some((scheme, rest)) => {
            let host = rest.strip_prefix("//").map(|host| host.strip_prefix("*.").unwrap_or(host));
            is_name(scheme) && host.is_some_and(is_host)
        }
        None => text == "'self'",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(url: &str) -> Result<PublicNames, PublicNameError> {
        PublicNames::new(Some(url), &[], &[])
    }

    #[test]
    fn address_gives_host_and_origin() {
        for (url, host) in [
            ("https://x.app.github.dev/", "x.app.github.dev"),
            ("https://box.example/proxy/7337/", "box.example"),
            ("http://localhost:8000", "localhost:8000"),
            ("https://[::1]:8443/", "[::1]:8443"),
        ] {
            let names = names(url).unwrap();
            assert!(names.has_host(host.to_uppercase().as_bytes()) && !names.is_empty(), "{url}");
            for scheme in ["http", "https"] {
                assert!(names.has_origin(format!("{scheme}://{host}").as_bytes()), "{url}");
            }
            for other in ["null", "file://", "https://evil.example", host] {
                assert!(!names.has_origin(other.as_bytes()), "{url} {other}");
            }
            for other in
                [format!("{host}.evil.example"), format!("evil.{host}"), format!("{host}:1"), String::new()]
            {
                assert!(!names.has_host(other.as_bytes()), "{url} {other}");
            }
            assert!(!names.url().unwrap().ends_with('/'));
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for url in ["x.app.github.dev", "ftp://x", "https://", "https://a@b/", "https://x/?q=1", "", "/x"] {
            assert_eq!(names(url).unwrap_err(), PublicNameError::Url(url.to_owned()));
        }
        for host in ["", "a/b", "https://a", "a b", "u@a"] {
            let refused = PublicNames::new(None, &[host.to_owned()], &[]).unwrap_err();
            assert_eq!(refused, PublicNameError::Host(host.to_owned()));
        }
        for source in
            ["", "*", "'none'; script-src *", "https://a b", "https://", "a.example", "x y:", "https://a;"]
        {
            let refused = PublicNames::new(None, &[], &[source.to_owned()]).unwrap_err();
            assert_eq!(refused, PublicNameError::Ancestor(source.to_owned()));
        }
    }

    #[test]
    fn frames_are_only_for_those_named() {
        assert_eq!(PublicNames::default().frame_ancestors().to_string(), "'none'");
        let named = ["vscode-webview:", "https://*.example.com", "'self'"].map(str::to_owned);
        let names = PublicNames::new(None, &[], &named).unwrap();
        assert_eq!(names.frame_ancestors().to_string(), "vscode-webview: https://*.example.com 'self'");
        assert!(names.is_empty() && names.has_frames(), "a frame needs no name");
    }
}
