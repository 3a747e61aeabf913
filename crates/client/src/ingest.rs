//! Handing lines over, to be kept.

use crate::{
    client::Client,
    connection::{Connection, PATIENCE},
    error::ClientError,
    http::escape,
};

impl Client {
    /// Hands over whole lines of a dialect, in order within their source; it answers once they are kept. `delivery` names
    /// them: what comes again with the same name is taken once, so that whoever gets no answer can hand it over again.
    ///
    /// # Errors
    ///
    /// Where the hub is gone or does not keep it.
    pub fn hand_over(
        &mut self,
        dialect: &str,
        source: &str,
        delivery: &str,
        lines: &[u8],
    ) -> Result<(), ClientError> {
        let path = format!("/api/v1/ingest/{}?source={}", escape(dialect), escape(source));
        let headers = [("content-type", "application/x-ndjson"), ("x-subscope-delivery", delivery)];
        let kept = self.connection.take();
        let sent =
            kept.map(|connection| self.exchange_with(connection, "POST", &path, &headers, Some(lines)));
        // A hub closes what is idle: whether it did is known only now. Its name makes a second time harmless.
        match sent.filter(|answer| !answer.as_ref().is_err_and(ClientError::is_closed)) {
            None => {
                let connection = Connection::open(&self.address, PATIENCE)?;
                self.exchange_with(connection, "POST", &path, &headers, Some(lines)).map(drop)
            }
            Some(answer) => answer.map(drop),
        }
    }
}
