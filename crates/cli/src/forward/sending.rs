//! Forwarding state for the hub's page: settings, number of sessions that the server lacks, and an example.

use std::sync::{Mutex, PoisonError};

use subscope_model::{ContentLevel, SENDING_SCHEMA, Sending};
use subscope_store::{Access, OpenError};

use super::{ForwardError, ForwardOptions, SessionForwarder, progress::ForwardProgress, status::status};

/// Settings of forwarding, and the options made from them.
pub(crate) struct SendingSource {
    /// The names of projects and folders are looked up once, for which they are behind a lock.
    options: Mutex<ForwardOptions>,
    settings: Sending,
    progress: ForwardProgress,
}

impl SendingSource {
    /// `settings` has the configured values.
    pub(crate) fn new(options: ForwardOptions, settings: Sending, progress: ForwardProgress) -> Self {
        let (machine, level) = (options.machine.clone(), options.level);
        let settings = Sending { schema: SENDING_SCHEMA.into(), machine, level, ..settings };
        Self { options: Mutex::new(options), settings, progress }
    }

    /// Reads what is sent, with an example at a level; at that of the settings if `None`. Opens no connection.
    ///
    /// # Errors
    /// The store or the record cannot be read.
    pub(crate) fn read(&self, level: Option<ContentLevel>) -> Result<Sending, ForwardError> {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        let options = ForwardOptions { level: level.unwrap_or(options.level), ..options.clone() };
        let url = self.settings.url.as_deref().unwrap_or_default().to_owned();
        let mut sending = Sending { example_level: options.level, ..self.settings.clone() };
        let state = self.progress.state();
        (sending.last_sent_at_ms, sending.error) = (state.last_sent_at_ms, state.error);
        if sending.url.is_some() {
            let known = status(&options.data, &options.rules, &url, sending.level)?;
            sending.is_forwarding = known.is_forwarding;
            let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
            (sending.sent, sending.behind) = (count(known.sent), count(known.behind));
            sending.above_level = count(known.above_level);
        }
        sending.example = match SessionForwarder::open(options, &url, Access::Read) {
            Ok(forwarder) => forwarder.example()?.map(|line| String::from_utf8_lossy(&line).trim().into()),
            Err(ForwardError::Open(OpenError::Missing(_))) => None,
            Err(error) => return Err(error),
        };
        Ok(sending)
    }
}
