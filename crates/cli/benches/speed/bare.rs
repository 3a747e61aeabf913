//! The peer: a bare typed parse of transcript lines with serde_json and raw values, and nothing done with it.
//!
//! It reads the fields that any reader of transcripts needs (type, ids, times, model, usage, each content block's kind,
//! ids and the place of its payload) and keeps none of them.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[expect(dead_code, reason = "the peer parses what a reader needs, and does nothing with it")]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    uuid: Option<&'a str>,
    #[serde(rename = "parentUuid")]
    parent_uuid: Option<&'a str>,
    #[serde(rename = "sessionId")]
    session_id: Option<&'a str>,
    #[serde(rename = "agentId")]
    agent_id: Option<&'a str>,
    #[serde(rename = "isSidechain")]
    is_sidechain: Option<bool>,
    timestamp: Option<&'a str>,
    message: Option<Message<'a>>,
    #[serde(rename = "toolUseResult", borrow)]
    tool_use_result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "as above")]
struct Message<'a> {
    id: Option<&'a str>,
    model: Option<&'a str>,
    stop_reason: Option<&'a str>,
    usage: Option<Usage>,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "as above")]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "as above")]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    id: Option<&'a str>,
    name: Option<&'a str>,
    tool_use_id: Option<&'a str>,
    is_error: Option<bool>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

/// Parses all lines; returns how many blocks there were, so that nothing is optimized away.
pub(crate) fn parse(bytes: &[u8]) -> usize {
    let mut blocks = 0;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { continue };
        let content = line.message.as_ref().map(|message| message.content.get());
        if let Some(content) = content.filter(|content| content.starts_with('[')) {
            blocks += serde_json::from_str::<Vec<Block<'_>>>(content).map_or(0, |list| list.len());
        }
    }
    blocks
}
