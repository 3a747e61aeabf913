//! An HTTP server on the loopback interface that answers GET with files in memory, and the answers of an npm registry
//! that knows a few packages.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use serde_json::{Value, json};

/// Longest request that is read, in bytes.
const REQUEST_LIMIT: u64 = 64 * 1024;

/// Serves until the task ends.
pub(super) struct Server {
    address: SocketAddr,
}

impl Server {
    /// Serves each path with its bytes.
    pub(super) fn start(routes: BTreeMap<String, Vec<u8>>) -> Result<Self> {
        Self::start_with(|_| Ok(routes))
    }

    /// Serves paths that depend on the server's own address.
    fn start_with(routes: impl FnOnce(&str) -> Result<BTreeMap<String, Vec<u8>>>) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on the loopback interface")?;
        let server = Self { address: listener.local_addr()? };
        let routes = Arc::new(routes(&server.url())?);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let routes = Arc::clone(&routes);
                // A client that hangs up early is its own affair.
                thread::spawn(move || answer(&connection, &routes).ok());
            }
        });
        Ok(server)
    }

    /// Without a slash at its end.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Serves npm packages from their files, as a registry does.
pub(super) fn registry_routes(packages: &[PathBuf]) -> Result<Server> {
    Server::start_with(|url| {
        let mut routes = BTreeMap::new();
        for (number, path) in packages.iter().enumerate() {
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let manifest =
                manifest(&bytes).with_context(|| format!("{} has no package.json", path.display()))?;
            let name = manifest["name"].as_str().context("a package without a name")?.to_owned();
            let version = manifest["version"].as_str().context("a package without a version")?.to_owned();
            let place = format!("/files/{number}.tgz");
            let mut described = manifest;
            described["dist"] = json!({ "tarball": format!("{url}{place}") });
            let versions: serde_json::Map<String, Value> =
                [(version.clone(), described)].into_iter().collect();
            let document = json!({ "name": name, "dist-tags": { "latest": version }, "versions": versions });
            routes.insert(format!("/{}", name.replace('/', "%2f")), document.to_string().into_bytes());
            routes.insert(place, bytes);
        }
        Ok(routes)
    })
}

/// Returns the manifest in a package's file.
fn manifest(package: &[u8]) -> Result<Value> {
    let mut tar = tar::Archive::new(GzDecoder::new(package));
    for entry in tar.entries()? {
        let entry = entry?;
        if entry.path()?.as_os_str() == "package/package.json" {
            return Ok(serde_json::from_reader(entry)?);
        }
    }
    anyhow::bail!("its tar has no package/package.json")
}

fn answer(mut connection: &TcpStream, routes: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let mut lines = BufReader::new(connection.take(REQUEST_LIMIT)).lines();
    let first = lines.next().context("no request")??;
    // The head ends at an empty line; what is asked here has no body.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_ascii_lowercase();
    let found = routes.iter().find(|(route, _)| route.to_ascii_lowercase() == path);
    let (status, body) =
        found.map_or(("404 Not Found", b"{}".as_slice()), |(_, body)| ("200 OK", body.as_slice()));
    let length = body.len();
    write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
    connection.write_all(body)?;
    Ok(())
}
