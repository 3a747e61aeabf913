//! The fields of a line by which programs are known that write the lines of a harness, or lines like them.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use subscope_decode::lenient::{Num, Str};

use crate::recognize::text_of;

/// The fields by which lines are known.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct Marks<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Str<'a>,
    pub(crate) subtype: Str<'a>,
    pub(crate) id: Str<'a>,
    pub(crate) uuid: Str<'a>,
    pub(crate) session_id: Str<'a>,
    #[serde(rename = "sessionId")]
    pub(crate) session: Str<'a>,
    pub(crate) cwd: Str<'a>,
    pub(crate) ts: Num,
    pub(crate) say: Str<'a>,
    pub(crate) ask: Str<'a>,
    pub(crate) role: Str<'a>,
    pub(crate) message: Option<&'a RawValue>,
    pub(crate) tools: Option<&'a RawValue>,
    #[serde(rename = "apiKeySource")]
    pub(crate) api_key: Str<'a>,
    pub(crate) protocol_version: Option<IgnoredAny>,
    pub(crate) tool_call: Option<IgnoredAny>,
    pub(crate) call_id: Str<'a>,
    #[serde(rename = "toolId")]
    pub(crate) tool_id: Str<'a>,
    #[serde(rename = "finalText")]
    pub(crate) final_text: Option<IgnoredAny>,
    pub(crate) payload: Option<&'a RawValue>,
    pub(crate) credits: Option<IgnoredAny>,
    pub(crate) original_credits: Option<IgnoredAny>,
    pub(crate) billable: Option<IgnoredAny>,
    version: Str<'a>,
    pub(crate) model: Str<'a>,
    pub(crate) usage: Option<&'a RawValue>,
    pub(crate) content: Option<IgnoredAny>,
    pub(crate) metadata: Option<IgnoredAny>,
}

/// What a request cost, in a line or in the usage of its message.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Bill {
    credits: Option<IgnoredAny>,
    original_credits: Option<IgnoredAny>,
    billable: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Billed {
    usage: Bill,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Inner<'a> {
    originator: Str<'a>,
    model_provider: Str<'a>,
}

impl Marks<'_> {
    /// Whether it is the first line of a stream in the form of other harnesses', which give it an id.
    pub(crate) fn opens_other_stream(&self) -> bool {
        self.kind.is("system") && self.subtype.is("init") && self.uuid.filled().is_none()
    }

    /// Whether it is a transcript's line of a request that cost credits: it says so, or the usage of its message does.
    pub(crate) fn is_billed_in_credits(&self) -> bool {
        let in_line = self.credits.is_some() && (self.billable.is_some() || self.original_credits.is_some());
        let in_usage = || {
            let message: Option<Billed> = self.message.and_then(|raw| serde_json::from_str(raw.get()).ok());
            let usage = message.unwrap_or_default().usage;
            usage.credits.is_some() && (usage.billable.is_some() || usage.original_credits.is_some())
        };
        self.session.filled().is_some() && (in_line || in_usage())
    }

    /// Whether it names a session by a UUID behind a prefix.
    pub(crate) fn has_prefixed_session(&self, prefix: &str) -> bool {
        is_uuid_behind(prefix, &self.session)
    }

    pub(crate) fn has_uuid(&self) -> bool {
        self.uuid.filled().is_some()
    }

    /// Whether it is a transcript's line of this version of its program.
    pub(crate) fn has_version(&self, version: &str) -> bool {
        self.version.is(version) && self.session.filled().is_some()
    }

    /// Whether it opens a rollout of the program or model provider of this name.
    pub(crate) fn is_meta_of(&self, name: &str) -> bool {
        let inner: Inner<'_> =
            self.payload.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let originator = inner.originator.get().unwrap_or_default().to_ascii_lowercase();
        self.kind.is("session_meta") && (originator.starts_with(name) || inner.model_provider.is(name))
    }
}

/// Whether this is true of the fields of a line.
pub(crate) fn marks_of(line: &[u8], has: &dyn Fn(&Marks<'_>) -> bool) -> bool {
    let text = text_of(line);
    serde_json::from_str::<Marks<'_>>(text.trim()).is_ok_and(|marks| has(&marks))
}

pub(crate) fn is_uuid_behind(start: &str, id: &Str<'_>) -> bool {
    let rest = id.filled().and_then(|id| id.strip_prefix(start));
    rest.is_some_and(|rest| {
        rest.len() == 36 && rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
    })
}
