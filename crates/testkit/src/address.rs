//! Addresses at which nobody listens.

#![allow(clippy::expect_used)]

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::OwnedFd,
};

use rustix::net;

/// An address of this machine that refuses connections. It is taken: no other program gets its port.
pub struct RefusingAddress(OwnedFd);

impl Default for RefusingAddress {
    fn default() -> Self {
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).expect("a socket");
        net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        Self(socket)
    }
}

impl RefusingAddress {
    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        net::getsockname(&self.0).ok().and_then(|name| SocketAddr::try_from(name).ok()).expect("an address")
    }

    /// Returns the URL of a server that does not run.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Listens at the address from now on.
    pub fn listen(self) -> TcpListener {
        net::listen(&self.0, 128).expect("a socket that can listen");
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, net::TcpStream};

    use super::*;

    #[test]
    fn it_refuses_until_it_listens_and_nobody_else_can() {
        let refusing = RefusingAddress::default();
        let address = refusing.address();
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(TcpListener::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
        let _listener = refusing.listen();
        assert!(TcpStream::connect(address).is_ok());
    }
}
