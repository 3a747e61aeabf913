//! Connections to other machines: only to a receiver or a team's server that a person names.

use std::{net::IpAddr, time::Duration};

use ureq::{
    Agent, Proxy,
    http::Uri,
    tls::{RootCerts, TlsConfig},
};

/// Whether a text is an address over HTTP or HTTPS, with a host.
pub(crate) fn is_address(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    })
}

/// Whether an address is this machine's.
fn is_loopback(uri: &Uri) -> bool {
    let Some(host) = uri.host() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let is_local_name =
        host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    is_local_name || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Returns the proxy that the environment names for an address (`ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY`; not for hosts in
/// `NO_PROXY`). Never one for an address of this machine, which a proxy elsewhere cannot reach.
fn proxy_for(url: &str) -> Option<Proxy> {
    let uri = url.parse::<Uri>().ok().filter(|uri| !is_loopback(uri))?;
    Proxy::try_from_env().filter(|proxy| !proxy.is_no_proxy(&uri))
}

/// Returns where the proxy for an address is, for messages: without its user and password.
pub(crate) fn proxy_address(url: &str) -> Option<String> {
    proxy_for(url).map(|proxy| format!("{}:{}", proxy.host(), proxy.port()))
}

/// Returns what connects to an address: without redirects, with the certificates of the machine (a company may have its own), and with
/// a limit for a request from connecting to the end of the answer.
pub(crate) fn agent(url: &str, timeout: Duration) -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(timeout))
        .tls_config(tls)
        .proxy(proxy_for(url))
        .user_agent(concat!("subscope/", env!("CARGO_PKG_VERSION")))
        .build();
    config.new_agent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_have_no_proxy() {
        let is_local = |url: &str| is_loopback(&url.parse().unwrap());
        for local in [
            "http://localhost:4318",
            "http://127.0.0.1:1",
            "http://127.8.9.1",
            "http://[::1]:4318/v1",
            "http://LOCALHOST.",
        ] {
            assert!(is_local(local), "{local}");
        }
        for other in
            ["http://localhost.example.com", "http://10.0.0.1:4318", "https://host", "http://[2001:db8::1]"]
        {
            assert!(!is_local(other), "{other}");
        }
    }
}
