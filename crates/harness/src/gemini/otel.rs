//! `gemini.otel`: the log events of Gemini CLI as OpenTelemetry records. They are those of its telemetry file, and read
//! by the same decoder; spans carry no ids of agents and are skipped.

use serde_json::json;
use subscope_decode::{
    Emitter, Hint, LineDecoder,
    lenient::LineText,
    otlp::{OtelSource, Record, RecordDecoder, Scope},
};
use subscope_model::Decoded;

use super::{OTEL, telemetry::Telemetry};

/// How its records are known.
pub(crate) static RECORDS: OtelSource = OtelSource {
    dialect: OTEL,
    has_scope: |name| name == "gemini-cli" || name.starts_with("gemini_cli"),
    has_service: |name| name == "gemini-cli",
    session: |record| record.attributes()?.text("session.id"),
};

/// Decodes the records of one source.
pub(super) struct Records {
    telemetry: Telemetry,
}

impl Records {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { telemetry: Telemetry::new(hint) }
    }
}

impl RecordDecoder for Records {
    fn source(&self) -> &'static OtelSource {
        &RECORDS
    }

    fn decode(&mut self, _: &Scope, record: &Record, out: &mut Emitter<'_, '_>) {
        let Record::Log(log) = record else { return };
        let mut attributes = log.attributes.to_json();
        attributes["event.name"] = log.name.as_str().into();
        let text = json!({ "attributes": attributes }).to_string();
        let line = LineText { place: out.head.place, text: &text, is_exact: false };
        let identity = log.identity();
        let mut out = out.with(out.head.claim, log.time, Some(&identity));
        let (time, line_id) = (out.head.time, out.head.line_id);
        let mut sink = |decoded: Decoded<'_, '_>| {
            if let Decoded::Observation(seen) = decoded {
                out.relay(seen, time, line_id);
            }
        };
        // The event was serialized above: it is valid JSON.
        let _ = self.telemetry.decode_line(line, &mut sink);
    }
}
