//! `packaging/plugins` is what the tables of `hooks install` give: one folder for each client, its catalogs, the skill.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use subscope_harness::{HookHandler, SKILL_FILE, hooked, hooks_of};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/plugins");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const WRITES_TREE: &str = "SUBSCOPE_WRITE_GENERATED";
const SKILL: &str = include_str!("plugins/SKILL.md");
const VERSION: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
const LICENSE: &str = env!("CARGO_PKG_LICENSE");
const ABOUT: &str =
    "Shows, live and afterwards, what every subagent does: tree, calls, waits, tokens, cost, ending.";
const KEYWORDS: [&str; 5] = ["subagents", "observability", "tracing", "cost", "mcp"];

/// Finds the program in PATH, else in the usual folders, since graphical programs start clients with a short PATH. Without
/// it nothing happens. No path and no version are in it: a client that trusts commands would have to trust it anew.
const FIND: &str = "s=$(command -v subscope || { for d in \"$HOME/.local/bin\" \"$HOME/.cargo/bin\" /opt/homebrew/bin \
                    /usr/local/bin; do [ -x \"$d/subscope\" ] && { echo \"$d/subscope\"; break; }; done; }); \
                    [ -n \"$s\" ] || exit 0; exec \"$s\" hook";

/// Files by their path in the tree.
type Files = BTreeMap<String, String>;

fn command(harness: &str, event: Option<&str>) -> String {
    // A plugin of the default harness is read by others, too; then their variables name the caller.
    let harness = if harness == "claude-code" { String::new() } else { format!(" --harness {harness}") };
    let event = event.map(|event| format!(" --event {event}")).unwrap_or_default();
    format!("{FIND}{harness}{event} --plugin")
}

/// The hooks of a harness as its settings have them.
fn hooks(harness: &str) -> Value {
    let (_, support) = hooks_of(harness).unwrap();
    let settings = support.settings("").unwrap();
    // Every event of the newest version: clients with plugins ignore those that they do not know.
    let events = support.events(Some([u32::MAX; 3]));
    let handler = |event: &str| HookHandler::Command(command(harness, Some(event)));
    let wanted: Vec<_> = events.iter().map(|event| (event.name, handler(event.name))).collect();
    settings.install(&wanted);
    serde_json::from_str(&settings.text()).unwrap()
}

fn readme(client: &str, add: &str) -> String {
    format!(
        "# subscope for {client}\n\n{ABOUT}\n\nThis plugin sends the events of agents and subagents to subscope on this machine, \
         and lets agents ask about\nthem. Install the program first (`npm install -g subscope`, or see {REPOSITORY});\n\
         without it the plugin does nothing. Events go over a private socket of yours; nothing leaves the machine. Beside\n\
         `subscope hooks install` each event counts once.\n\n```sh\n{add}\n```\n\nRemoved by the client, nothing stays \
         behind. License: {LICENSE}.\n"
    )
}

/// Makes the whole tree.
fn made() -> Files {
    let mut files = Files::new();
    let mut put = |path: &str, value: &Value| {
        let text = serde_json::to_string_pretty(value).unwrap() + "\n";
        assert!(files.insert(path.to_owned(), text).is_none(), "{path}");
    };
    let meta = |extra: Value| {
        let mut manifest = json!({
            "name": "subscope", "version": VERSION, "description": ABOUT, "author": {"name": "subscope"},
            "homepage": REPOSITORY, "repository": REPOSITORY, "license": LICENSE, "keywords": KEYWORDS,
        });
        manifest.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        manifest
    };
    let server = json!({"command": "subscope", "args": ["mcp", "query"]});
    let with = |extra: Value| {
        let mut server = server.clone();
        server.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"mcpServers": {"subscope": server}})
    };
    let catalog = |source: &str| {
        json!({
            "name": "subscope", "owner": {"name": "subscope"}, "metadata": {"description": ABOUT, "version": VERSION},
            "plugins": [{"name": "subscope", "source": source, "version": VERSION, "description": ABOUT}],
        })
    };

    put(".claude-plugin/marketplace.json", &catalog("./plugins/claude-code"));
    put("plugins/claude-code/.claude-plugin/plugin.json", &meta(json!({})));
    put("plugins/claude-code/hooks/hooks.json", &hooks("claude-code"));
    put("plugins/claude-code/.mcp.json", &with(json!({})));

    put(
        ".agents/plugins/marketplace.json",
        &json!({
            "name": "subscope", "interface": {"displayName": "subscope"},
            "plugins": [{
                "name": "subscope", "source": {"source": "local", "path": "./plugins/codex"},
                "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}, "category": "Developer Tools",
            }],
        }),
    );
    put(
        "plugins/codex/.codex-plugin/plugin.json",
        &meta(json!({
            "skills": "./skills/", "mcpServers": "./.mcp.json", "hooks": "./hooks/hooks.json",
            "interface": {
                "displayName": "subscope", "shortDescription": ABOUT, "longDescription": ABOUT, "developerName": "subscope",
                "category": "Developer Tools", "capabilities": ["Read"], "websiteURL": REPOSITORY,
            },
        })),
    );
    put("plugins/codex/hooks/hooks.json", &hooks("codex"));
    // It passes no other variables to MCP servers, and the hub's folder may be named by one.
    let variables = ["SUBSCOPE_DATA_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"];
    put("plugins/codex/.mcp.json", &with(json!({"env_vars": variables})));

    put(".github/plugin/marketplace.json", &catalog("./plugins/copilot"));
    put(
        "plugins/copilot/plugin.json",
        &meta(json!({"skills": "skills/", "hooks": "hooks.json", "mcpServers": ".mcp.json"})),
    );
    put("plugins/copilot/hooks.json", &hooks("copilot"));
    put("plugins/copilot/.mcp.json", &with(json!({"type": "local", "tools": ["*"]})));

    let extension = |more: Value| {
        let mut manifest = json!({"name": "subscope", "version": VERSION, "description": ABOUT});
        manifest.as_object_mut().unwrap().extend(with(json!({})).as_object().unwrap().clone());
        manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        manifest
    };
    put("plugins/gemini/gemini-extension.json", &extension(json!({})));
    put("plugins/gemini/hooks/hooks.json", &hooks("gemini"));
    put("plugins/qwen/qwen-extension.json", &extension(hooks("qwen")));

    // Agent Plugins 1.0.0 has no hooks.
    let schema = |name: &str| json!({"$schema": format!("https://agent-plugins.org/schemas/1.0.0/{name}.schema.json")});
    put("plugins/agent-plugins/plugin.json", &meta(schema("plugin")));
    let mut portable = with(json!({"type": "stdio"}));
    portable.as_object_mut().unwrap().extend(schema("mcp").as_object().unwrap().clone());
    put("plugins/agent-plugins/mcp.json", &portable);

    // OpenCode executes the command, so a shell has to be named.
    let (_, opencode) = hooks_of("opencode").unwrap();
    let settings = opencode.settings("").unwrap();
    let script = command("opencode", None);
    assert!(!script.contains('\''));
    let shell = HookHandler::Command(format!("sh -c '{script}'"));
    let events = opencode.events(None);
    settings.install(&events.iter().map(|event| (event.name, shell.clone())).collect::<Vec<_>>());
    put(
        "opencode/package.json",
        &json!({
            "name": "opencode-subscope", "version": VERSION, "description": ABOUT, "license": LICENSE,
            "repository": REPOSITORY, "keywords": KEYWORDS, "type": "module", "main": "index.js", "files": ["index.js"],
        }),
    );
    let text = settings.text();
    let (installed, rest) = text.split_once('\n').unwrap();
    assert!(installed.starts_with("// Installed by `subscope hooks install"), "{installed}");
    let module = format!(
        "// The npm package opencode-subscope, made by `cargo xtask plugins` in {REPOSITORY}.\n{rest}"
    );
    files.insert("opencode/index.js".to_owned(), module);

    for (folder, client, add) in [
        (
            "plugins/claude-code",
            "Claude Code",
            "claude plugin marketplace add subscope/plugins\nclaude plugin install subscope@subscope",
        ),
        (
            "plugins/codex",
            "Codex",
            "codex plugin marketplace add subscope/plugins\ncodex plugin add subscope@subscope\n# then trust its hooks: /hooks",
        ),
        (
            "plugins/copilot",
            "Copilot CLI",
            "copilot plugin marketplace add subscope/plugins\ncopilot plugin install subscope@subscope",
        ),
        ("plugins/gemini", "Gemini CLI", "gemini extensions install PATH_OF_THIS_FOLDER"),
        ("plugins/qwen", "Qwen Code", "qwen extensions install PATH_OF_THIS_FOLDER"),
        ("plugins/agent-plugins", "clients of Agent Plugins 1.0", "# as your client says; it has no hooks"),
        ("opencode", "OpenCode", "# in opencode.json: \"plugin\": [\"opencode-subscope\"]"),
    ] {
        files.insert(format!("{folder}/README.md"), readme(client, add));
        if folder != "opencode" {
            files.insert(format!("{folder}/{SKILL_FILE}"), SKILL.to_owned());
        }
    }
    files.insert(SKILL_FILE.to_owned(), SKILL.to_owned());
    files.insert(
        "README.md".to_owned(),
        format!(
            "# Plugins of subscope\n\n{ABOUT}\n\nMade by `cargo xtask plugins` in {REPOSITORY}; published at the root of a\n\
             repository, where clients look for their catalogs. `plugins/` has a folder for each client, `opencode/` an npm\n\
             package, `skills/` the skill alone.\n"
        ),
    );
    files
}

/// The files of a folder that exist.
fn files_below(folder: &Path, root: &Path, found: &mut Files) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, root, found);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn plugins_are_what_the_tables_give() {
    let (folder, made) = (Path::new(FOLDER), made());
    if std::env::var_os(WRITES_TREE).is_some() {
        let _ = fs::remove_dir_all(folder);
        for (name, text) in &made {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    let mut found = Files::new();
    files_below(folder, folder, &mut found);
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&made), "run `cargo xtask plugins`");
    for (name, text) in &made {
        assert_eq!(&found[name], text, "{name}: run `cargo xtask plugins`");
    }
}

/// Every harness with hooks has a plugin that runs them, each event with a command of its own.
#[test]
fn every_harness_with_hooks_has_a_plugin() {
    let texts: Vec<String> = made().into_values().collect();
    for (harness, support) in hooked() {
        let name = harness.name();
        for event in support.events(Some([u32::MAX; 3])).iter().map(|event| event.name) {
            // OpenCode's plugin has one command for all events.
            let event_of_command = Some(event).filter(|_| name != "opencode");
            let command = json!(command(name, event_of_command)).to_string();
            let has_both = |text: &&String| {
                text.contains(command.trim_matches('"')) && text.contains(&format!("\"{event}\""))
            };
            assert!(texts.iter().any(|text| has_both(&text)), "{name}: {event}");
            assert!(!command.contains(VERSION), "a command with a version loses its trust");
        }
    }
}

/// The names of fields, tools and commands in the skill exist.
#[test]
fn skill_names_what_there_is() {
    let text = |path: &str| fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    let known = text("docs/src/schemas/tree.json") + &text("crates/mcp/src/query/tools.rs");
    let known = known + &text("crates/mcp/src/query/answers.rs");
    let commands = text("docs/src/cli.md");
    let mut checked = 0;
    for word in SKILL.split('`').skip(1).step_by(2) {
        let is_name = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if let Some(command) = word.strip_prefix("subscope ") {
            let name = command.split(' ').next().unwrap();
            assert!(commands.contains(&format!("### subscope {name}\n")), "{word}");
        } else if is_name(word) && word != "subscope" {
            assert!(known.contains(&format!("\"{word}\"")), "{word}");
        } else {
            assert_eq!(word, "subscope");
        }
        checked += 1;
    }
    assert!(checked > 15, "{checked}");
}
