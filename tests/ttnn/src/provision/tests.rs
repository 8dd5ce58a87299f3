//! Making and finding an environment, with scripts in the place of Python and pip.

use super::*;
use crate::python::PythonRelease;
use crate::wheels::{NEWEST, WHEELS};
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

/// A folder with an interpreter that writes down how often it makes an environment.
struct Machine {
    folder: TempDir,
    interpreter: Interpreter,
    standin: PathBuf,
}

impl Machine {
    /// Its environments have an interpreter that does `pip` for every request to install.
    fn new(pip: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("made");
        let python = folder.path().join("python");
        let script = format!(
            "#!/bin/sh\necho once >> {}\nmkdir -p $3/bin\n\
             printf '#!/bin/sh\\n{pip}\\n' > $3/bin/python\nchmod +x $3/bin/python\n",
            made.display()
        );
        write_script(&python, &script);
        let standin = folder.path().join("standin");
        write_script(&standin, "#!/bin/sh\n");
        let release = PythonRelease::Python312;
        Self {
            folder,
            interpreter: Interpreter {
                path: python,
                release,
            },
            standin,
        }
    }

    fn provision(&self) -> anyhow::Result<TtnnEnvironment> {
        self.provision_wheel(NEWEST)
    }

    fn provision_wheel(&self, wheel: WheelVersion) -> anyhow::Result<TtnnEnvironment> {
        let cache = self.folder.path().join("cache");
        provision_in(&cache, &self.interpreter, wheel, &self.standin)
    }

    fn times_made(&self) -> usize {
        let made = fs::read_to_string(self.folder.path().join("made"));
        made.map_or(0, |made| made.lines().count())
    }
}

/// By another process: a file that this one has open for writing, even in a child that another
/// test is just starting, cannot be run.
fn write_script(path: &Path, script: &str) {
    let written = Command::new("sh")
        .args([
            "-c",
            r#"printf %s "$1" > "$2" && chmod +x "$2""#,
            "sh",
            script,
        ])
        .arg(path)
        .status();
    assert!(written.is_ok_and(|status| status.success()));
}

#[test]
fn an_environment_is_made_once_and_kept() {
    let machine = Machine::new("exit 0");
    let first = machine.provision().expect("all scripts succeed");
    let again = machine.provision().expect("it is there");
    assert_eq!(first.python, again.python);
    assert_eq!(machine.times_made(), 1);
}

#[test]
fn every_release_has_an_environment_of_its_own() {
    let machine = Machine::new("exit 0");
    let [one, other] = [WHEELS[0], WHEELS[1]].map(|wheel| {
        let ttnn = machine.provision_wheel(wheel);
        ttnn.expect("all scripts succeed").python
    });
    assert_ne!(one, other);
    assert_eq!(machine.times_made(), 2);
}

#[test]
fn several_at_once_make_it_once() {
    let machine = Machine::new("exit 0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| machine.provision().expect("all scripts succeed"));
        }
    });
    assert_eq!(machine.times_made(), 1);
}

#[test]
fn one_whose_making_failed_is_made_again() {
    let machine = Machine::new("echo no network; exit 1");
    for times in 1..=2 {
        let failure = machine.provision().expect_err("nothing can be installed");
        assert_eq!(failure.to_string(), "installing ttnn failed: no network");
        assert_eq!(machine.times_made(), times);
    }
}

#[test]
fn a_newer_compiler_takes_the_place_of_the_older() {
    let machine = Machine::new("exit 0");
    let ttnn = machine.provision().expect("all scripts succeed");
    write_script(&machine.standin, "#!/bin/sh\n# newer\n");
    machine.provision().expect("it is there");
    let place = ttnn.package.join(COMPILER_PLACE);
    let installed = fs::read_to_string(&place).expect("a compiler is there");
    assert_eq!(installed, "#!/bin/sh\n# newer\n");
    let mode = fs::metadata(&place).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o111, 0o111);
    assert_eq!(machine.times_made(), 1);
}

#[test]
fn a_missing_interpreter_is_told_in_one_sentence() {
    let told = MissingPython::NoInterpreter.to_string();
    assert!(told.starts_with("no Python 3.10 or 3.12 here"), "{told}");
    assert!(!told.contains('\n'));
}

#[test]
fn a_python_without_venv_says_what_to_install() {
    let machine = Machine::new("exit 0");
    let said = "Command '['python', '-m', 'ensurepip']' returned 1";
    for (said, is_missing) in [(said, true), ("No module named venv", true), ("no", false)] {
        let script = format!("#!/bin/sh\necho \"{said}\"; exit 1\n");
        write_script(&machine.interpreter.path, &script);
        let error = machine.provision().expect_err("it exits with 1");
        assert_eq!(error.is::<MissingPython>(), is_missing, "{error}");
        assert!(error.to_string().ends_with(said), "{error}");
        assert_eq!(error.to_string().contains("python3.12-venv"), is_missing);
    }
}

#[test]
fn a_failure_repeats_the_end_of_what_was_said() {
    let mut command = Command::new("sh");
    command.args(["-c", "seq 100; echo no network >&2; exit 1"]);
    let error = run("installing ttnn", &mut command).expect_err("it exits with 1");
    let told = error.to_string();
    assert!(told.starts_with("installing ttnn failed: 94\n"), "{told}");
    assert!(told.ends_with("no network"), "{told}");
}
