//! What the command line accepts, and that its manual says the same.

use super::top::Colour;
use super::*;
use std::collections::BTreeSet;
use std::time::Duration;
use ttmem_tui::{ColourDepth, Tab};

const MANUAL: &str = include_str!("../../../../docs/cli.md");

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::parsed(line.split_whitespace()).map(|(cli, _matches)| cli)
}

fn serve(line: &str) -> ServeOptions {
    match parse(line).unwrap().command {
        Command::Serve(options) => options,
        other => panic!("{other:?}"),
    }
}

/// Every command with its own commands, as they are typed.
fn commands() -> Vec<(String, clap::Command)> {
    fn walk(name: &str, command: &clap::Command, found: &mut Vec<(String, clap::Command)>) {
        found.push((name.to_owned(), command.clone()));
        for each in command
            .get_subcommands()
            .filter(|each| each.get_name() != "help")
        {
            walk(&format!("{name} {}", each.get_name()), each, found);
        }
    }
    let mut root = Cli::command();
    root.build();
    let mut found = Vec::new();
    walk("ttmem", &root, &mut found);
    found
}

#[test]
fn clap_finds_the_definitions_sound() {
    Cli::command().debug_assert();
}

#[test]
fn defaults_are_those_of_the_manual() {
    let options = serve("ttmem serve");
    assert_eq!((options.socket_mode, options.max_clients), (0o660, 4096));
    assert_eq!((options.log_max_size, options.log_keep), (64 << 20, 4));
    assert_eq!(options.log_format, LogForm::Plain);
    assert!(options.board.is_none() && options.socket_group.is_none());
    assert!(options.http.is_none() && options.http_token_file.is_none());
    assert!(!options.no_legacy_socket && !options.python_buffer_types);
    assert_eq!(options.log_max_size, ttmem_server::log::DEFAULT_MAX_BYTES);
    assert_eq!(options.log_keep, ttmem_server::log::DEFAULT_MAX_FILES);
}

#[test]
fn values_are_understood() {
    let options = serve(
        "ttmem serve --socket-mode 0o600 --socket-group 1234 --board T3K --log-file /x \
         --log-max-size 2g --log-keep 1 --max-clients 1 -v",
    );
    assert_eq!(options.socket_mode, 0o600);
    assert_eq!(options.socket_group, Some(Gid::from_raw(1234)));
    assert_eq!(options.board, Some(BoardKind::T3000));
    assert_eq!((options.log_max_size, options.log_keep), (2 << 30, 1));
    assert!(options.verbose && !options.quiet);
    assert_eq!(
        serve("ttmem serve --socket-group root").socket_group,
        Some(Gid::from_raw(0))
    );
    let open = serve(
        "ttmem serve --socket /a --http [::]:0 --http-token-file /t --http-host a --http-host B.c",
    );
    assert_eq!(open.http, Some("[::]:0".parse().unwrap()));
    assert_eq!(open.http_token_file, Some(PathBuf::from("/t")));
    assert_eq!(open.http_host, ["a", "B.c"]);
    let everywhere = parse("ttmem status --socket /a").unwrap();
    assert_eq!(everywhere.socket, Some(PathBuf::from("/a")));
}

#[test]
fn a_story_is_chosen_by_options() {
    let demo = |line: &str| match parse(line).unwrap().command {
        Command::Demo(options) => options,
        other => panic!("{other:?}"),
    };
    let plain = demo("ttmem demo");
    assert_eq!(plain.play.scenario.asked(), scenarios::DEFAULT);
    assert_eq!((plain.board, plain.play.seed, plain.speed), (None, 1, None));
    let other = demo("ttmem demo --scenario leak --board N300 --seed 9 --speed 0.5 --json");
    assert_eq!(other.play.scenario.scenario().name, "leak");
    assert_eq!(other.board, Some(BoardKind::N300));
    assert_eq!((other.play.seed, other.speed), (9, Some(0.5)));
    let chosen = other.play.scenario.board(other.board);
    assert_eq!(chosen.unwrap(), BoardKind::N300);
    let elsewhere = other.play.scenario.board(Some(BoardKind::GalaxyBlackhole));
    let elsewhere = elsewhere.unwrap_err().to_string();
    assert!(elsewhere.contains("only for n150"), "{elsewhere}");
    let load = match parse("ttmem load --clients 64 --rate 7 --duration 3600").unwrap() {
        Cli {
            command: Command::Load(options),
            ..
        } => options,
        other => panic!("{other:?}"),
    };
    assert_eq!((load.clients, load.rate, load.duration), (64, 7, 3600));
}

#[test]
fn top_begins_as_it_is_told() {
    let top = |line: &str| match parse(line).unwrap().command {
        Command::Top(options) => options,
        other => panic!("{other:?}"),
    };
    let plain = top("ttmem top");
    assert_eq!(
        (plain.look.view, plain.look.colour),
        (Tab::Overview, Colour::Auto)
    );
    assert_eq!(plain.look.interval, ttmem_tui::INTERVAL);
    assert!(!plain.once && plain.look.colour.depth().is_none());
    for tab in Tab::ALL {
        let chosen = top(&format!("ttmem top --view {}", tab.name()));
        assert_eq!(chosen.look.view, tab);
    }
    let other = top("ttmem top --once --color 256 --interval 0.25 --http http://x:1");
    assert_eq!(other.look.colour.depth(), Some(ColourDepth::Palette));
    assert_eq!(other.look.interval, Duration::from_millis(250));
    assert!(other.once && other.http.http.is_some());
    let grouped = top("ttmem top --once --view buffers --group line");
    assert_eq!(grouped.group, Some(ttmem_report::GroupBy::Line));
    assert!(parse("ttmem top --once --view buffers --group stack").is_err());
}

#[test]
fn a_file_is_looked_at_in_place_of_a_server() {
    let cli = parse("ttmem top --file run.ttrec --at 2026-11-15T08:25:03.5Z").unwrap();
    let recorded = match cli.command {
        Command::Top(options) => options.recorded,
        other => panic!("{other:?}"),
    };
    assert_eq!(recorded.file, Some(PathBuf::from("run.ttrec")));
    let time = "2026-11-15T08:25:03.5Z".parse().map(At::Time);
    assert_eq!(recorded.at, time.ok());
    assert_eq!("2026-11-15 08:25:03.5".parse::<At>().ok(), recorded.at);
    assert_eq!("failure".parse(), Ok(At::Failure));
    assert!("yesterday".parse::<At>().is_err());
    for place in ["--http http://x:1", "--http-token-file /t", "--socket /a"] {
        let refused = parse(&format!("ttmem top --file run.ttrec {place}"));
        let refused = refused.expect_err("two places").to_string();
        let name = place.split(' ').next().expect("an option");
        assert!(
            refused.contains("'--file <FILE>' cannot be used with"),
            "{refused}"
        );
        assert!(refused.contains(name), "{refused}");
    }
    assert!(parse("ttmem top --at yesterday").is_err());
}

#[test]
fn what_follows_a_command_is_the_commands() {
    let run = |line: &str| match parse(line).unwrap() {
        Cli {
            command: Command::Run(options),
            socket,
        } => (options, socket),
        other => panic!("{other:?}"),
    };
    let (plain, socket) = run("ttmem run -- python -c pass --json --socket /b");
    assert_eq!(
        plain.command,
        ["python", "-c", "pass", "--json", "--socket", "/b"]
    );
    assert!(!plain.json && !plain.launch.no_attach && plain.report.is_none());
    assert_eq!(plain.launch.stacks, None);
    assert_eq!(run("ttmem run --stacks 0 make").0.launch.stacks, Some(0));
    assert_eq!(socket, None);
    let (other, socket) =
        run("ttmem run --socket /a --report /r --json --no-attach make -- --report x");
    assert_eq!(other.command, ["make", "--", "--report", "x"]);
    assert!(other.json && other.launch.no_attach);
    assert_eq!(other.report, Some(PathBuf::from("/r")));
    assert_eq!(socket, Some(PathBuf::from("/a")));
    let (first, _socket) = run("ttmem run -- -x");
    assert_eq!(first.command, ["-x"], "any word may be a command's name");
}

#[test]
fn a_reading_command_asks_one_place() {
    let asked = |line: &str| match parse(line).unwrap() {
        Cli {
            command: Command::Status(options),
            socket,
        } => (options.http, socket),
        other => panic!("{other:?}"),
    };
    let (http, socket) = asked("ttmem status --http http://[::1]:9400 --http-token-file /t");
    assert_eq!(http.http.unwrap().to_string(), "http://[::1]:9400");
    assert_eq!(http.http_token_file, Some(PathBuf::from("/t")));
    assert_eq!(socket, None);
    let (http, socket) = asked("ttmem --socket /a status");
    assert_eq!(http, HttpOptions::default());
    assert_eq!(socket, Some(PathBuf::from("/a")));
}

#[test]
fn nonsense_is_a_usage_error_that_helps() {
    for (line, hint) in [
        ("ttmem", "Usage"),
        ("ttmem serve --board n151", "galaxy-wormhole, p100, p150"),
        ("ttmem serve --socket-mode 888", "0660"),
        ("ttmem serve --socket-mode 1777", "0660"),
        ("ttmem serve --socket-mode +660", "0660"),
        (
            "ttmem serve --socket-group no-such-group-here",
            "no such group",
        ),
        ("ttmem serve --log-file x --log-max-size 1", "4K"),
        ("ttmem serve --log-file x --log-max-size 99999999999G", "4K"),
        ("ttmem serve --log-file x --log-max-size ié", "4K"),
        ("ttmem serve --log-keep 2", "--log-file"),
        ("ttmem serve --max-clients 0", "1..=65536"),
        ("ttmem serve --http 9400", "[::1]:9400"),
        ("ttmem serve --http localhost:9400", "127.0.0.1:9400"),
        ("ttmem serve --http ::1:9400", "[::1]:9400"),
        ("ttmem serve --http-token-file /t", "--http <ADDR>"),
        (
            "ttmem serve --http [::1]:0 --http-host x",
            "--http-token-file",
        ),
        (
            "ttmem serve --http [::1]:0 --http-token-file /t --http-host x:1",
            "without a port",
        ),
        ("ttmem serve -q -v", "cannot be used with"),
        (
            "ttmem status --http 127.0.0.1:9400",
            "http://127.0.0.1:9400",
        ),
        ("ttmem status --http https://x", "ssh -L"),
        ("ttmem mark --http http://me:pw@x", "token into a file"),
        (
            "ttmem dump --http http://x --socket /a",
            "cannot be used with",
        ),
        (
            "ttmem --socket /a mark --http http://x",
            "cannot be used with",
        ),
        ("ttmem status --http-token-file /t", "only for '--http"),
        ("ttmem forget --http http://x 1", "--http"),
        ("ttmem top --view l2map", "map"),
        ("ttmem top --interval 0", "from 0.1 to 60"),
        ("ttmem top --interval nan", "from 0.1 to 60"),
        ("ttmem top --interval 61", "from 0.1 to 60"),
        ("ttmem top --colour 17", "256"),
        ("ttmem top --http http://x --socket /a", "cannot be used"),
        ("ttmem dump --limit 0", "--limit"),
        ("ttmem dump --last 0", "1..=10000"),
        ("ttmem dump --last 1 --cbs", "cannot be used with"),
        ("ttmem dump --last 1 --limit 5", "cannot be used with"),
        ("ttmem dump --pid 5", "--last"),
        ("ttmem dump --last 1 --pid 0", "--pid"),
        ("ttmem forget", "<PID>"),
        ("ttmem forget -- -1", "-1"),
        ("ttmem demo --scenario no-such-story", "transformer-8b"),
        ("ttmem demo --scenario /nonexistent.toml", "cannot read"),
        ("ttmem demo --board n151", "galaxy-wormhole, p100, p150"),
        ("ttmem demo --speed -1", "-1"),
        ("ttmem demo --speed nan", "from 0.001 to 1000"),
        ("ttmem demo --speed 1e9", "from 0.001 to 1000"),
        ("ttmem demo --list --seed 2", "cannot be used with"),
        ("ttmem load --clients 0", "1..=64"),
        ("ttmem load --clients 65", "1..=64"),
        ("ttmem load --duration 3601", "1..=3600"),
        ("ttmem load --rate -1", "-1"),
        ("ttmem run", "<COMMAND>"),
        ("ttmem run --no-such-option true", "--no-such-option"),
        ("ttmem env --json", "--json"),
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(hint), "{line}: {error}");
    }
}

#[test]
fn the_variables_are_those_of_clap_and_of_the_manual() {
    let mut defined = BTreeSet::new();
    for (name, command) in commands() {
        for argument in command.get_arguments() {
            let Some(variable) = argument.get_env() else {
                continue;
            };
            // A global option belongs to the root.
            let owner = name.strip_prefix("ttmem").unwrap().trim_start();
            let owner = if argument.is_global_set() { "" } else { owner };
            let option = format!("{owner} --{}", argument.get_long().unwrap());
            defined.insert((
                variable.to_str().unwrap().to_owned(),
                option.trim_start().to_owned(),
            ));
        }
    }
    let listed = VARIABLES
        .iter()
        .map(|(name, option)| ((*name).to_owned(), (*option).to_owned()));
    assert_eq!(listed.collect::<BTreeSet<_>>(), defined);

    let rows = MANUAL.lines().filter_map(|line| {
        let row = line.strip_prefix("| `TTMEM_")?;
        let (name, rest) = row.split_once("` | `")?;
        let (option, _meaning) = rest.split_once("` |")?;
        Some((format!("TTMEM_{name}"), option.to_owned()))
    });
    assert_eq!(rows.collect::<BTreeSet<_>>(), defined);
}

#[test]
fn the_manual_has_every_option_and_every_code() {
    // What is hidden is for the program itself and not for its users.
    let shown = commands()
        .into_iter()
        .filter(|(_name, command)| !command.is_hide_set());
    for (name, command) in shown {
        let heading = if name == "ttmem" {
            "## Options of every command\n".to_owned()
        } else {
            format!("## `{name}")
        };
        let section = MANUAL
            .split("\n## ")
            .find(|section| format!("## {section}").starts_with(&heading))
            .unwrap_or_else(|| panic!("no section {heading}"));
        for argument in command.get_arguments() {
            let global = name != "ttmem" && argument.is_global_set();
            let is_shown = !global && !argument.is_hide_set();
            let Some(long) = argument.get_long().filter(|_long| is_shown) else {
                continue;
            };
            if !matches!(long, "help" | "version") {
                assert!(section.contains(&format!("`--{long}")), "{name} --{long}");
            }
        }
    }
    for (code, meaning) in EXIT_CODES {
        let row = format!("| {code} | {meaning} |");
        assert!(MANUAL.contains(&row), "{row}");
    }
    let help = Cli::command().render_help().to_string();
    for (name, _option) in VARIABLES {
        assert!(help.contains(name), "{help}");
    }
    assert!(
        help.contains("4  another server holds the socket"),
        "{help}"
    );
}

#[test]
fn a_variable_that_is_set_to_nothing_is_not_set() {
    let set = |name: &OsStr| match name.to_str()? {
        "TTMEM_SOCKET" | "TTMEM_INTERVAL" => Some(OsString::new()),
        "TTMEM_VIEW" => Some("leaks".into()),
        _other => None,
    };
    let command = without_empty_variables(Cli::command(), &set);
    let variable = |command: &clap::Command, name: &str| {
        let mut args = command.get_arguments();
        let arg = args.find(|arg| arg.get_id() == name).expect("it is there");
        arg.get_env().map(OsStr::to_owned)
    };
    assert_eq!(
        variable(&Cli::command(), "socket"),
        Some("TTMEM_SOCKET".into())
    );
    assert_eq!(variable(&command, "socket"), None);
    let top = command.find_subcommand("top").expect("it is there");
    assert_eq!(variable(top, "interval"), None);
    assert_eq!(variable(top, "view"), Some("TTMEM_VIEW".into()));
}
