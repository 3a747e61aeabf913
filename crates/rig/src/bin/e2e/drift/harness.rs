//! The harnesses that are played: their settings, command lines and tools.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use subscope_model::ToolStatus;
use subscope_rig::Tool;
use subscope_testkit::env::TestEnv;

use crate::world::claude_variables;

/// A harness, or one of the ways in which it has agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harness {
    ClaudeCode,
    /// Its agents of the first generation.
    CodexV1,
    /// Its agents of the second generation, which current models have.
    CodexV2,
    OpenCode,
    Copilot,
    Gemini,
    Qwen,
    Kilo,
    Kimi,
    Cline,
}

/// The package that OpenCode needs to load a plugin.
const PLUGIN_PACKAGE: &str = "@opencode-ai/plugin";
/// The model that Codex knows to have agents.
const CODEX_MODEL: &str = "gpt-5.3-codex";

impl Harness {
    /// Returns those of a name of the registry.
    pub(crate) fn named(name: &str) -> Result<&'static [Self]> {
        Ok(match name {
            "claude-code" => &[Self::ClaudeCode],
            "codex" => &[Self::CodexV1, Self::CodexV2],
            "opencode" => &[Self::OpenCode],
            "copilot" => &[Self::Copilot],
            "gemini" => &[Self::Gemini],
            "qwen" => &[Self::Qwen],
            "kilo" => &[Self::Kilo],
            "kimi" => &[Self::Kimi],
            "cline" => &[Self::Cline],
            _ => bail!("no harness {name:?} is played"),
        })
    }

    /// Its name in the registry.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::CodexV1 | Self::CodexV2 => "codex",
            Self::OpenCode => "opencode",
            Self::Copilot => "copilot",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::Kilo => "kilo",
            Self::Kimi => "kimi",
            Self::Cline => "cline",
        }
    }

    /// What a line of the report adds to the script's name.
    pub(crate) fn variant(self) -> &'static str {
        match self {
            Self::CodexV1 => "V1",
            Self::CodexV2 => "V2",
            Self::ClaudeCode
            | Self::OpenCode
            | Self::Copilot
            | Self::Gemini
            | Self::Qwen
            | Self::Kilo
            | Self::Kimi
            | Self::Cline => "",
        }
    }

    /// Whether its agents may have agents.
    pub(crate) fn nests(self) -> bool {
        !matches!(self, Self::Gemini | Self::CodexV2)
    }

    /// Whether one waits for agents by a call.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Self::CodexV1 | Self::CodexV2)
    }

    /// Whether the ids of calls are those that the model gave.
    pub(crate) fn keeps_call_ids(self) -> bool {
        self != Self::Gemini
    }

    /// The call that starts an agent.
    pub(crate) fn spawn(self, id: &str, prompt: &str) -> Tool {
        let name = id.to_lowercase();
        match self {
            Self::ClaudeCode => tool(
                "Agent",
                json!({"description": format!("Task {name}"), "prompt": prompt,
                "subagent_type": "general-purpose", "run_in_background": false}),
            ),
            Self::CodexV1 => codex_tool("multi_agent_v1", "spawn_agent", json!({"message": prompt})),
            Self::CodexV2 => {
                let input = json!({"task_name": format!("task_{name}"), "message": prompt});
                codex_tool("collaboration", "spawn_agent", input)
            }
            Self::OpenCode | Self::Kilo => tool(
                "task",
                json!({"description": format!("Task {name}"), "prompt": prompt,
                "subagent_type": "worker"}),
            ),
            Self::Cline => {
                tool("spawn_agent", json!({"systemPrompt": format!("You are {name}."), "task": prompt}))
            }
            Self::Kimi => tool(
                "Agent",
                json!({"description": format!("Task {name}"), "prompt": prompt,
                "subagent_type": "worker"}),
            ),
            Self::Copilot => tool(
                "task",
                json!({"name": name, "description": format!("Task {name}"), "prompt": prompt,
                "agent_type": "general-purpose", "mode": "sync"}),
            ),
            Self::Gemini => tool("invoke_agent", json!({"agent_name": "worker", "prompt": prompt})),
            Self::Qwen => tool(
                "agent",
                json!({"description": format!("Task {name}"), "prompt": prompt,
                "subagent_type": "general-purpose", "run_in_background": false}),
            ),
        }
    }

    /// The call that runs a command.
    pub(crate) fn shell(self, command: &str) -> Tool {
        match self {
            Self::CodexV1 | Self::CodexV2 => {
                tool("exec_command", json!({"cmd": command, "yield_time_ms": 5000}))
            }
            Self::ClaudeCode => tool("Bash", json!({"command": command, "description": "Run it"})),
            Self::Kimi => tool("Bash", json!({"command": command})),
            Self::Cline => tool("run_commands", json!({"commands": [command]})),
            Self::OpenCode | Self::Copilot | Self::Kilo => {
                tool("bash", json!({"command": command, "description": "Run it"}))
            }
            Self::Gemini => tool("run_shell_command", json!({"command": command, "description": "Run it"})),
            Self::Qwen => tool(
                "run_shell_command",
                json!({"command": command, "description": "Run it", "is_background": false}),
            ),
        }
    }

    /// The call that waits for the agent that was started last; the second generation waits for any.
    pub(crate) fn wait(self) -> Tool {
        if self == Self::CodexV1 {
            let last = r#"{{re:"agent_id":\s*"([0-9a-f-]{36})"}}"#;
            let input = json!({"targets": [last], "timeout_ms": 20_000});
            return codex_tool("multi_agent_v1", "wait_agent", input);
        }
        codex_tool("collaboration", "wait_agent", json!({"timeout_ms": 20_000}))
    }

    /// The call by which an agent says its last words, where it takes one.
    pub(crate) fn last_words(self, said: &str) -> Option<Tool> {
        (self == Self::Gemini).then(|| tool("complete_task", json!({"result": said})))
    }

    /// Accepted statuses of a command with this ending: not every harness reports the exit code in a field.
    pub(crate) fn ending(self, ends: ToolStatus) -> &'static [ToolStatus] {
        match ends {
            ToolStatus::Error if matches!(self, Self::Gemini | Self::Qwen) => {
                &[ToolStatus::Error, ToolStatus::Ok]
            }
            ToolStatus::Error => &[ToolStatus::Error],
            // Nothing denies a call of it but a hook that ends the agent.
            ToolStatus::Denied if self == Self::Cline => &[ToolStatus::Ok],
            // It is a hook that refuses, and only its words say so.
            ToolStatus::Denied if self == Self::Kimi => &[ToolStatus::Denied, ToolStatus::Error],
            ToolStatus::Denied => &[ToolStatus::Denied],
            ToolStatus::Ok => &[ToolStatus::Ok],
            ToolStatus::Open => &[ToolStatus::Open],
        }
    }

    /// Writes its settings: the fake model server, and a rule against `rm`.
    pub(crate) fn configure(self, env: &TestEnv, url: &str, program: &Path) -> Result<()> {
        // In a file that records no end, the last text counts as final after this time.
        env.write("config/subscope/config.toml", "[watch]\nstall = '2s'\n");
        match self {
            Self::ClaudeCode => {
                let rules = json!({"allow": ["Agent", "Bash"], "deny": ["Bash(rm *)"]});
                write_json(env, "home/.claude/settings.json", &json!({"permissions": rules}));
            }
            Self::CodexV1 | Self::CodexV2 => {
                env.write("home/.codex/config.toml", format!(
                    "model = \"{CODEX_MODEL}\"\nmodel_provider = \"rig\"\ncheck_for_update_on_startup = false\n\
                     [agents]\nmax_depth = 3\n[analytics]\nenabled = false\n[model_providers.rig]\nname = \"rig\"\n\
                     base_url = \"{url}/v1\"\nwire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n"
                ));
                let answer = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                    "permissionDecisionReason": "no deleting"}});
                let script = env.write(
                    "home/deny",
                    format!("#!/bin/sh\ncase $(cat) in *'rm -rf build'*) echo '{answer}';; esac\n"),
                );
                fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
                    .context("cannot make a script")?;
                let hook = json!({"type": "command", "command": script});
                let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
                write_json(env, "home/.codex/hooks.json", &hooks);
            }
            Self::OpenCode => {
                write_json(env, "config/opencode/opencode.json", &opencode_settings(url));
                // What it would fetch from npm to load a plugin.
                let modules = program.ancestors().find(|above| above.ends_with("node_modules"));
                let modules = modules.context("the program is in no folder of npm")?;
                symlink(modules, env.path("config/opencode/node_modules"))?;
                let package = fs::read(modules.join(PLUGIN_PACKAGE).join("package.json"))?;
                let package: Value = serde_json::from_slice(&package)?;
                let wanted = json!({"dependencies": {PLUGIN_PACKAGE: package["version"]}});
                write_json(env, "config/opencode/package.json", &wanted);
            }
            Self::Kilo => write_json(env, "config/kilo/kilo.json", &opencode_settings(url)),
            Self::Kimi => {
                let script = env.write(
                    "home/deny",
                    "#!/bin/sh\ncase $(cat) in *'rm -rf build'*) echo 'no deleting' >&2; exit 2;; esac\n",
                );
                fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
                    .context("cannot make a script")?;
                env.write(
                    "home/.kimi-code/config.toml",
                    format!(
                        "default_model = \"rig\"\ntelemetry = false\n[models.rig]\nprovider = \"rig\"\n\
                         model = \"stand-in\"\nmax_context_size = 100000\n[providers.rig]\ntype = \"openai\"\n\
                         base_url = \"{url}/v1\"\napi_key = \"none\"\n[loop_control]\nmax_attempts_per_step = 2\n\
                         [[hooks]]\nevent = \"PreToolUse\"\ncommand = \"{}\"\n",
                        script.display()
                    ),
                );
                env.write(
                    "home/.kimi-code/agents/worker.md",
                    "---\nname: worker\ndescription: works\ntools: [Bash, Read, Agent]\nsubagents: [worker]\n---\n\
                     You work.\n",
                );
            }
            Self::Cline => {
                let settings = json!({"provider": "openai-compatible", "apiKey": "none", "model": "stand-in",
                    "baseUrl": format!("{url}/v1")});
                let provider = json!({"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z",
                    "tokenSource": "manual"});
                write_json(
                    env,
                    "home/.cline/data/settings/providers.json",
                    &json!({"version": 1, "lastUsedProvider": "openai-compatible", "modes": {},
                        "providers": {"openai-compatible": provider}}),
                );
            }
            Self::Copilot => {}
            Self::Gemini => {
                write_json(
                    env,
                    "home/.gemini/settings.json",
                    &json!({
                        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
                        "general": {"disableAutoUpdate": true, "disableUpdateNag": true},
                        "privacy": {"usageStatisticsEnabled": false}, "experimental": {"enableAgents": true},
                        "model": {"name": "gemini-2.5-flash"},
                    }),
                );
                env.write(
                    "home/.gemini/agents/worker.md",
                    "---\nname: worker\ndescription: works\nkind: local\n\
                    model: gemini-2.5-flash\nmax_turns: 8\ntools:\n  - run_shell_command\n---\nYou work.\n",
                );
                env.write(
                    "home/.gemini/policies/deny.toml",
                    "[[rule]]\ntoolName = \"run_shell_command\"\n\
                    commandPrefix = \"rm\"\ndecision = \"deny\"\npriority = 999\n",
                );
            }
            Self::Qwen => {
                write_json(
                    env,
                    "home/.qwen/settings.json",
                    &json!({
                        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": false}},
                        "general": {"disableAutoUpdate": true}, "privacy": {"usageStatisticsEnabled": false},
                        "model": {"name": "gpt-5"}, "permissions": {"deny": ["Bash(rm *)"]},
                    }),
                );
            }
        }
        Ok(())
    }

    /// Where it keeps its sessions, below the root of the environment.
    pub(crate) fn sessions(self) -> &'static str {
        match self {
            Self::ClaudeCode => "home/.claude/projects",
            Self::CodexV1 | Self::CodexV2 => "home/.codex/sessions",
            Self::OpenCode => "data/opencode",
            Self::Copilot => "home/.copilot/session-state",
            Self::Gemini => "home/.gemini/tmp",
            Self::Qwen => "home/.qwen/projects",
            Self::Kilo => "data/kilo",
            Self::Kimi => "home/.kimi-code/sessions",
            Self::Cline => "home/.cline/data/sessions",
        }
    }

    /// The file that its hooks are installed in, where it has hooks.
    pub(crate) fn hooks_file(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("home/.claude/settings.json"),
            Self::CodexV1 | Self::CodexV2 => Some("home/.codex/hooks.json"),
            Self::OpenCode => Some("config/opencode/plugin/subscope.js"),
            Self::Copilot => Some("home/.copilot/hooks/subscope.json"),
            Self::Gemini => Some("home/.gemini/settings.json"),
            Self::Qwen => Some("home/.qwen/settings.json"),
            // Hooks of Kimi Code and Cline CLI are installed by hand, and Kilo CLI has none.
            Self::Kilo | Self::Kimi | Self::Cline => None,
        }
    }

    /// Whether the answer to a hook ends one of its agents.
    pub(crate) fn can_stop_agents(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Copilot | Self::OpenCode)
    }

    /// Variables of its environment.
    pub(crate) fn variables(self, url: &str) -> Vec<(&'static str, String)> {
        let fixed: &[(&str, &str)] = match self {
            Self::ClaudeCode => return claude_variables(url),
            Self::CodexV1 | Self::CodexV2 => &[],
            Self::OpenCode => &[
                ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
            ],
            Self::Copilot => &[
                ("COPILOT_OFFLINE", "true"),
                ("COPILOT_PROVIDER_BASE_URL", "{url}/v1"),
                ("COPILOT_PROVIDER_API_KEY", "none"),
                ("COPILOT_MODEL", "gpt-5"),
                ("COPILOT_AUTO_UPDATE", "false"),
            ],
            Self::Gemini => &[
                ("GEMINI_API_KEY", "none"),
                ("GOOGLE_GEMINI_BASE_URL", "{url}"),
                ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            ],
            Self::Kilo => &[
                ("KILO_DISABLE_AUTOUPDATE", "1"),
                ("KILO_DISABLE_MODELS_FETCH", "1"),
                ("KILO_DISABLE_LSP_DOWNLOAD", "1"),
                ("KILO_DISABLE_DEFAULT_PLUGINS", "1"),
                ("KILO_DISABLE_SESSION_INGEST", "1"),
                ("KILO_TELEMETRY_LEVEL", "off"),
            ],
            Self::Cline => &[("CLINE_TELEMETRY_DISABLED", "1"), ("CLINE_SESSION_BACKEND_MODE", "local")],
            Self::Kimi => &[("KIMI_CODE_NO_AUTO_UPDATE", "1"), ("KIMI_DISABLE_TELEMETRY", "1")],
            Self::Qwen => {
                &[("OPENAI_API_KEY", "none"), ("OPENAI_BASE_URL", "{url}/v1"), ("OPENAI_MODEL", "gpt-5")]
            }
        };
        fixed.iter().map(|(name, value)| (*name, value.replace("{url}", url))).collect()
    }

    /// Whether it resumes a session without a terminal (Cline CLI 3.0.65 does not).
    pub(crate) fn resumes(self) -> bool {
        self != Self::Cline
    }

    /// Its arguments for a prompt, in a new session or in the last one.
    pub(crate) fn arguments(self, prompt: &str, is_resumed: bool) -> Vec<String> {
        let words: &[&str] = match (self, is_resumed) {
            (Self::ClaudeCode, false) => &["--output-format", "stream-json", "--verbose", "-p"],
            (Self::ClaudeCode, true) => &["--continue", "--output-format", "stream-json", "--verbose", "-p"],
            (Self::CodexV1 | Self::CodexV2, _) => &[
                "exec",
                "--json",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "--dangerously-bypass-hook-trust",
            ],
            (Self::OpenCode | Self::Kilo, false) => &["run", "--format", "json"],
            (Self::OpenCode | Self::Kilo, true) => &["run", "--format", "json", "--continue"],
            (Self::Copilot, false) => {
                &["--output-format", "json", "--allow-all-tools", "--deny-tool", "shell(rm)", "-p"]
            }
            (Self::Copilot, true) => &[
                "--continue",
                "--output-format",
                "json",
                "--allow-all-tools",
                "--deny-tool",
                "shell(rm)",
                "-p",
            ],
            (Self::Gemini, false) => &["--output-format", "stream-json", "--yolo", "-p"],
            (Self::Gemini, true) => &["--resume", "latest", "--output-format", "stream-json", "--yolo", "-p"],
            // It resumes at a terminal alone: no prompt asks for that.
            (Self::Cline, _) => &["--json", "-P", "openai-compatible", "-m", "stand-in"],
            (Self::Kimi, false) => &["--output-format", "stream-json", "-p"],
            (Self::Kimi, true) => &["--continue", "--output-format", "stream-json", "-p"],
            (Self::Qwen, false) => &["--output-format", "stream-json", "--yolo", "-p"],
            (Self::Qwen, true) => &["--continue", "--output-format", "stream-json", "--yolo", "-p"],
        };
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        if self == Self::CodexV2 {
            words.extend(["--enable", "multi_agent_v2"].map(str::to_owned));
        }
        if is_resumed && matches!(self, Self::CodexV1 | Self::CodexV2) {
            words.extend(["resume", "--last"].map(str::to_owned));
        }
        words.push(prompt.to_owned());
        words
    }
}

/// The settings of OpenCode and its forks.
fn opencode_settings(url: &str) -> Value {
    let model = json!({"name": "stand-in", "reasoning": true, "tool_call": true,
        "cost": {"input": 1, "output": 2, "cache_read": 0.1}, "limit": {"context": 200_000, "output": 8000}});
    let worker = json!({"mode": "subagent", "description": "works", "prompt": "You work.",
        "permission": {"task": "allow"}});
    json!({
        "autoupdate": false, "share": "disabled", "subagent_depth": 3,
        "model": "rig/stand-in", "small_model": "rig/stand-in",
        "provider": {"rig": {"npm": "@ai-sdk/openai-compatible", "name": "rig", "models": {"stand-in": model},
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "none"}}},
        "permission": {"bash": {"*": "allow", "rm *": "deny"}},
        "agent": {"worker": worker},
    })
}

fn tool(name: &str, input: Value) -> Tool {
    Tool { name: name.to_owned(), namespace: None, input }
}

fn codex_tool(namespace: &str, name: &str, input: Value) -> Tool {
    Tool { namespace: Some(namespace.to_owned()), ..tool(name, input) }
}

fn write_json(env: &TestEnv, path: &str, value: &Value) {
    env.write(path, value.to_string());
}
