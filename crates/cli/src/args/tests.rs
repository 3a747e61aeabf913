//! Tests of accepted command lines, and snapshots of the help of each command.

use clap::{ColorChoice, CommandFactory, Parser, error::ErrorKind};
use subscope_harness::claude_code::HOOK;
use subscope_program::{Verbosity, parse_listen};
use subscope_render::Detail;

use super::{value::Moment, *};

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(["subscope"].into_iter().chain(line.split_whitespace()))
}

fn tree(line: &str) -> TreeArgs {
    let CliCommand::Tree(args) = parse(line).unwrap().command.unwrap() else { panic!("{line}") };
    args
}

#[test]
fn definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn help_of_each_command() {
    let mut command = Cli::command().term_width(100);
    command.build();
    insta::assert_snapshot!("help", command.render_long_help());
    for inner in command.get_subcommands_mut() {
        let name = format!("help_{}", inner.get_name());
        insta::assert_snapshot!(name.clone(), inner.render_long_help());
        for innermost in inner.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
            let name = format!("{name}_{}", innermost.get_name());
            insta::assert_snapshot!(name, innermost.render_long_help());
        }
    }
}

#[test]
fn every_option_and_command_has_a_sentence() {
    let mut command = Cli::command();
    command.build();
    let innermost = command.get_subcommands().flat_map(clap::Command::get_subcommands);
    for inner in command.get_subcommands().chain(innermost) {
        assert!(inner.get_about().is_some(), "{}", inner.get_name());
        for argument in inner.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", inner.get_name(), argument.get_id());
        }
    }
}

#[test]
fn read_tree_with_all_options() {
    let args =
        tree("tree a b --detail full --agent a70 --at -5m --json --dialect claude.hook --width 80 --flat");
    assert_eq!((args.targets.len(), args.detail, args.width), (2, Some(Detail::Full), Some(80)));
    assert_eq!(args.at, Some(Moment::Ago(std::time::Duration::from_secs(300))));
    assert_eq!((args.dialect, args.json, args.flat), (Some(HOOK), true, true));
    assert_eq!(tree("tree -").targets, ["-"]);
}

#[test]
fn global_options_stand_before_or_after_the_command() {
    for line in ["--color never --strict -q tree x", "tree x --color never --strict -q"] {
        let global = parse(line).unwrap().global;
        assert_eq!((global.color, global.strict), (Some(ColorChoice::Never), true));
        assert_eq!(global.verbosity(), Verbosity::Quiet);
    }
    assert_eq!(parse("-v watch --verbose").unwrap().global.verbosity(), Verbosity::Verbose);
    assert_eq!(parse("watch --verbose").unwrap().global.verbosity(), Verbosity::Normal);
}

#[test]
fn refuse_wrong_usage_with_code_two() {
    for line in [
        "tree",
        "tree x --detail invalid",
        "tree x --detail=",
        "tree x --at never",
        "tree x --width 5",
        "nonsense",
        "tree x --dialect claude",
        "export x",
        "export x --as xml",
        "export x --as checkpoint",
        "import",
        "watch --heartbeat 2m",
        "watch --stall 0s",
        "watch --stall ten",
        "serve --listen 7337",
        "demo --speed 0",
        "completions tcl",
        "config edit",
        "hooks",
        "hooks install --scope all",
        "hooks install --command --http",
        "hooks install --url http://localhost:1",
        "hooks install --with-token",
        "hooks remove --json",
        "tree x -q -v",
        "tree x --color maybe",
        "replay",
        "replay x --speed 0",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
    let error = parse("tree x --detail invalid").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(error.to_string().contains("off, minimal, moderate, full"));
}

#[test]
fn read_addresses() {
    for (word, listen) in [("127.0.0.1:0", "127.0.0.1:0"), (":0", "127.0.0.1:0"), ("[::1]:80", "[::1]:80")] {
        let command = parse(&format!("serve --listen {word}")).unwrap().command.unwrap();
        let CliCommand::Serve(args) = command else { panic!("{word}") };
        assert_eq!(args.listen.unwrap().to_string(), listen);
    }
}

#[test]
fn defaults_in_help_are_those_of_the_settings() {
    let defaults = LoadedConfig::default().settings;
    let watch = defaults.watch;
    let command = Cli::command();
    let told = |command: &clap::Command, option: &str| {
        let help = command.get_arguments().find(|argument| argument.get_id() == option).unwrap().get_help();
        let help = help.unwrap().to_string();
        help.split_once("[default: ").unwrap().1.trim_end_matches(']').to_owned()
    };
    for name in ["watch", "run", "serve"] {
        let command = command.find_subcommand(name).unwrap();
        for (option, expected) in [
            ("heartbeat", watch.heartbeat),
            ("stall", watch.stall),
            ("stall_subagents", watch.stall_subagents),
        ] {
            assert_eq!(value::parse_duration(&told(command, option)), Ok(expected), "{name} --{option}");
        }
    }
    let serve = command.find_subcommand("serve").unwrap();
    assert_eq!(parse_listen(&told(serve, "listen")), Ok(defaults.hub.listen));
}

#[test]
fn flags_become_a_layer_of_settings() {
    let cli =
        parse("--ascii watch --verbose --heartbeat 5s --stall 1m --stall-subagents 2h --prices p").unwrap();
    let mut config = LoadedConfig::default();
    apply_global(&cli.global, &mut config);
    cli.command.unwrap().apply_to(&mut config);
    let told: Vec<String> = config
        .rows()
        .into_iter()
        .filter_map(|row| Some(format!("{} {}", row.origin.place?, row.value)))
        .collect();
    assert_eq!(
        told,
        [
            "--ascii true",
            "--prices \"p\"",
            "--verbose true",
            "--heartbeat \"5s\"",
            "--stall \"1m\"",
            "--stall-subagents \"2h\"",
        ]
    );
}
