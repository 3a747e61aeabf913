//! Parses the listener's address; only loopback addresses are allowed.

use std::{
    fmt,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
};

/// Route appended to the address.
const ROUTE: &str = "/subagent-events";
/// Default port of HTTP.
const DEFAULT_PORT: u16 = 80;

/// Error of an address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The scheme is not `http://`.
    #[error("it does not begin with http://")]
    NotHttp,
    /// The host is not the loopback: events contain what an agent reads and writes, and must not leave the machine.
    #[error("its host is not this machine: only 127.0.0.1, [::1] and localhost are")]
    NotLoopback,
    /// A part is invalid: host, port or path.
    #[error("its {0} cannot be read")]
    Unreadable(&'static str),
}

/// A parsed listener address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenerAddress {
    /// Loopback addresses to try, in this order; not empty.
    pub(super) sockets: Vec<SocketAddr>,
    /// Value of the `host` header.
    pub(super) host: String,
    /// Request path.
    pub(super) path: String,
}

impl ListenerAddress {
    /// Parses `http://HOST[:PORT][/PATH]`; the path is a prefix of the route, or includes it.
    pub(super) fn parse(address: &str) -> Result<Self, AddressError> {
        let rest = match address.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case("http://") => address.get(7..).unwrap_or_default(),
            _ => return Err(AddressError::NotHttp),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // The path is copied into the request head: no blanks, no line ends, no query or fragment.
        if !path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#')) {
            return Err(AddressError::Unreadable("path"));
        }
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix(ROUTE).unwrap_or(path);
        Ok(Self { sockets: sockets(authority)?, host: authority.to_owned(), path: format!("{path}{ROUTE}") })
    }
}

fn sockets(authority: &str) -> Result<Vec<SocketAddr>, AddressError> {
    let bare = authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(authority);
    let mut sockets = if let Ok(socket) = authority.parse::<SocketAddr>() {
        vec![socket]
    } else if let Ok(ip) = bare.parse::<IpAddr>() {
        vec![SocketAddr::new(ip, DEFAULT_PORT)]
    } else {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| AddressError::Unreadable("port"))?),
            None => (authority, DEFAULT_PORT),
        };
        if host.is_empty() {
            return Err(AddressError::Unreadable("host"));
        }
        // No other name is resolved: a DNS query would leak it.
        if !host.eq_ignore_ascii_case("localhost") {
            return Err(AddressError::NotLoopback);
        }
        ("localhost", port).to_socket_addrs().map_err(|_| AddressError::Unreadable("host"))?.collect()
    };
    sockets.retain(|socket| socket.ip().is_loopback());
    if sockets.is_empty() { Err(AddressError::NotLoopback) } else { Ok(sockets) }
}

impl fmt::Display for ListenerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_read() {
        for (address, shown) in [
            ("http://127.0.0.1:7337", "http://127.0.0.1:7337/subagent-events"),
            ("HTTP://127.0.0.2:1/", "http://127.0.0.2:1/subagent-events"),
            ("http://[::1]:80/base/", "http://[::1]:80/base/subagent-events"),
            ("http://[::1]", "http://[::1]/subagent-events"),
            ("http://127.0.0.1", "http://127.0.0.1/subagent-events"),
            ("http://localhost:9/subagent-events", "http://localhost:9/subagent-events"),
        ] {
            let target = ListenerAddress::parse(address).unwrap();
            assert_eq!(target.to_string(), shown);
            assert!(target.sockets.iter().all(|socket| socket.ip().is_loopback()), "{target:?}");
        }
        assert_eq!(
            ListenerAddress::parse("http://127.0.0.1").unwrap().sockets,
            ["127.0.0.1:80".parse().unwrap()]
        );
    }

    #[test]
    fn other_addresses_are_refused_with_the_reason() {
        for (address, expected) in [
            ("127.0.0.1:7337", AddressError::NotHttp),
            ("https://127.0.0.1:7337", AddressError::NotHttp),
            ("", AddressError::NotHttp),
            ("http://10.0.0.1:80", AddressError::NotLoopback),
            ("http://[fe80::1]:80", AddressError::NotLoopback),
            ("http://0.0.0.0:80", AddressError::NotLoopback),
            ("http://example.com", AddressError::NotLoopback),
            ("http://localhost.example.com:80", AddressError::NotLoopback),
            ("http://me@127.0.0.1:80", AddressError::NotLoopback),
            ("http://:80", AddressError::Unreadable("host")),
            ("http://localhost:http", AddressError::Unreadable("port")),
            ("http://127.0.0.1:1/a?b", AddressError::Unreadable("path")),
            ("http://127.0.0.1:1/a\r\nx: y", AddressError::Unreadable("path")),
        ] {
            assert_eq!(ListenerAddress::parse(address), Err(expected), "{address}");
        }
    }
}
