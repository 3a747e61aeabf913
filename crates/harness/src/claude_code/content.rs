//! Messages of the Messages API as Claude Code writes them: content blocks, usage, stop reasons.

use std::{
    fmt,
    hash::{BuildHasher, Hasher},
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;
use subscope_decode::lenient::{self, Flag, Lenient, LineText, Num, Str};
use subscope_model::{RawJson, Response, Usage};

use super::price_change::{PriceChange, PriceWord};

/// One message. Also a plain string, as very old or foreign streams write it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, remote = "Self", bound(deserialize = "'de: 'a"))]
pub(super) struct Message<'a> {
    pub(super) id: Str<'a>,
    pub(super) model: Str<'a>,
    pub(super) stop_reason: Str<'a>,
    pub(super) usage: Option<Tokens>,
    pub(super) content: Content<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MessageVisitor)
    }
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Message::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Message { content: Content::Text(text), ..Message::default() })
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Message { content: Content::Escaped, ..Message::default() })
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Message::default())
    }
}

/// The content of a message.
#[derive(Debug, Default)]
pub(super) enum Content<'a> {
    /// None.
    #[default]
    Empty,
    /// A string without escapes, unquoted.
    Text(&'a str),
    /// A string with escapes: the line must be read again for its raw text.
    Escaped,
    /// One block, which is the rule.
    One([Block<'a>; 1]),
    /// Blocks in order.
    Many(Vec<Block<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient::deserialize(deserializer)
    }
}

impl<'de: 'a, 'a> Lenient<'de> for Content<'a> {
    fn from_text(text: &'de str) -> Self {
        Self::Text(text)
    }

    fn from_unescaped(_: &str) -> Self {
        Self::Escaped
    }

    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let Some(first) = seq.next_element()? else { return Ok(Self::Empty) };
        let Some(second) = seq.next_element()? else { return Ok(Self::One([first])) };
        let mut blocks = vec![first, second];
        while let Some(block) = seq.next_element()? {
            blocks.push(block);
        }
        Ok(Self::Many(blocks))
    }
}

/// One content block; big parts are only located, not decoded.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Block<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) id: Str<'a>,
    pub(super) name: Str<'a>,
    pub(super) tool_use_id: Str<'a>,
    pub(super) is_error: Flag,
    pub(super) input: Option<&'a RawValue>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) text: Option<&'a RawValue>,
    pub(super) thinking: Option<&'a RawValue>,
}

/// Token counts as the API reports them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    input_tokens: Num,
    output_tokens: Num,
    cache_read_input_tokens: Num,
    cache_creation_input_tokens: Num,
    total_tokens: Num,
    cache_creation: Option<CacheCreation>,
    speed: PriceWord,
    service_tier: PriceWord,
    inference_geo: PriceWord,
    server_tool_use: Option<ServerTools>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct ServerTools {
    web_search_requests: Num,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Num,
}

impl Tokens {
    pub(super) fn usage(&self) -> Usage {
        let kinds = [
            self.input_tokens,
            self.output_tokens,
            self.cache_read_input_tokens,
            self.cache_creation_input_tokens,
        ];
        Usage::of_parts(kinds.map(|kind| kind.0), self.total_tokens.0)
    }

    pub(super) fn cache_write_1h(&self) -> u64 {
        self.cache_creation.and_then(|creation| creation.ephemeral_1h_input_tokens.0).unwrap_or(0)
    }

    /// What changes the price of these tokens of a model.
    pub(super) fn price_change(&self, model: &str) -> PriceChange {
        let searches = self.server_tool_use.and_then(|tools| tools.web_search_requests.0).unwrap_or(0);
        PriceChange::of(model, [self.speed, self.service_tier, self.inference_geo], searches)
    }
}

/// The model name of messages that the harness makes up itself.
const SYNTHETIC_MODEL: &str = "<synthetic>";

/// The harness's own answer where a session is opened again behind a prompt that was interrupted or never answered.
/// Observed: 1.0 to 2.1, public transcripts.
const NO_RESPONSE: &str = "\"No response requested.\"";

impl<'a> Message<'a> {
    /// Whether the harness made it up to stand behind a prompt: it ends no turn and begins none.
    pub(super) fn answers_nothing(&self) -> bool {
        let is_filler = |block: &Block<'_>| block.text.is_some_and(|text| text.get() == NO_RESPONSE);
        self.model.is(SYNTHETIC_MODEL) && self.blocks().iter().any(is_filler)
    }

    /// The blocks, if there are any.
    pub(super) fn blocks(&self) -> &[Block<'a>] {
        match &self.content {
            Content::One(blocks) => blocks,
            Content::Many(blocks) => blocks,
            Content::Empty | Content::Text(_) | Content::Escaped => &[],
        }
    }

    /// Data of the API response that this line belongs to. Gateways leave ids of messages out: then the request's names the
    /// response, else the line's. `None` if none of them is there.
    pub(super) fn response<'m>(
        &'m self,
        api_error: bool,
        request_id: Option<&'m str>,
        line_id: Option<&'m str>,
    ) -> Option<Response<'m>> {
        let message_id = self.id.filled().or(if request_id.is_some() { Some("") } else { line_id })?;
        let has = |kind: &str| self.blocks().iter().any(|block| block.kind.is(kind));
        let stop_reason = self.stop_reason.filled();
        let model = self.model.get().unwrap_or_default();
        let price = self.usage.as_ref().map(|usage| usage.price_change(model)).unwrap_or_default();
        Some(Response {
            message_id,
            request_id: request_id.filter(|_| !self.model.is(SYNTHETIC_MODEL)),
            model: self.model.filled(),
            usage: self.usage.as_ref().map(Tokens::usage),
            cost_pico_usd: None,
            price_permille: price.permille,
            extra_pico_usd: price.extra_pico_usd,
            is_unpriced: price.is_unknown,
            cache_write_1h: self.usage.as_ref().map_or(0, Tokens::cache_write_1h),
            has_stop_reason: stop_reason.is_some(),
            ends_turn: stop_reason == Some("end_turn"),
            content: if stop_reason.is_some() { (0, 0) } else { self.measure() },
            has_call: has("tool_use"),
            has_text: has("text"),
            ends_if_last: None,
            synthetic: self.model.is(SYNTHETIC_MODEL),
            api_error,
            accounts_only: false,
        })
    }

    /// A hash of the content and its length in characters: texts, thoughts and calls' arguments.
    fn measure(&self) -> (u64, u32) {
        let mut hasher = foldhash::fast::FixedState::default().build_hasher();
        let mut characters = 0;
        for block in self.blocks() {
            for part in [block.text, block.thinking, block.input].into_iter().flatten() {
                hasher.write(part.get().as_bytes());
                let raw = RawJson { json: part.get(), offset: 0 };
                characters += raw.text().chars().count();
            }
            hasher.write(block.id.get().unwrap_or_default().as_bytes());
        }
        (hasher.finish(), u32::try_from(characters).unwrap_or(u32::MAX))
    }
}

/// A line of which only the raw content matters, for strings with escapes.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Again<'a> {
    message: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AgainMessage<'a> {
    content: Option<&'a RawValue>,
}

/// Returns the raw text of a message's content where that is one string.
pub(super) fn string_content<'a>(message: &Message<'a>, line: LineText<'a>) -> Option<RawJson<'a>> {
    match &message.content {
        Content::Text(text) => line.quoted(text),
        Content::Escaped => {
            let message = serde_json::from_str::<Again<'a>>(line.text).ok()?.message?;
            if message.get().starts_with('"') {
                return Some(line.raw(message));
            }
            let content = serde_json::from_str::<AgainMessage<'a>>(message.get()).ok()?.content?;
            Some(line.raw(content))
        }
        Content::Empty | Content::One(_) | Content::Many(_) => None,
    }
}
