//! Where events are posted: an address of this machine, and no other.

use std::{
    fmt,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
};

/// What an address is followed by.
const ROUTE: &str = "/subagent-events";
/// What HTTP takes where an address names none.
const PORT: u16 = 80;

/// Why nothing can be posted to an address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is of another protocol, or of none.
    #[error("it does not begin with http://")]
    NotHttp,
    /// Events say what an agent reads and writes: they leave the machine for nobody.
    #[error("its host is not this machine: only 127.0.0.1, [::1] and localhost are")]
    NotLoopback,
    /// Something of it cannot be read.
    #[error("its {0} cannot be read")]
    Unreadable(&'static str),
}

/// Where events are posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Where to connect, tried in this order; never empty, all on the loopback.
    pub(super) sockets: Vec<SocketAddr>,
    /// The header `host`.
    pub(super) host: String,
    /// The path of the request.
    pub(super) path: String,
}

impl Target {
    /// Reads an address: `http://`, a host of this machine, a port, and a path in front of the route where there is one.
    pub(super) fn parse(address: &str) -> Result<Self, AddressError> {
        let rest = match address.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case("http://") => address.get(7..).unwrap_or_default(),
            _ => return Err(AddressError::NotHttp),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // Whatever stands in a request's head: no blank, no line end, nothing that a server would cut off.
        if !path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#')) {
            return Err(AddressError::Unreadable("path"));
        }
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix(ROUTE).unwrap_or(path);
        Ok(Self { sockets: sockets(authority)?, host: authority.to_owned(), path: format!("{path}{ROUTE}") })
    }
}

fn sockets(authority: &str) -> Result<Vec<SocketAddr>, AddressError> {
    if let Ok(socket) = authority.parse::<SocketAddr>() {
        return only_loopback(vec![socket]);
    }
    let bare = authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(authority);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return only_loopback(vec![SocketAddr::new(ip, PORT)]);
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| AddressError::Unreadable("port"))?),
        None => (authority, PORT),
    };
    if host.is_empty() {
        return Err(AddressError::Unreadable("host"));
    }
    // No other name is looked up: asking would tell others, too.
    if !host.eq_ignore_ascii_case("localhost") {
        return Err(AddressError::NotLoopback);
    }
    only_loopback(
        ("localhost", port).to_socket_addrs().map_err(|_| AddressError::Unreadable("host"))?.collect(),
    )
}

fn only_loopback(mut sockets: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, AddressError> {
    sockets.retain(|socket| socket.ip().is_loopback());
    if sockets.is_empty() { Err(AddressError::NotLoopback) } else { Ok(sockets) }
}

impl fmt::Display for Target {
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
            let target = Target::parse(address).unwrap();
            assert_eq!(target.to_string(), shown);
            assert!(target.sockets.iter().all(|socket| socket.ip().is_loopback()), "{target:?}");
        }
        assert_eq!(Target::parse("http://127.0.0.1").unwrap().sockets, ["127.0.0.1:80".parse().unwrap()]);
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
            assert_eq!(Target::parse(address), Err(expected), "{address}");
        }
    }
}
