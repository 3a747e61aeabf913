//! Posts lines to the hub's ingest route.

use crate::{
    client::Client,
    connection::{Connection, RESPONSE_TIMEOUT},
    error::ClientError,
    http::escape,
};

impl Client {
    /// Ingests complete lines of a dialect; lines of a source must be posted in order. Returns once they are stored. `delivery` is
    /// an idempotency key: a batch posted again under the same key is stored once, so a caller without a response can retry.
    ///
    /// # Errors
    ///
    /// The hub cannot be reached or has not stored the lines.
    pub fn hand_over(
        &mut self,
        dialect: &str,
        source: &str,
        delivery: &str,
        lines: &[u8],
    ) -> Result<(), ClientError> {
        let path = format!("/api/v1/ingest/{}?source={}", escape(dialect), escape(source));
        let headers = [("content-type", "application/x-ndjson"), ("x-subscope-delivery", delivery)];
        let reused = self.connection.take();
        let sent =
            reused.map(|connection| self.exchange_with(connection, "POST", &path, &headers, Some(lines)));
        // The hub may have closed the idle connection, which shows only now. The delivery key makes a retry harmless.
        match sent.filter(|answer| !answer.as_ref().is_err_and(ClientError::is_closed)) {
            None => {
                let connection = Connection::open(&self.address, RESPONSE_TIMEOUT)?;
                self.exchange_with(connection, "POST", &path, &headers, Some(lines)).map(drop)
            }
            Some(answer) => answer.map(drop),
        }
    }
}
