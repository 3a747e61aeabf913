//! Addresses at which nobody listens.

#![allow(clippy::expect_used)]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// An address of this machine that refuses connections. It is taken: no other program gets its port.
pub struct RefusingAddress(Socket);

impl Default for RefusingAddress {
    fn default() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
        Self(socket)
    }
}

impl RefusingAddress {
    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().ok().and_then(|name| name.as_socket()).expect("an address")
    }

    /// Returns the URL of a server that does not run.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Listens at the address from now on.
    pub fn listen(self) -> TcpListener {
        self.0.listen(128).expect("a socket that can listen");
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
