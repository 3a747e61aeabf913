//! The deployments in `docs/teams` and the command line agree: every server's command is accepted, and proxies, probes
//! and mounts name what it says.

use std::{collections::BTreeSet, fs, path::Path};

use clap::Parser;
use subscope_program::{TEAM_PROGRAM, TeamProgram, TeamServerCommand};

use super::root;

/// A server's command in a deployment, and the file's text without comments.
struct Deployment {
    name: String,
    text: String,
    server: Server,
}

/// What a server's command says.
struct Server {
    port: u16,
    token_file: String,
}

/// Returns the text of a file without its comments.
fn text_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Returns the words of the commands in a unit, and in the lists `command:` and `args:` of a YAML file.
fn commands(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let unit = joined.lines().filter_map(|line| line.strip_prefix("ExecStart="));
    let mut commands: Vec<Vec<String>> =
        unit.map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect()).collect();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if matches!(line.trim(), "command:" | "args:") {
            let items = lines.clone().map_while(|line| line.trim_start().strip_prefix("- "));
            commands.push(items.map(str::to_owned).collect());
        }
    }
    commands
}

/// Parses the command of a server.
fn server(name: &str, words: &[String]) -> Server {
    let words = std::iter::once(TEAM_PROGRAM).chain(words.iter().map(String::as_str));
    let parsed = TeamProgram::try_parse_from(words).unwrap_or_else(|error| panic!("{name}: {error}"));
    let TeamServerCommand::Serve(args) = parsed.command else {
        panic!("{name} starts another command than `serve`")
    };
    let token_file = parsed.global.token_file.unwrap_or_else(|| panic!("{name} has no tokens"));
    Server { port: args.listen.port(), token_file: token_file.to_str().unwrap().to_owned() }
}

/// Returns all deployments; each file that can have a server's command has one.
fn deployments() -> Vec<Deployment> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("docs/teams")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".yaml") || name.ends_with(".service") {
                let text = text_of(&path);
                let commands = commands(&text);
                assert!(!commands.is_empty(), "no command was found in {name}");
                for words in commands {
                    found.push(Deployment {
                        name: name.clone(),
                        text: text.clone(),
                        server: server(&name, &words),
                    });
                }
            }
        }
    }
    found
}

/// Returns the numbers that follow a key of a YAML file.
fn numbers<'t>(text: &'t str, key: &'t str) -> impl Iterator<Item = u16> + 't {
    let values = text.split(key).skip(1).map(|rest| rest.trim_start());
    values.filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok())
}

#[test]
fn every_command_of_the_deployments_is_accepted() {
    let names: BTreeSet<String> = deployments().into_iter().map(|found| found.name).collect();
    let expected = ["compose.yaml", "subscope-team.service", "team.yaml"];
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn proxies_probes_and_services_name_the_port_of_the_servers() {
    let found = deployments();
    let compose = found.iter().find(|found| found.name == "compose.yaml").unwrap();
    let proxy = text_of(&root().join("docs/teams/Caddyfile"));
    let upstreams = proxy.lines().find_map(|line| line.trim().strip_prefix("reverse_proxy ")).unwrap();
    let upstreams: Vec<&str> = upstreams.trim_end_matches('{').split_whitespace().collect();
    assert!(upstreams.len() > 1, "{upstreams:?}");
    for upstream in upstreams {
        let (host, port) = upstream.split_once(':').unwrap();
        assert_eq!(port.parse(), Ok(compose.server.port), "{upstream}");
        assert!(compose.text.contains(&format!("\n  {host}:")), "{host} is no service");
    }
    let pods = found.iter().find(|found| found.name == "team.yaml").unwrap();
    for key in ["containerPort:", "httpGet: {path: /healthz, port:", "targetPort:"] {
        let ports: Vec<u16> = numbers(&pods.text, key).collect();
        assert!(!ports.is_empty() && ports.iter().all(|port| *port == pods.server.port), "{key} {ports:?}");
    }
}

#[test]
fn token_files_of_containers_are_in_mounted_folders() {
    for Deployment { name, text, server } in deployments().iter().filter(|found| found.name.ends_with("yaml"))
    {
        let folder = Path::new(&server.token_file).parent().unwrap().to_str().unwrap();
        // A file that is mounted by itself does not change when an editor replaces it.
        let is_mounted =
            text.contains(&format!(":{folder}:ro")) || text.contains(&format!("mountPath: {folder},"));
        assert!(is_mounted, "{name}: {folder}");
        assert!(!text.contains(&format!(":{}", server.token_file)), "{name}: {}", server.token_file);
    }
}

#[test]
fn commands_are_found_in_units_and_lists() {
    let found = |text: &str| commands(text).iter().map(|words| words.join(" ")).collect::<Vec<_>>();
    assert_eq!(found("[Service]\nExecStart=/usr/bin/subscope-team a \\\n    --b c\nUser=x\n"), ["a --b c"]);
    assert_eq!(found("x:\n  command:\n    - a\n    - --b=c\n  other: [d]\n"), ["a --b=c"]);
    assert_eq!(found("command: [sh, -c, x]\n"), [] as [String; 0]);
    assert_eq!(numbers("{port: 80, targetPort: 7338}", "targetPort:").collect::<Vec<_>>(), [7338]);
}
