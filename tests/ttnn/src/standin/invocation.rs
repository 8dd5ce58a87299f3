//! What a command line of the runtime's kernel builder asks for.
//!
//! Only the options that name files matter; flags, defines and includes are read
//! over. A command line that asks for nothing known is an error, so that a new
//! release of the runtime is noticed here and not as a missing file later.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

/// One run of the compiler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// `--version`.
    Version,
    /// One source, or one header to precompile, becomes one file.
    Compile(Compile),
    Link(Link),
}

/// A compilation, or the precompilation of a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Compile {
    /// The object or precompiled header to write.
    pub(crate) output: PathBuf,
    /// The dependency file to write beside it.
    pub(crate) dependencies: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) output: PathBuf,
    pub(crate) script: Option<PathBuf>,
    /// The firmware whose symbols the kernel is linked against.
    pub(crate) firmware: Option<PathBuf>,
}

impl Invocation {
    /// Reads a command line without the program's own name.
    pub(crate) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut output = None;
        let mut dependencies = None;
        let mut script = None;
        let mut firmware = None;
        let mut stops_before_link = false;

        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value_of = |option: &str| {
                rest.next()
                    .map(PathBuf::from)
                    .with_context(|| format!("{option} without a value"))
            };
            match argument.as_str() {
                "--version" => return Ok(Self::Version),
                "-o" => output = Some(value_of("-o")?),
                "-MF" => dependencies = Some(value_of("-MF")?),
                "-T" => script = Some(value_of("-T")?),
                "-c" => stops_before_link = true,
                "-x" => stops_before_link |= value_of("-x")?.as_os_str() == "c++-header",
                other => {
                    if let Some(path) = other.strip_prefix("-Wl,--just-symbols=") {
                        firmware = Some(PathBuf::from(path));
                    } else if let Some(path) = other.strip_prefix("-T") {
                        script = Some(PathBuf::from(path));
                    }
                }
            }
        }

        let Some(output) = output else {
            bail!(
                "neither --version nor -o among {} arguments",
                arguments.len()
            );
        };
        Ok(if stops_before_link {
            Self::Compile(Compile {
                output,
                dependencies,
            })
        } else {
            Self::Link(Link {
                output,
                script,
                firmware,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<Invocation> {
        let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
        Invocation::parse(&arguments)
    }

    #[test]
    fn version_wins() {
        assert_eq!(parse("--version").ok(), Some(Invocation::Version));
    }

    #[test]
    fn a_compilation_names_its_object_and_its_dependencies() {
        let parsed = parse("-O2 -DTILE=-o1 -c -o a.o a.cc -MF a.d").expect("it is complete");
        let expected = Compile {
            output: "a.o".into(),
            dependencies: Some("a.d".into()),
        };
        assert_eq!(parsed, Invocation::Compile(expected));
    }

    #[test]
    fn a_header_is_compiled_too() {
        let parsed = parse("-x c++-header api.h -o api.h.gch").expect("it is complete");
        assert!(matches!(parsed, Invocation::Compile(_)));
    }

    #[test]
    fn a_link_names_script_and_firmware() {
        let parsed = parse("-Wl,--just-symbols=fw.elf -Tk.ld a.o -o k.elf").expect("complete");
        let expected = Link {
            output: "k.elf".into(),
            script: Some("k.ld".into()),
            firmware: Some("fw.elf".into()),
        };
        assert_eq!(parsed, Invocation::Link(expected));
    }

    #[test]
    fn what_names_no_output_is_refused() {
        assert!(parse("-O2 a.cc").is_err());
        assert!(parse("-c -o").is_err());
    }
}
