//! How a harness is pointed at a receiver of OpenTelemetry, and whether it is: for `doctor`.

use jsonc_parser::{ParseOptions, cst::CstRootNode};
use serde_json::Value;

use crate::Variables;

/// Where a harness sends its OpenTelemetry records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtelTarget {
    /// Nowhere.
    Nowhere,
    /// To a receiver, by HTTP or gRPC.
    Receiver(String),
    /// Into a file.
    File(String),
}

/// The settings of a harness that name the receiver of its records.
#[derive(Debug)]
pub struct OtelSetup {
    /// The user's settings file, below the harness's home; `None` if only environment variables set it.
    pub file: Option<&'static str>,
    /// Returns where records go, by the text of that file, empty if there is none, and the environment.
    pub target: fn(&str, Variables<'_>) -> OtelTarget,
    /// Returns what a user has to do so that they go to a hub at a URL; a sentence without its end.
    pub how: fn(&str) -> String,
}

/// Returns JSON with comments as a value; null if it is none.
pub(crate) fn json(text: &str) -> Value {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok();
    root.and_then(|root| root.to_serde_value()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{OtelTarget::*, *};
    use crate::{Harness, harnesses};

    fn target(harness: &str, text: &str, variables: &[(&str, &str)]) -> OtelTarget {
        let harness = harnesses().find(|known| known.name() == harness).unwrap();
        let setup = Harness::otel_setup(harness).unwrap();
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        (setup.target)(text, &variable)
    }

    #[test]
    fn settings_say_where_records_go() {
        let to = |url: &str| Receiver(url.to_owned());
        let claude = r#"{"env": {"CLAUDE_CODE_ENABLE_TELEMETRY": "1", "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:7337"}}"#;
        assert_eq!(target("claude-code", claude, &[]), to("http://127.0.0.1:7337"));
        // Of both, Claude Code takes the settings.
        let other = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert_eq!(target("claude-code", claude, &other), to("http://127.0.0.1:7337"));
        let exported = [
            ("CLAUDE_CODE_ENABLE_TELEMETRY", "1"),
            ("OTEL_TRACES_EXPORTER", "console,otlp"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
        ];
        assert_eq!(target("claude-code", "{}", &exported), to("http://a"));
        for nothing in ["", "{", r#"{"env": {"OTEL_LOGS_EXPORTER": "otlp"}}"#, "[]"] {
            assert_eq!(target("claude-code", nothing, &other), Nowhere, "{nothing}");
        }
        let inline =
            "[otel]\nexporter = { otlp-http = { endpoint = \"http://h/v1/logs\", protocol = \"binary\" } }\n";
        let table = "[otel.exporter.otlp-http]\nendpoint = \"http://h/v1/logs\"\n";
        for text in [inline, table] {
            assert_eq!(target("codex", text, &[]), to("http://h/v1/logs"), "{text}");
        }
        let grpc = "[otel.trace_exporter.otlp-grpc]\nendpoint = \"http://h:4317\"\n";
        assert_eq!(target("codex", grpc, &[]), to("http://h:4317"));
        for nothing in ["", "[otel", "[otel]\nexporter = \"none\"\n", "otel = 3"] {
            assert_eq!(target("codex", nothing, &[]), Nowhere, "{nothing}");
        }
        let gemini =
            r#"{"telemetry": {"enabled": true, "otlpEndpoint": "http://h", "otlpProtocol": "http"} /* x */}"#;
        assert_eq!(target("gemini", gemini, &[]), to("http://h"));
        let file = r#"{"telemetry": {"enabled": true, "outfile": "/tmp/t.log"}}"#;
        assert_eq!(target("gemini", file, &[]), File("/tmp/t.log".to_owned()));
        for nothing in [
            "",
            "{}",
            r#"{"telemetry": {"enabled": false, "otlpEndpoint": "http://h"}}"#,
            r#"{"telemetry": 1}"#,
        ] {
            assert_eq!(target("gemini", nothing, &[]), Nowhere, "{nothing}");
        }
        let copilot = [("COPILOT_OTEL_FILE_EXPORTER_PATH", "/tmp/o.jsonl")];
        assert_eq!(target("copilot", "", &copilot), File("/tmp/o.jsonl".to_owned()));
        assert_eq!(target("copilot", "", &[]), Nowhere);
    }

    #[test]
    fn every_harness_with_records_says_how() {
        for harness in harnesses().filter(|harness| harness.otel().is_some()) {
            let how = (harness.otel_setup().unwrap().how)("http://127.0.0.1:7337");
            assert!(how.contains("http://127.0.0.1:7337") || how.contains("--otel"), "{how}");
        }
    }
}
