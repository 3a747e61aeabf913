//! What OpenClaw writes around a person's message, and in its place: when and where it was sent, and news of jobs, commands
//! and agents. By public examples (2026-02 to 2026-05).

use subscope_model::AgentStatus;

/// A message of the role `user`, without what is around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChatEnvelope<'t> {
    /// What a person wrote, or set as the task of a job or an agent. It may be empty, as beside a picture.
    pub(super) text: &'t str,
    /// The name of the job that sent it.
    pub(super) job: Option<&'t str>,
    /// Whether OpenClaw alone speaks.
    pub(super) is_notice: bool,
}

/// Beginnings of what OpenClaw itself says.
const NOTICES: &[&str] = &[
    "[OpenClaw heartbeat poll]",
    "[System Message]",
    REMINDER,
    "[Queued announce messages while agent was busy]",
    "OpenClaw runtime context (internal):",
    "An async command the user already approved has completed.",
    "Pre-compaction memory flush.",
    "Read HEARTBEAT.md if it exists",
    "A new session was started via /new or /reset.",
];
/// Ends of the first lines of blocks of data, which are untrusted.
const BLOCKS: &[&str] = &["(untrusted metadata):", "(untrusted, for context):"];
/// Between the line that names a sender and the message that it repeats.
const SENDERS: &[&str] = &[" DM from ", " message in group "];
const QUEUED: &str = "[Queued messages while agent was busy]";
const FIRST_QUEUED: &str = "Queued #1";
const BOOTSTRAP: &str = "[Bootstrap pending]";
const REMINDER: &str = "A scheduled reminder has been triggered.";
const REMINDS_OF: &str = "The reminder content is:";
const HOW_TO_REMIND: &[&str] = &["\n\nHandle this reminder", "\n\nPlease relay this reminder"];
const SYSTEM: &str = "System: ";
const MEDIA: &str = "[media attached";
const HOW_TO_SEND: &str = "To send an image back,";
const SUBAGENT: &str = "[Subagent Context]";
const TASK: &str = "[Subagent Task]:";
const CLOCK: &str = "\nCurrent time: ";
const MESSAGE_ID: &str = "\n[message_id: ";

impl<'t> ChatEnvelope<'t> {
    /// Opens a message.
    pub(super) fn open(message: &'t str) -> Self {
        let (mut rest, mut repeated, mut is_from_person) = (message.trim(), None, false);
        loop {
            rest = rest.trim_start();
            if let Some(task) = Self::task(rest) {
                return task;
            }
            rest = if let Some(line) = rest.strip_prefix(SYSTEM) {
                let line = line.lines().next().unwrap_or_default();
                let sent = SENDERS.iter().find_map(|words| line.split_once(words));
                let words = sent.and_then(|(_, sent)| sent.split_once(": ")).map(|(_, words)| words);
                repeated = words.or(repeated);
                is_from_person |= sent.is_some();
                behind_line(rest)
            } else if let Some(behind) = behind_media(rest).or_else(|| behind_block(rest)) {
                is_from_person = true;
                behind
            } else if let Some(behind) = behind_brackets(rest) {
                behind
            } else {
                break;
            };
        }
        let is_empty = rest.is_empty() && !is_from_person;
        let is_notice = is_empty || NOTICES.iter().any(|words| rest.starts_with(words));
        let text = if rest.is_empty() { repeated.unwrap_or_default() } else { rest };
        let text = text.split(MESSAGE_ID).next().unwrap_or(text).trim();
        Self { text, job: None, is_notice }
    }

    /// Opens a message that is the task of a job, of a reminder or of an agent.
    fn task(message: &'t str) -> Option<Self> {
        let of = |text: &'t str, job| Self { text: text.trim(), job, is_notice: false };
        if let Some((_, reminder)) =
            message.strip_prefix(REMINDER).and_then(|text| text.split_once(REMINDS_OF))
        {
            let end = HOW_TO_REMIND.iter().filter_map(|words| reminder.find(words)).min();
            return Some(of(end.and_then(|end| reminder.get(..end)).unwrap_or(reminder), None));
        }
        let (words, behind) = bracketed(message)?;
        if message.starts_with(SUBAGENT) {
            return Some(of(behind.split_once(TASK).map_or(behind, |(_, task)| task), None));
        }
        let job = words.strip_prefix("cron:")?.split_once(' ').map(|(_, name)| name.trim());
        Some(of(behind.split(CLOCK).next().unwrap_or(behind), job.filter(|name| !name.is_empty())))
    }
}

/// Returns what is behind words about pictures; `None` where a text does not begin with them.
fn behind_media(text: &str) -> Option<&str> {
    let (_, behind) = bracketed(text).filter(|_| text.starts_with(MEDIA))?;
    Some(behind.trim_start().strip_prefix(HOW_TO_SEND).map_or(behind, behind_line))
}

/// Returns what is behind words in brackets that OpenClaw puts in front of a message.
fn behind_brackets(text: &str) -> Option<&str> {
    let (words, behind) = bracketed(text)?;
    if text.starts_with(QUEUED) {
        return Some(behind.find(FIRST_QUEUED).and_then(|at| behind.get(at..)).map_or(behind, behind_line));
    }
    if text.starts_with(BOOTSTRAP) {
        return Some(behind.split_once("\n\n").map_or("", |(_, behind)| behind));
    }
    (is_stamp(words) || words.starts_with(SYSTEM)).then_some(behind)
}

/// Returns what stands in the brackets that a text begins with, and what is behind them.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let line = text.lines().next().filter(|line| line.starts_with('['))?;
    let end = line.find(']')?;
    Some((text.get(1..end)?, text.get(end + 1..)?))
}

/// Whether words say when a message was sent: `Mon 2026-03-02 11:56 GMT+8`, behind the channel and the sender in older versions.
fn is_stamp(words: &str) -> bool {
    let has = |form: &[u8]| {
        let fits =
            |(letter, form): (&u8, &u8)| if *form == b'0' { letter.is_ascii_digit() } else { letter == form };
        words.as_bytes().windows(form.len()).any(|window| window.iter().zip(form).all(fits))
    };
    has(b"0000-00-00 00:00") || has(b"0000-00-00T00:00")
}

fn behind_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, behind)| behind)
}

/// Returns what is behind a block of data; `None` where a text does not begin with one.
fn behind_block(text: &str) -> Option<&str> {
    let (head, block) = text.split_once('\n')?;
    let is_block = BLOCKS.iter().any(|words| head.trim_end().ends_with(words));
    let block = block.strip_prefix("```").filter(|_| is_block)?;
    block.split_once("\n```").map(|(_, behind)| behind)
}

/// The end of an agent, as OpenClaw announces it to the one that started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announced<'t> {
    /// The key of its session.
    pub(super) key: &'t str,
    pub(super) status: AgentStatus,
    /// What it said last.
    pub(super) report: &'t str,
    /// Why it failed.
    pub(super) error: Option<&'t str>,
    /// How long it worked.
    pub(super) runtime_ms: Option<i64>,
}

const EVENT: &str = "[Internal task completion event]";
const RESULT_BEGINS: &str = "<<<BEGIN_UNTRUSTED_CHILD_RESULT>>>";
const RESULT_ENDS: &str = "<<<END_UNTRUSTED_CHILD_RESULT>>>";
const RUNTIME: &str = "\nStats: runtime ";

/// Returns the ends of agents that a notice announces. What became of an agent stands behind its task, in front of its result.
pub(super) fn announced(notice: &str) -> Vec<Announced<'_>> {
    notice.split(EVENT).skip(1).filter_map(event).collect()
}

fn event(text: &str) -> Option<Announced<'_>> {
    let (about, result) = text.split_once(RESULT_BEGINS).unwrap_or((text, ""));
    let key = about.lines().find_map(|line| line.strip_prefix("session_key: "))?;
    let words = about.lines().rev().find_map(|line| line.strip_prefix("status: "))?;
    let (status, error) = match words.split_once(": ").unwrap_or((words, "")) {
        ("completed successfully", _) => (AgentStatus::Completed, None),
        ("timed out", _) => (AgentStatus::Stopped, None),
        ("failed", error) => (AgentStatus::Failed, Some(error).filter(|error| !error.is_empty())),
        _ => return None,
    };
    let (report, stats) = result.split_once(RESULT_ENDS).unwrap_or((result, ""));
    let runtime = stats.split_once(RUNTIME).and_then(|(_, words)| words.split_whitespace().next());
    Some(Announced { key, status, report: report.trim(), error, runtime_ms: runtime.and_then(duration) })
}

/// Returns a duration in milliseconds: `2m0s`.
fn duration(words: &str) -> Option<i64> {
    let (mut total, mut rest) = (0_i64, words);
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit())?);
        let (unit, next) =
            behind.split_at(behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len()));
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<i64>().ok()?.checked_mul(unit_ms)?)?;
        rest = next;
    }
    (!words.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str =
        "Conversation info (untrusted metadata):\n```json\n{\n  \"sender\": \"Ann\"\n}\n```\n\n";
    const SENDER: &str = "Sender (untrusted metadata):\n```json\n{\n  \"name\": \"Ann\"\n}\n```\n\n";

    #[test]
    fn what_a_person_wrote_is_found_in_what_is_around_it() {
        let stamp = "[Mon 2026-03-02 11:56 GMT+8] ";
        let system = "System: [2026-03-05 12:39:13 GMT+8] Feishu[main] DM from ou_1: plan my day\n\n";
        let ran = "System: [2026-03-10 09:15:14 GMT+8] Exec completed (plaid-ri, code 0) :: done\n";
        let cases = [
            ("plan my day".to_owned(), "plan my day"),
            (format!("{stamp}plan my day"), "plan my day"),
            (format!("{SENDER}{stamp}plan my day"), "plan my day"),
            (format!("{system}{CHAT}{SENDER}plan my day"), "plan my day"),
            (format!("{system}[System: The bot met an error.]"), "plan my day"),
            (format!("{ran}{ran}{system}plan my day"), "plan my day"),
            (
                format!(
                    "System: [2026-03-05 12:39:13 GMT+8] Feishu[main] DM | Ann (ou_1) [msg:om_1]\n\n{CHAT}plan my day"
                ),
                "plan my day",
            ),
            (
                "[Telegram Ann id:1 2026-01-20 10:00 EST] plan my day\n[message_id: 55]".to_owned(),
                "plan my day",
            ),
            (
                format!(
                    "[Queued messages while agent was busy]\n\n---\nQueued #1 (from Ann)\n{CHAT}plan my day"
                ),
                "plan my day",
            ),
            (format!("[Bootstrap pending]\nRead it.\nFirst.\n\n{CHAT}{stamp}plan my day"), "plan my day"),
            (
                format!(
                    "{ran}\nA scheduled reminder has been triggered. The reminder content is:\n\nplan my day\n\nHandle this reminder internally."
                ),
                "plan my day",
            ),
            (
                "[Queued messages while agent was busy]\n\n---\nQueued #1\nplan my day".to_owned(),
                "plan my day",
            ),
            (
                format!(
                    "[media attached: /m/a.jpg (image/jpeg) | /m/a.jpg]\nTo send an image back, use it.\n{SENDER}plan my day"
                ),
                "plan my day",
            ),
            ("[media attached: /m/a.jpg (image/jpeg)]".to_owned(), ""),
            (
                format!("{stamp}[Subagent Context] You are a subagent.\n\n[Subagent Task]: count\nit"),
                "count\nit",
            ),
            ("[todo] plan my day".to_owned(), "[todo] plan my day"),
            ("[".to_owned(), "["),
        ];
        for (message, text) in cases {
            assert_eq!(
                ChatEnvelope::open(&message),
                ChatEnvelope { text, ..ChatEnvelope::default() },
                "{message}"
            );
        }
        let job = "[cron:1e5d75bc daily plan] write it\nCurrent time: Monday\n\nReturn your summary.";
        let opened = ChatEnvelope { text: "write it", job: Some("daily plan"), is_notice: false };
        assert_eq!(ChatEnvelope::open(job), opened);
    }

    #[test]
    fn what_no_person_wrote_is_a_notice() {
        for notice in [
            "[Mon 2026-03-02 14:57 GMT+8] [System Message] [sessionId: 1] A cron job \"a\" just completed successfully.",
            "System: [2026-03-10 09:15:14 GMT+8] Exec completed (plaid-ri, code 0) :: done",
            "[Thu 2026-04-02 07:18 GMT+2] OpenClaw runtime context (internal):\nprivate",
            "Read HEARTBEAT.md if it exists (workspace context).",
            "[OpenClaw heartbeat poll]",
            "A scheduled reminder has been triggered. The reminder message is shown above.",
            "",
        ] {
            assert!(ChatEnvelope::open(notice).is_notice, "{notice}");
        }
    }

    #[test]
    fn an_announcement_says_how_an_agent_ended_and_not_what_its_task_says() {
        let event = |status: &str| {
            format!(
                "{EVENT}\nsource: subagent\nsession_key: agent:main:subagent:a1\ntask: check\nstatus: failed: no\nstatus: {status}\n\n\
                 Result:\n{RESULT_BEGINS}\nstatus: x\n{RESULT_ENDS}\n\nStats: runtime 18s"
            )
        };
        let cases = [
            ("completed successfully", AgentStatus::Completed, None),
            ("timed out", AgentStatus::Stopped, None),
            ("failed: no key", AgentStatus::Failed, Some("no key")),
        ];
        for (words, status, error) in cases {
            let expected = Announced {
                key: "agent:main:subagent:a1",
                status,
                report: "status: x",
                error,
                runtime_ms: Some(18_000),
            };
            assert_eq!(announced(&event(words)), [expected]);
        }
        assert!(announced(&event("finished with unknown status")).is_empty());
        assert!(announced("status: completed successfully").is_empty());
        let two = format!("{}\n\n{}", event("timed out"), event("completed successfully"));
        assert_eq!(announced(&two).len(), 2);
        for (words, expected) in [
            ("2m0s", Some(120_000)),
            ("1h2m", Some(3_720_000)),
            ("450ms", Some(450)),
            ("n/a", None),
            ("", None),
            ("3", None),
        ] {
            assert_eq!(duration(words), expected, "{words}");
        }
    }
}
