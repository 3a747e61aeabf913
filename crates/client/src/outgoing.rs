//! Connections to other machines: only to a receiver or a team's server that a person names.

use std::time::Duration;

use ureq::{
    Agent,
    http::Uri,
    tls::{RootCerts, TlsConfig},
};

/// Whether a text is an address over HTTP or HTTPS, with a host.
pub(crate) fn is_address(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    })
}

/// Returns what connects: without redirects, with the certificates of the machine (a company may have its own), and with
/// a limit for a request from connecting to the end of the answer.
pub(crate) fn agent(timeout: Duration) -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(timeout))
        .tls_config(tls)
        .user_agent(concat!("subscope/", env!("CARGO_PKG_VERSION")))
        .build();
    config.new_agent()
}
