//! User of the program at the other end of a connection.
//!
//! Unix sockets report it. For TCP on Linux the kernel is asked for the peer's socket ([`diag`]); where that is not
//! available (some sandboxes) the tables of all sockets with their owners are read, `/proc/net/tcp` and
//! `/proc/net/tcp6` (proc(5); Documentation/networking/proc_net_tcp.rst). On other systems TCP peers count as other
//! users.

#[cfg(target_os = "linux")]
mod diag;

use std::net::{IpAddr, SocketAddr};

use subscope_platform::own_user;

/// Whether this system reports the user of a TCP peer. If not, TCP clients need a token.
pub const IDENTIFIES_TCP_PEERS: bool = cfg!(target_os = "linux");

/// Listener that a connection came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The Unix socket, which browsers cannot use.
    Socket,
    /// TCP, with the local address.
    Tcp(SocketAddr),
}

/// Whether a peer's user is ours; an unknown one is not.
pub(crate) fn is_same_user(uid: Option<u32>) -> bool {
    uid.is_some() && uid == own_user()
}

/// Returns the user id of a local TCP peer. Blocking: may read the kernel's tables.
pub(crate) fn tcp_uid(peer: SocketAddr, ours: SocketAddr) -> Option<u32> {
    #[cfg(target_os = "linux")]
    if let Ok(owner) = diag::owner(peer, ours) {
        return owner;
    }
    let table = |path| std::fs::read_to_string(path).unwrap_or_default();
    // A dual-stack socket is in the second table, with IPv4-mapped addresses.
    owner(&table("/proc/net/tcp"), peer, ours).or_else(|| owner(&table("/proc/net/tcp6"), peer, ours))
}

/// Returns the user of the socket with local address `peer` and remote address `ours`.
fn owner(table: &str, peer: SocketAddr, ours: SocketAddr) -> Option<u32> {
    let (peer, ours) = (table_forms(peer), table_forms(ours));
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is =
            |at: usize, forms: &[String]| forms.iter().any(|form| fields.get(at) == Some(&form.as_str()));
        // A socket without an inode is closed; its row's user means nothing.
        let is_held = fields.get(9).is_some_and(|inode| *inode != "0");
        fields.get(7).filter(|_| is(1, &peer) && is(2, &ours) && is_held)?.parse().ok()
    })
}

/// Returns the forms of an address in the tables: hexadecimal 32-bit words in native byte order.
fn table_forms(address: SocketAddr) -> Vec<String> {
    let form = |octets: &[u8]| {
        let words = octets.as_chunks().0.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
        format!("{}:{:04X}", words.collect::<String>(), address.port())
    };
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => vec![form(&ip.octets()), form(&ip.to_ipv6_mapped().octets())],
        IpAddr::V6(ip) => vec![form(&ip.octets())],
    }
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1CA9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 10001 1
   1: 0100007F:1CA9 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 10002 1
   2: 0100007F:C001 0100007F:1CA9 01 00000000:00000000 00:00000000 00000000  1001        0 10003 1
   3: 0100007F:C002 0100007F:1CA9 06 00000000:00000000 03:00000000 00000000     0        0 0 3
";

    fn of(port: u16) -> Option<u32> {
        owner(TABLE, SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([127, 0, 0, 1], 7337)))
    }

    #[test]
    fn owner_is_that_of_the_other_end_and_not_of_ours() {
        assert_eq!(of(0xC001), Some(1001));
        assert_eq!(of(0xC003), None, "no such connection");
    }

    #[test]
    fn socket_that_nobody_holds_has_no_owner() {
        assert_eq!(of(0xC002), None);
    }

    #[test]
    fn owner_of_mapped_and_real_ipv6() {
        let line =
            |local: &str, remote: &str| format!("h\n 0: {local}:C001 {remote}:1CA9 01 0:0 0:0 0 77 0 5 1\n");
        let mapped = "0000000000000000FFFF00000100007F";
        let (peer, ours) =
            (SocketAddr::from(([127, 0, 0, 1], 0xC001)), SocketAddr::from(([127, 0, 0, 1], 7337)));
        assert_eq!(owner(&line(mapped, mapped), peer, ours), Some(77));
        let six = "00000000000000000000000001000000";
        let at = |port| SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        assert_eq!(owner(&line(six, six), at(0xC001), at(7337)), Some(77));
        assert_eq!(owner(&line(six, six), peer, ours), None);
    }

    #[test]
    fn damaged_tables_name_nobody() {
        for table in ["", "h\n", "h\n0: x y", "h\n0: 0100007F:C001 0100007F:1CA9", "h\n0: Ā:C001 Ā:1CA9 1"]
        {
            let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
            assert_eq!(owner(table, at(0xC001), at(7337)), None, "{table}");
        }
    }
}
