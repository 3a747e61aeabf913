//! The settings: names, types, defaults and documentation. The files, variables, `config show`, the JSON Schema and the
//! README follow from these structs.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::ColorChoice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_model::{ContentLevel, MicroUsd, Millis, Zone, is_remote_name};
use subscope_render::Detail;
use subscope_server::{PublicNameError, PublicNames};
use subscope_tui::{Alerts, Palette, TreePanel};

use super::{limits::SilenceLimit, words};

/// Key of the price file.
pub(crate) const PRICES: &str = "prices";
/// The settings that a project's file may set: what is shown and when an agent counts as stalled. All others are the
/// user's: a repository must not decide what is kept, spent, sent, opened or listened at.
pub(crate) const PROJECT_KEYS: [&str; 13] = [
    "subagent_tracing_detail",
    "code_tools",
    "color",
    "ascii",
    "watch.verbose",
    "watch.heartbeat",
    "watch.stall",
    "watch.stall_subagents",
    "watch.stall_open",
    "watch.limits",
    "ui.theme",
    "ui.tree",
    "ui.alerts",
];
/// The setting that a project's file may only switch off: that its sessions are sent to a team.
pub(crate) const FORWARD: &str = "team.forward";
/// Key of the retention time.
pub(crate) const KEEP_DAYS: &str = "store.keep_days";

const DAY_MS: Millis = 86_400_000;

/// Settings of subscope: the user's `config.toml` and a project's `.subscope/config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Level of detail of `tree`.
    #[serde(deserialize_with = "words::detail")]
    pub(crate) subagent_tracing_detail: Detail,
    /// Further tools whose argument is code, for `watch --verbose`.
    #[schemars(example = ["run_python"])]
    pub(crate) code_tools: Vec<String>,
    /// Use of colors; auto follows `NO_COLOR` and `TERM`.
    #[serde(with = "ColorWhen")]
    pub(crate) color: ColorChoice,
    /// Whether only ASCII is drawn; auto follows `TERM` and the locale.
    #[schemars(schema_with = "words::ascii_schema")]
    pub(crate) ascii: AsciiChoice,
    /// Price file to add to the bundled table (`subscope help cost` shows its form); relative to the folder of the
    /// settings file. A regular file of at most 1 MiB.
    #[serde(deserialize_with = "words::file", serialize_with = "words::show_file")]
    #[schemars(with = "String", example = "prices.toml")]
    pub(crate) prices: Option<PathBuf>,
    /// Time zone of days and of shown times; without it, that of `TZ`, else of the machine.
    #[serde(deserialize_with = "words::zone")]
    #[schemars(with = "String", example = "Europe/Berlin")]
    pub(crate) time_zone: Option<Zone>,
    /// Your other machines, whose sessions the hub shows among those of this one: `[[remote]]` once for each
    /// (`subscope help remotes`). `name` is its name here; `ssh` a host of your ssh, or `command` what runs `subscope
    /// serve --stdio` there; `content` what comes of a session: figures, titles or text; `silence` after how long
    /// without a sign of life the line counts as cut (16s).
    #[serde(deserialize_with = "words::remotes")]
    pub(crate) remote: Vec<RemoteSettings>,
    /// Output, heartbeats and stall limits.
    pub(crate) watch: WatchSettings,
    /// Archive and retention.
    pub(crate) store: StoreSettings,
    /// The hub's address and idle timeout.
    pub(crate) hub: HubSettings,
    /// Budgets: a hub alerts when one is used.
    pub(crate) budget: BudgetSettings,
    /// The terminal UI.
    pub(crate) ui: UiSettings,
    /// The page in the browser.
    pub(crate) page: PageSettings,
    /// Answers to permission requests.
    pub(crate) answers: AnswerSettings,
    /// The store of a team.
    pub(crate) team: TeamSettings,
}

/// An entry of `[[remote]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoteSettings {
    /// Name of the machine here; without it, that of `ssh`.
    #[serde(default)]
    pub(crate) name: String,
    /// Host as `ssh` names it.
    #[serde(default, deserialize_with = "words::word", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) ssh: Option<String>,
    /// Command that runs `subscope serve --stdio` there, with its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) command: Vec<String>,
    /// What comes of a session.
    #[serde(default = "all_content")]
    #[schemars(schema_with = "words::content_schema")]
    pub(crate) content: ContentLevel,
    /// Silence after which the line counts as cut: 1s to 60s.
    #[serde(
        default = "usual_silence",
        deserialize_with = "words::heartbeat",
        serialize_with = "words::show_span"
    )]
    #[schemars(with = "String")]
    pub(crate) silence: Duration,
}

/// [`RemoteSettings::silence`] where it is not set: three signs of life are missing.
pub(crate) fn usual_silence() -> Duration {
    Duration::from_secs(16)
}

/// Machines of one person hide nothing from each other.
fn all_content() -> ContentLevel {
    ContentLevel::Text
}

impl RemoteSettings {
    /// Checks it, and names it if it has no name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn checked(mut self) -> Result<Self, String> {
        match (&self.ssh, self.command.as_slice()) {
            (Some(host), [])
                if host.is_empty() || host.starts_with('-') || host.contains(char::is_control) =>
            {
                return Err(format!("{host:?} is no host for ssh"));
            }
            (Some(host), []) if self.name.is_empty() => self.name.clone_from(host),
            (Some(_), []) | (None, [_, ..]) => {}
            (Some(_), [_, ..]) => return Err("a remote has `ssh` or `command`, not both".to_owned()),
            (None, []) => return Err("a remote needs `ssh = \"HOST\"` or `command = […]`".to_owned()),
        }
        if self.command.first().is_some_and(String::is_empty) {
            return Err("the command of a remote has no program".to_owned());
        }
        if is_remote_name(&self.name) {
            return Ok(self);
        }
        let name = &self.name;
        Err(format!(
            "{name:?} is no name for a remote: at most 32 of a-z, 0-9, `.`, `_`, `-`, set with `name`"
        ))
    }

    /// Returns the program to start, and its arguments.
    pub(crate) fn argv(&self) -> Vec<String> {
        let Some(host) = &self.ssh else { return self.command.clone() };
        // Nobody could answer a question of ssh; a dead line is noticed within 15 s.
        let ssh =
            ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5"];
        let there = ["--", host, "subscope", "serve", "--stdio"];
        ssh.into_iter().chain(there).map(str::to_owned).collect()
    }
}

/// Section `[watch]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct WatchSettings {
    /// Print full payloads.
    pub(crate) verbose: bool,
    /// How often `watch` and `serve` report active agents: 1s to 60s.
    #[serde(deserialize_with = "words::heartbeat", serialize_with = "words::show_span")]
    #[schemars(with = "String")]
    pub(crate) heartbeat: Duration,
    /// Silence after which an agent is stalled.
    #[serde(deserialize_with = "words::limit", serialize_with = "words::show_span")]
    #[schemars(with = "String")]
    pub(crate) stall: Duration,
    /// Silence after which an agent is stalled while a subagent is active.
    #[serde(deserialize_with = "words::limit", serialize_with = "words::show_span")]
    #[schemars(with = "String")]
    pub(crate) stall_subagents: Duration,
    /// Silence after which an agent is stalled while a tool call or a permission request is open.
    #[serde(deserialize_with = "words::limit", serialize_with = "words::show_span")]
    #[schemars(with = "String")]
    pub(crate) stall_open: Duration,
    /// Other limits for a harness or a model: `"claude-opus stall=5m stall_subagents=20m stall_open=1h"`.
    #[schemars(example = ["claude-opus stall=5m"])]
    pub(crate) limits: Vec<SilenceLimit>,
}

/// Section `[store]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct StoreSettings {
    /// Keep a copy of transcripts that the harness deletes.
    pub(crate) archive: bool,
    /// Delete a session this many days after its last event (default: never).
    #[serde(deserialize_with = "words::days")]
    #[schemars(range(min = 1), example = 365)]
    pub(crate) keep_days: Option<u32>,
}

/// Section `[hub]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct HubSettings {
    /// Address at which a hub serves HTTP; one in the background takes a free port if this one is taken.
    #[serde(deserialize_with = "words::listen")]
    pub(crate) listen: SocketAddr,
    /// Idle time after which a background hub exits.
    #[serde(deserialize_with = "words::limit", serialize_with = "words::show_span")]
    #[schemars(with = "String")]
    pub(crate) idle: Duration,
    /// Address at which browsers reach the page through a port forward or a proxy. TCP clients then need the hub's token,
    /// and a browser a code: `subscope serve` prints the address with one.
    #[serde(deserialize_with = "words::public_url")]
    #[schemars(with = "String", example = "https://name-7337.app.github.dev/")]
    pub(crate) public_url: Option<String>,
    /// Further names of that kind, as `Host` has them: a name, with a port where the browser names one.
    #[serde(deserialize_with = "words::hosts")]
    #[schemars(example = ["localhost:8000"])]
    pub(crate) allowed_hosts: Vec<String>,
    /// Pages that may show this page in a frame: origins, or a scheme with its colon.
    #[serde(deserialize_with = "words::frame_ancestors")]
    #[schemars(example = ["vscode-webview:"])]
    pub(crate) frame_ancestors: Vec<String>,
}

/// Section `[budget]`. A hub alerts at 80 % and at 100 %: an event of kind `budget`, a line in the terminal UI and in
/// `watch`, and a notification of the page.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct BudgetSettings {
    /// US dollars for all sessions of a day of `time_zone` together.
    #[serde(with = "words::dollars")]
    #[schemars(with = "Option<f64>", range(min = 0.01), example = 20)]
    pub(crate) day: Option<MicroUsd>,
    /// US dollars for each session.
    #[serde(with = "words::dollars")]
    #[schemars(with = "Option<f64>", range(min = 0.01), example = 5)]
    pub(crate) session: Option<MicroUsd>,
}

/// Section `[ui]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct UiSettings {
    /// Color palette; 16 is the terminal's own, auto follows `COLORFGBG`, `COLORTERM` and `TERM`.
    pub(crate) theme: Theme,
    /// Visibility of the tree panel; auto shows it from the first subagent on.
    pub(crate) tree: TreePanel,
    /// How to report that an agent stalls, fails, loops, collides, waits for you or has finished: a line, also the bell,
    /// or also a message through the terminal (OSC 9).
    pub(crate) alerts: Alerts,
}

/// Section `[answers]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AnswerSettings {
    /// Whether you can answer permission requests on the page, in the terminal UI and with `subscope answer`. While one of
    /// the first two is open and looked at, the hook of a request waits for your answer for up to five minutes; the
    /// agent's terminal asks meanwhile, and the first answer counts.
    pub(crate) enabled: bool,
}

/// Section `[page]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct PageSettings {
    /// URL with which the page opens a file of a call in your editor; `{path}` and `{line}` are replaced. Empty: no file
    /// is opened.
    #[serde(deserialize_with = "words::editor")]
    pub(crate) editor: String,
}

impl Default for PageSettings {
    fn default() -> Self {
        Self { editor: "vscode://file/{path}:{line}".to_owned() }
    }
}

/// Section `[team]`. A project's file may set only `forward`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub(crate) struct TeamSettings {
    /// URL of the team's server; where it is set, a hub forwards this machine's sessions to it.
    #[serde(deserialize_with = "words::word")]
    #[schemars(with = "String", example = "https://subscope.example.com")]
    pub(crate) url: Option<String>,
    /// File with the token for that server; `~/` is the home folder.
    #[serde(deserialize_with = "words::file", serialize_with = "words::show_file")]
    #[schemars(with = "String", example = "~/.config/subscope/team-token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Content of sessions that leaves this machine: figures, also titles, or also text. Secrets are masked first.
    #[schemars(schema_with = "words::content_schema")]
    pub(crate) content: ContentLevel,
    /// Name of this machine for the team; the host's name by default.
    #[serde(deserialize_with = "words::word")]
    #[schemars(with = "String", example = "laptop-42")]
    pub(crate) name: Option<String>,
    /// Working directories whose sessions never leave this machine; `*` at the end stands for all below.
    #[schemars(example = ["~/private/*"])]
    pub(crate) exclude: Vec<String>,
    /// How a working directory becomes a project's name: the repository of its `origin`, the folder's name, or its path.
    pub(crate) project_from: ProjectFrom,
    /// Whether sessions are forwarded at all; a project's file may say false for those below it.
    pub(crate) forward: bool,
}

impl Default for TeamSettings {
    /// Nothing leaves a machine of which nobody has set a server.
    fn default() -> Self {
        Self {
            url: None,
            token_file: None,
            content: ContentLevel::Figures,
            name: None,
            exclude: Vec::new(),
            project_from: ProjectFrom::GitRemote,
            forward: true,
        }
    }
}

/// How a working directory becomes a project's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProjectFrom {
    /// Name of the repository that the remote `origin` names; without one, the folder's name.
    #[default]
    GitRemote,
    /// Name of the folder.
    Folder,
    /// The whole path.
    Cwd,
}

/// Names of [`ColorChoice`].
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(remote = "ColorChoice", rename_all = "lowercase")]
enum ColorWhen {
    Auto,
    Always,
    Never,
}

/// Character set of drawings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AsciiChoice {
    /// Unicode if terminal and locale support it.
    #[default]
    Auto,
    /// Only ASCII.
    Always,
    /// Unicode.
    Never,
}

/// Choice of the color palette.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Theme {
    Dark,
    Light,
    Contrast,
    #[serde(rename = "16")]
    Sixteen,
    #[default]
    Auto,
}

impl Default for WatchSettings {
    /// Requirements 2.1 and 2.2.
    fn default() -> Self {
        Self {
            verbose: false,
            heartbeat: Duration::from_secs(10),
            stall: Duration::from_secs(180),
            stall_subagents: Duration::from_secs(600),
            stall_open: Duration::from_secs(30 * 60),
            limits: Vec::new(),
        }
    }
}

impl StoreSettings {
    /// Returns the retention time in milliseconds.
    pub(crate) fn keep_ms(&self) -> Option<Millis> {
        self.keep_days.map(|days| Millis::from(days) * DAY_MS)
    }
}

impl Default for HubSettings {
    /// A port that no well-known program uses; a timeout longer than a pause in work, and short enough that nothing
    /// runs on an otherwise used machine.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7337)),
            idle: Duration::from_secs(15 * 60),
            public_url: None,
            allowed_hosts: Vec::new(),
            frame_ancestors: Vec::new(),
        }
    }
}

impl HubSettings {
    /// Returns the names besides the address; they were checked one by one.
    pub(crate) fn public_names(&self) -> Result<PublicNames, PublicNameError> {
        PublicNames::new(self.public_url.as_deref(), &self.allowed_hosts, &self.frame_ancestors)
    }
}

impl Theme {
    /// Returns the palette; `None` follows the terminal.
    pub(crate) fn palette(self) -> Option<Palette> {
        match self {
            Self::Dark => Some(Palette::Dark),
            Self::Light => Some(Palette::Light),
            Self::Contrast => Some(Palette::Contrast),
            Self::Sixteen => Some(Palette::Sixteen),
            Self::Auto => None,
        }
    }
}
