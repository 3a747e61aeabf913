//! Look-up of one socket in the kernel (sock_diag(7)): some microseconds, while reading the whole table takes
//! milliseconds.

use std::{io, net::SocketAddr};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP},
    inet::{ExtensionFlags, InetRequest, SocketId, StateFlags},
};
use netlink_sys::{Socket, SocketAddr as Port, protocols::NETLINK_SOCK_DIAG};

/// Matches a socket with any kernel cookie.
const NO_COOKIE: [u8; 8] = [0xFF; 8];

/// Returns the user id of the socket from `local` to `remote`; `None` if there is none or it is closed.
pub(super) fn owner(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&Port::new(0, 0))?;
    let socket_id = SocketId {
        source_port: local.port(),
        destination_port: remote.port(),
        source_address: local.ip(),
        destination_address: remote.ip(),
        interface_id: 0,
        cookie: NO_COOKIE,
    };
    let request = InetRequest {
        family: if local.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (response, _) = socket.recv_from_full()?;
    let response = NetlinkMessage::<SockDiagMessage>::deserialize(&response).map_err(io::Error::other)?;
    if let NetlinkPayload::Error(error) = response.payload {
        let error = error.to_io();
        return if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
    }
    let NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) = response.payload else {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    };
    let id = &found.header.socket_id;
    let is_it = (id.source_port, id.destination_port) == (local.port(), remote.port());
    Ok((is_it && found.header.inode != 0).then_some(found.header.uid))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, TcpListener, TcpStream};

    use super::*;
    use subscope_platform::own_user;

    fn ends(address: SocketAddr) -> (TcpListener, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener, stream)
    }

    #[test]
    fn owner_is_that_of_the_socket_asked_for() {
        for address in [SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))] {
            let (listener, stream) = ends(address);
            let (local, remote) = (stream.local_addr().unwrap(), listener.local_addr().unwrap());
            assert_eq!(owner(local, remote).unwrap(), own_user());
            let mut nobody = local;
            nobody.set_port(1);
            assert_eq!(owner(nobody, remote).unwrap(), None, "no such socket");
        }
    }

    #[test]
    fn owner_of_a_connection_to_a_socket_of_both_families() {
        let listener = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (local, remote) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        assert_eq!(owner(local, remote).unwrap(), own_user());
    }

    #[test]
    fn socket_that_nobody_holds_has_no_owner() {
        let (listener, stream) = ends(SocketAddr::from(([127, 0, 0, 1], 0)));
        let (local, remote) = (stream.local_addr().unwrap(), listener.local_addr().unwrap());
        drop(stream);
        assert_eq!(owner(local, remote).unwrap(), None);
    }
}
