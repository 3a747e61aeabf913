//! How the agents of the harnesses speak the protocol: what is special in what each of them says. Each harness has a row
//! ([`crate::Harness::acp`]).

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::lenient::Str;

use crate::{Harness, harnesses};

/// How an agent speaks the protocol.
#[derive(Clone, Copy, Debug)]
pub struct AcpAgent {
    /// What it calls itself in the answer to `initialize`.
    pub(crate) names: &'static [&'static str],
    /// The files of programs that speak it and do nothing else.
    pub(crate) programs: &'static [&'static str],
    /// The tools that it gives a title, or only a kind, in place of the name that the model knows.
    pub(crate) tools: &'static [(&'static str, &'static str)],
    /// Whether ids of calls begin with a number that changes when the session is loaded again: `0:call_1`.
    pub(crate) numbers_calls: bool,
    /// Whether ids of calls are unique in their session alone.
    pub(crate) has_local_ids: bool,
    /// What it calls an agent.
    pub(crate) about: AgentWords,
    /// Whose tokens are in the answer to a prompt.
    pub(crate) tokens: PromptTokens,
    /// Reads what it adds to an update beside the protocol.
    pub(crate) meta: for<'a> fn(Option<&'a RawValue>) -> AcpMeta<'a>,
}

/// The meaning of the texts about an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentWords {
    /// `description` describes its task.
    Description,
    /// `description` is its task as it was given: no description.
    Task,
    /// `description` is its type, and `title` describes its task. A message to it has the id of the call that started it.
    Type,
}

/// Whose tokens are in the answer to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptTokens {
    /// Those of the root, for this prompt.
    Root,
    /// Those of the whole tree.
    Tree,
    /// Those of the last response alone, or it is not known whose.
    Unknown,
}

/// What an agent adds to an update beside the protocol.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct AcpMeta<'a> {
    pub(crate) tool_name: Str<'a>,
    /// The call that started the agent whose call or text this is.
    pub(crate) parent_tool_use_id: Str<'a>,
    /// What a call that started an agent returned, besides its text.
    pub(crate) tool_response: Option<&'a RawValue>,
}

impl AcpAgent {
    /// An agent that says no more than the protocol.
    pub(crate) const PLAIN: Self = Self {
        names: &[],
        programs: &[],
        tools: &[],
        numbers_calls: false,
        has_local_ids: true,
        about: AgentWords::Description,
        tokens: PromptTokens::Unknown,
        meta: |_| AcpMeta::default(),
    };

    /// Returns the harness and the row of an agent of this name.
    pub(super) fn named(name: &str) -> Option<KnownAgent> {
        let rows = harnesses().filter_map(|harness| Some(KnownAgent { harness, row: harness.acp()? }));
        rows.into_iter().find(|known| known.row.names.contains(&name))
    }

    /// Returns the name that the model knows a tool by, where the agent says another word.
    pub(super) fn tool_of(&self, word: &str) -> Option<&'static str> {
        self.tools.iter().find(|(said, _)| *said == word).map(|(_, name)| *name)
    }
}

/// An agent whose harness is known.
#[derive(Clone, Copy)]
pub(super) struct KnownAgent {
    pub(super) harness: &'static dyn Harness,
    pub(super) row: &'static AcpAgent,
}
