//! Which commands start an agent that speaks the protocol on its standard streams.

use super::AcpAgent;
use crate::{PROGRAM, harnesses};

/// Programs that run a package of a registry, whose name is one of their words.
const PACKAGE_RUNNERS: &[&str] = &["npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "uvx"];
/// Options with which a program speaks the protocol.
const OPTIONS: &[&str] = &["--acp", "--experimental-acp"];
/// The subcommand with which it does.
const SUBCOMMAND: &str = "acp";

/// Whether a program, by the name of its file, speaks the protocol with these arguments: it is known for that and nothing else,
/// or has an option or a first word that says so.
pub fn is_acp_command(program: &str, arguments: &[&str]) -> bool {
    // Ours decides by itself about what it runs.
    if program == PROGRAM {
        return false;
    }
    let is_package = |word: &&str| {
        let name = word.rfind('@').filter(|at| *at > 0).and_then(|at| word.get(..at)).unwrap_or(word);
        is_program(name) || rows().any(|row| row.names.contains(&name))
    };
    let is_run = PACKAGE_RUNNERS.contains(&program) && arguments.iter().any(is_package);
    let mut words = arguments.iter().take_while(|word| **word != "--");
    // The word behind a short option may be its value.
    let first = words.clone().find(|word| !word.starts_with("--"));
    is_program(program) || is_run || first == Some(&SUBCOMMAND) || words.any(|word| OPTIONS.contains(word))
}

fn is_program(name: &str) -> bool {
    rows().any(|row| row.programs.contains(&name))
}

fn rows() -> impl Iterator<Item = &'static AcpAgent> {
    harnesses().filter_map(|harness| harness.acp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_speak_the_protocol_are_known_by_their_words() {
        let is = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            is_acp_command(words[0], &words[1..])
        };
        for words in [
            "codex-acp",
            "claude-agent-acp --verbose",
            "claude-code-acp",
            "kimi acp",
            "kilo --print-logs acp",
            "omp acp",
            "gemini --acp",
            "gemini --experimental-acp",
            "qwen --acp",
            "npx -y @agentclientprotocol/codex-acp@2.6.0",
            "npx @zed-industries/claude-code-acp",
            "bunx codex-acp",
        ] {
            assert!(is(words), "{words}");
        }
        for words in [
            "codex exec hi",
            "claude -p acp",
            "gemini -- --acp",
            "kimi mcp list",
            "npx prettier",
            "subscope run -- codex-acp",
            "cat @agentclientprotocol/codex-acp",
        ] {
            assert!(!is(words), "{words}");
        }
    }
}
