//! What the file accepts, what wins over it, and that nothing is overwritten.

use super::*;
use crate::cli::Look;
use std::collections::BTreeMap;

/// Understands a command line with a configuration, and without any variable.
fn configured(line: &str, file: &str) -> Cli {
    let (mut cli, matches) = Cli::parsed(line.split_whitespace()).unwrap();
    let config = Config::parse(file).unwrap();
    config.apply(&mut cli, &matches, false);
    cli
}

fn look(line: &str, file: &str) -> Look {
    match configured(line, file).command {
        Command::Top(options) => options.look,
        Command::Demo(options) => options.look,
        Command::Run(options) => options.look,
        other => panic!("{other:?}"),
    }
}

const FILE: &str = "[top]\ntheme = \"light\"\ncolour = \"256\"\ninterval = 2\nview = \"leaks\"\n";

#[test]
fn what_is_typed_wins_over_the_file_and_the_file_over_the_default() {
    let default = Look::default();
    assert_eq!(look("ttmem top", ""), default);
    let of_file = Look {
        theme: ThemeChoice::Light,
        colour: Colour::Palette,
        interval: Duration::from_secs(2),
        view: Tab::Leaks,
    };
    for line in ["ttmem top", "ttmem demo", "ttmem run --top -- true"] {
        assert_eq!(look(line, FILE), of_file, "{line}");
    }
    // Also where what is typed is the default.
    let typed = look("ttmem top --theme auto --interval 0.5 --view map", FILE);
    let expected = Look {
        colour: Colour::Palette,
        view: Tab::L1Map,
        ..default
    };
    assert_eq!(typed, expected);
}

#[test]
fn no_color_wins_over_the_file() {
    let (mut cli, matches) = Cli::parsed(["ttmem", "top"]).unwrap();
    Config::parse(FILE).unwrap().apply(&mut cli, &matches, true);
    match cli.command {
        Command::Top(options) => assert_eq!(options.look.colour, Colour::Auto),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_server_is_asked() {
    let socket = "socket = \"/file.sock\"\n";
    let url = "http = \"http://127.0.0.1:9400\"\nhttp_token_file = \"/token\"\n";
    let asked = |line: &str, file: &str| {
        let mut cli = configured(line, file);
        let http = cli.command.http_options().cloned().unwrap_or_default();
        let url = http.http.map(|url| url.to_string());
        (cli.socket, url, http.http_token_file)
    };
    let path = |path: &str| Some(PathBuf::from(path));
    assert_eq!(
        asked("ttmem status", socket),
        (path("/file.sock"), None, None)
    );
    let (none, of_file, token) = asked("ttmem status", url);
    assert_eq!((none, token), (None, path("/token")));
    assert!(of_file.unwrap().starts_with("http://127.0.0.1:9400"));
    assert_eq!(
        asked("ttmem status --socket /typed", url),
        (path("/typed"), None, None)
    );
    let (socket_asked, typed, _) = asked("ttmem status --http http://127.0.0.1:1", socket);
    assert_eq!(socket_asked, None);
    assert!(typed.unwrap().contains(":1"));
    // A command that cannot ask over TCP.
    assert_eq!(asked("ttmem forget 7", url).0, None);
    let both = Config::parse(&format!("{socket}{url}")).unwrap_err();
    assert!(both.contains("keep one"), "{both}");
}

#[test]
fn what_is_not_understood_is_refused_with_its_line() {
    for (file, line, hint) in [
        ("[top]\nthme = \"dark\"\n", "line 2", "theme"),
        ("\n\ncolor = 1\n", "line 3", "unknown field `color`"),
        ("[top]\ntheme = \"blue\"\n", "line 2", "auto, dark, light"),
        ("[top]\ntheme = 7\n", "line 2", "string"),
        ("[top]\ncolour = \"17\"\n", "line 2", "never, 16, 256, true"),
        ("[top]\ninterval = 0\n", "line 2", "from 0.1 to 60"),
        ("[top]\ninterval = nan\n", "line 2", "from 0.1 to 60"),
        (
            "[top]\nview = \"failure\"\n",
            "line 2",
            "overview, processes",
        ),
        ("http = \"ftp://x\"\n", "line 1", "http"),
        ("socket = \"/a\"\nsocket = \"/b\"\n", "line 2", "duplicate"),
        ("[top\n", "line 1", ""),
    ] {
        let error = Config::parse(file).unwrap_err();
        assert!(
            error.contains(line) && error.contains(hint),
            "{file}: {error}"
        );
    }
}

#[test]
fn the_template_is_a_configuration_and_its_comments_are_the_defaults() {
    assert_eq!(Config::parse(TEMPLATE).unwrap(), Config::default());
    let keys = TEMPLATE.replace("\n#theme", "\ntheme");
    let keys = keys
        .replace("\n#colour", "\ncolour")
        .replace("\n#interval", "\ninterval");
    let keys = keys.replace("\n#view", "\nview");
    let top = Config::parse(&keys).unwrap().top;
    let default = Look::default();
    assert_eq!(
        (top.theme, top.colour, top.interval, top.view),
        (
            Some(default.theme),
            Some(default.colour),
            Some(default.interval),
            Some(default.view)
        )
    );
    let every = keys
        .replace("\n#socket", "\nsocket")
        .replace("\n#http_", "\nhttp_");
    assert!(Config::parse(&every).unwrap().socket.is_some());
}

#[test]
fn the_file_is_where_the_environment_says_and_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap().to_owned();
    let variables = |set: &[(&'static str, String)]| {
        let set: BTreeMap<&'static str, String> = set.iter().cloned().collect();
        move |name: &str| set.get(name).map(OsString::from)
    };
    let printed = |action, set: &[(&'static str, String)]| {
        let mut written = Vec::new();
        let done = run(action, variables(set), &mut Output::new(&mut written));
        done.map(|()| String::from_utf8(written).unwrap())
    };
    let of_home = [
        ("HOME", home.clone()),
        ("XDG_CONFIG_HOME", "relative".to_owned()),
    ];
    let path = format!("{home}/.config/ttmem/config.toml");
    assert_eq!(
        printed(ConfigAction::Path, &of_home).unwrap(),
        format!("{path}\n")
    );
    assert_eq!(
        Config::load(variables(&of_home)).unwrap(),
        Config::default()
    );
    printed(ConfigAction::Init, &of_home).unwrap();
    std::fs::write(&path, FILE).unwrap();
    let again = printed(ConfigAction::Init, &of_home).unwrap_err();
    assert!(format!("{again:#}").contains("cannot write"), "{again:#}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), FILE);
    let found = Config::load(variables(&of_home)).unwrap();
    assert_eq!(found.top.view, Some(Tab::Leaks));

    let elsewhere = [
        ("XDG_CONFIG_HOME", format!("{home}/x")),
        ("HOME", home.clone()),
    ];
    let printed_path = printed(ConfigAction::Path, &elsewhere).unwrap();
    assert_eq!(printed_path, format!("{home}/x/ttmem/config.toml\n"));
    let no_home = [("HOME", "/dev/null".to_owned())];
    assert_eq!(
        Config::load(variables(&no_home)).unwrap(),
        Config::default()
    );
    // One that was named has to be there.
    let named = [(VARIABLE, format!("{home}/none.toml"))];
    let missing = Config::load(variables(&named)).unwrap_err();
    assert!(format!("{missing:#}").contains("none.toml"), "{missing:#}");
    std::fs::write(format!("{home}/none.toml"), vec![b'#'; 1 << 17]).unwrap();
    assert!(Config::load(variables(&named)).is_err());
    std::fs::write(format!("{home}/none.toml"), [0xff, 0xfe]).unwrap();
    assert!(Config::load(variables(&named)).is_err());
    assert!(printed(ConfigAction::Path, &[]).is_err());
}

/// A pipe would hold us up until somebody writes, and a device has no end.
#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (pipe, link) = (at("pipe"), at("link"));
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    std::os::unix::fs::symlink("pipe", &link).unwrap();
    let load = |path: String| {
        let set = [(VARIABLE, path)];
        Config::load(|name| {
            let found = set.iter().find(|(known, _value)| *known == name)?;
            Some(OsString::from(&found.1))
        })
    };
    for path in [pipe, link, "/dev/zero".to_owned(), at("")] {
        let refused = load(path.clone()).unwrap_err();
        let said = format!("{refused:#}");
        assert_eq!(said, format!("{path}: not a regular file"));
        assert_eq!(crate::exit::code_of(&refused), 2);
    }
    // How one says that there is to be none, and a link to a file.
    assert_eq!(load("/dev/null".to_owned()).unwrap(), Config::default());
    std::fs::write(at("file"), FILE).unwrap();
    std::os::unix::fs::symlink("file", at("to_file")).unwrap();
    assert_eq!(load(at("to_file")).unwrap().top.view, Some(Tab::Leaks));
}
