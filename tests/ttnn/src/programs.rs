//! What runs where: the boards, and the programs of the folder `python`.

use ttmem_event::catalogue::BoardKind;

/// A board that programs run on, opened as one mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestBoard {
    /// The board of the catalogue.
    pub kind: BoardKind,
    pub rows: u16,
    pub columns: u16,
}

impl TestBoard {
    const fn new(kind: BoardKind, rows: u16, columns: u16) -> Self {
        Self {
            kind,
            rows,
            columns,
        }
    }

    const fn is_one_chip(self) -> bool {
        self.rows == 1 && self.columns == 1
    }
}

/// One of each way to be made: a chip, a card of two, a machine of cards, the other architecture.
pub const BOARDS: [TestBoard; 4] = [
    TestBoard::new(BoardKind::N150, 1, 1),
    TestBoard::new(BoardKind::N300, 1, 2),
    TestBoard::new(BoardKind::T3000, 2, 4),
    TestBoard::new(BoardKind::P150, 1, 1),
];

/// A program; its file is its name with `.py`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    pub name: &'static str,
    /// Whether it needs a mesh of more than one chip.
    pub needs_mesh: bool,
    /// Packages of Python that it needs besides ttnn, each with its version.
    pub packages: &'static [&'static str],
}

const fn on_any(name: &'static str) -> Program {
    Program {
        name,
        needs_mesh: false,
        packages: &[],
    }
}

/// Every program, the quick ones first.
pub const PROGRAMS: [Program; 35] = [
    on_any("layouts"),
    on_any("operations"),
    on_any("every_operation"),
    on_any("storage"),
    on_any("rings"),
    on_any("slow_dispatch"),
    on_any("named_buffers"),
    on_any("inside_tensors"),
    on_any("program_cache"),
    on_any("frees_in_captures"),
    on_any("threads"),
    on_any("out_of_memory"),
    on_any("global_buffers"),
    on_any("scratchpads"),
    on_any("clashes"),
    on_any("explained"),
    on_any("advice"),
    on_any("refused_figures"),
    on_any("alive_at_close"),
    on_any("no_bytes"),
    on_any("no_small_region"),
    on_any("per_core"),
    on_any("reopened_sizes"),
    on_any("reopened_grids"),
    on_any("stacks"),
    on_any("python_lines"),
    on_any("leaking"),
    on_any("own_account"),
    on_any("checked"),
    Program {
        name: "ranks",
        needs_mesh: false,
        // What tt-run needs.
        packages: &["click==8.5.1", "pydantic==2.14.3", "PyYAML==6.0.3"],
    },
    on_any("upstream_counters"),
    Program {
        name: "sub_meshes",
        needs_mesh: true,
        packages: &[],
    },
    Program {
        name: "pytest_plugin",
        needs_mesh: false,
        packages: &[
            "pytest==8.4.2",
            "pytest-xdist==3.8.0",
            "pytest-forked==1.7.5",
            "pytest-rerunfailures==16.7",
        ],
    },
    Program {
        name: "notebook",
        needs_mesh: false,
        packages: &["nbclient==0.10.2", "ipykernel==6.30.1"],
    },
    on_any("random_ops"),
];

/// A program that measures what tracking costs; it is none of those that compare accounts.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    pub program: Program,
    /// The file with its figures, in the folder that it runs in.
    pub figures: &'static str,
}

pub const BENCHES: [Bench; 2] = [
    Bench {
        program: on_any("overhead"),
        figures: "attach.json",
    },
    Bench {
        program: on_any("overhead_python"),
        figures: "attach-python.json",
    },
];

/// The board they run on: the one with the least to do besides.
pub const BENCH_BOARD: TestBoard = BOARDS[0];

/// The programs and boards to run, each with each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    boards: Vec<TestBoard>,
    programs: Vec<Program>,
}

impl Selection {
    /// Those that are named; of boards or programs none of which is named, all.
    ///
    /// # Errors
    ///
    /// The first word that names neither.
    pub fn parse<'w>(words: &[&'w str]) -> Result<Self, &'w str> {
        let names_board = |word: &str| BOARDS.iter().any(|board| board.kind.name() == word);
        let names_program = |word: &str| PROGRAMS.iter().any(|program| program.name == word);
        let neither = |word: &&&str| !names_board(word) && !names_program(word);
        if let Some(word) = words.iter().find(neither) {
            return Err(word);
        }
        let all_boards = !words.iter().any(|word| names_board(word));
        let all_programs = !words.iter().any(|word| names_program(word));
        let boards = BOARDS.into_iter();
        let programs = PROGRAMS.into_iter();
        Ok(Self {
            boards: boards
                .filter(|board| all_boards || words.contains(&board.kind.name()))
                .collect(),
            programs: programs
                .filter(|program| all_programs || words.contains(&program.name))
                .collect(),
        })
    }

    /// Each pair to run: board by board.
    pub fn runs(&self) -> impl Iterator<Item = (TestBoard, Program)> {
        self.boards.iter().flat_map(|board| {
            let can_run = |program: &&Program| !(program.needs_mesh && board.is_one_chip());
            let programs = self.programs.iter().filter(can_run);
            programs.map(|program| (*board, *program))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::cluster_descriptor;
    use std::path::Path;
    use ttmem_model::board::whole_mesh;

    #[test]
    fn boards_are_opened_whole_and_can_be_described() {
        for board in BOARDS {
            assert_eq!((board.rows, board.columns), whole_mesh(board.kind));
            assert!(cluster_descriptor(board.kind, 0).is_some(), "{board:?}");
        }
    }

    #[test]
    fn every_program_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let benches = BENCHES.iter().map(|bench| &bench.program);
        for program in PROGRAMS.iter().chain(benches) {
            let path = folder.join(program.name).with_extension("py");
            assert!(path.exists(), "{}", path.display());
        }
    }

    #[test]
    fn words_restrict_boards_and_programs() {
        fn count<'w>(words: &[&'w str]) -> Result<usize, &'w str> {
            Selection::parse(words).map(|chosen| chosen.runs().count())
        }
        // The one program that needs a mesh runs on two of the four boards.
        assert_eq!(count(&[]), Ok(PROGRAMS.len() * BOARDS.len() - 2));
        assert_eq!(count(&["layouts"]), Ok(BOARDS.len()));
        assert_eq!(count(&["n300"]), Ok(PROGRAMS.len()));
        assert_eq!(count(&["n150", "p150", "threads"]), Ok(2));
        assert_eq!(count(&["n150", "sub_meshes"]), Ok(0));
        assert_eq!(count(&["n150", "grayskull"]), Err("grayskull"));
    }
}
