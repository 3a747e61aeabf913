//! The calls of a task that a person is asked to allow. What the editor shows last says that it asks, and for which kind of
//! tool; the conversation has the calls without a result. The call that fits is the one that waits.
//!
//! Pitfalls: a question about a command stays the last message while the command runs, so it says nothing. Whether a task may
//! start another is asked in the same way, and the question stays the last message while that one works.

use serde::Deserialize;
use subscope_decode::{
    Emitter,
    lenient::{Flag, Str},
};
use subscope_model::{Fact, Millis, ToolClass};

use super::{lines::made, tools};

/// What is known of the calls of one task and of the question about one.
#[derive(Debug, Default)]
pub(super) struct TaskWaits {
    /// The question that the editor shows last; `None` where it shows none.
    pub(super) asked: Option<CallQuestion>,
    /// The calls without a result, in order.
    pub(super) open: Vec<WaitingCall>,
}

/// A question about a call.
#[derive(Debug)]
pub(super) struct CallQuestion {
    kind: AskedKind,
    /// The file that the call is about.
    path: Option<String>,
    /// Its id and time.
    id: String,
    time: Option<Millis>,
}

/// A call without a result.
#[derive(Debug)]
pub(super) struct WaitingCall {
    pub(super) name: String,
    pub(super) digest: u64,
    /// Its arguments as JSON, unless they are long.
    pub(super) input: Option<String>,
    /// The file that they name.
    pub(super) file: Option<String>,
}

/// The tools that one kind of question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedKind {
    Mcp,
    Browser,
    Agents,
    /// Any other but commands.
    Tool,
}

/// The JSON in the text of a question about a tool.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AskedTool<'a> {
    tool: Str<'a>,
    path: Str<'a>,
}

/// The message that asks, as far as it says what for.
#[derive(Debug)]
pub(super) struct Ask<'m> {
    /// What it asks.
    pub(super) word: &'m str,
    pub(super) text: &'m str,
    pub(super) is_answered: Flag,
}

impl CallQuestion {
    /// Returns the question of a message; `None` of one that asks for no call, or that was answered.
    pub(super) fn of(ask: &Ask<'_>, id: String, time: Option<Millis>) -> Option<Self> {
        let kind = match ask.word {
            "tool" => AskedKind::Tool,
            "use_mcp_server" => AskedKind::Mcp,
            "browser_action_launch" => AskedKind::Browser,
            "use_subagents" => AskedKind::Agents,
            _ => return None,
        };
        let asked: AskedTool<'_> = serde_json::from_str(ask.text).unwrap_or_default();
        let is_about_task = ["newTask", "finishTask"].iter().any(|tool| asked.tool.is(tool));
        let path = asked.path.filled().map(str::to_owned);
        (!is_about_task && !ask.is_answered.is_true()).then_some(Self { kind, path, id, time })
    }
}

impl AskedKind {
    fn fits(self, tool: &str) -> bool {
        let own = match tool {
            "browser_action" => Self::Browser,
            tool if tool.contains("mcp") => Self::Mcp,
            tool if tool.contains("subagent") => Self::Agents,
            _ => Self::Tool,
        };
        let class = tools::class(tool);
        own == self && tool != tools::COMMAND && class != ToolClass::Spawn && class.person_wait().is_none()
    }
}

impl TaskWaits {
    /// Emits which of the calls wait for a person, and that the others do not.
    pub(super) fn emit(&self, out: &mut Emitter<'_, '_>) {
        let is_fit =
            |call: &&WaitingCall| self.asked.as_ref().is_some_and(|asked| asked.kind.fits(&call.name));
        let is_same = |call: &&WaitingCall| {
            let path = self.asked.as_ref().and_then(|asked| asked.path.as_deref());
            path.is_some() && call.file.as_deref() == path
        };
        let fit = || self.open.iter().filter(is_fit);
        let waiting = fit().find(is_same).or_else(|| fit().next()).map(|call| call.digest);
        for call in self.open.iter().filter(|call| Some(call.digest) != waiting) {
            out.emit_made(Fact::PermissionReply { digest: call.digest });
        }
        let call = self.open.iter().find(|call| Some(call.digest) == waiting);
        if let (Some(call), Some(asked)) = (call, &self.asked) {
            let mut out = out.with(out.head.claim, asked.time, Some(&asked.id));
            out.emit_made(Fact::Permission {
                name: &call.name,
                class: tools::class(&call.name),
                digest: call.digest,
                input: call.input.as_deref().map(made),
            });
        }
    }
}
