//! The recipes that users of the old server know by heart, run as they are written.

use super::support::old_client::{OldClient, request};
use super::support::server::TTMEM;
use super::support::wait_until;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use ttmem_event::legacy::{Generation, RequestKind};

const FABRIC: u8 = 1;

/// A folder in which recipes are typed, and the server that the first one left running.
struct Shell {
    folder: tempfile::TempDir,
    server_pid: u32,
}

impl Shell {
    /// `ttmem serve > out.log 2>&1 &`, with what the user has exported before.
    fn serve(exported: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let recipe = "ttmem serve --socket ttmem.sock > out.log 2>&1 & echo $!";
        let printed = typed(folder.path(), recipe, exported);
        let server_pid = printed.trim().parse().expect("the shell prints the pid");
        let shell = Self { folder, server_pid };
        wait_until("the server accepts connections", || {
            UnixStream::connect(shell.socket()).is_ok()
        });
        shell
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("ttmem.sock")
    }

    fn is_running(&self) -> bool {
        Path::new("/proc")
            .join(self.server_pid.to_string())
            .join("exe")
            .read_link()
            .is_ok()
    }

    /// What a recipe prints as soon as it prints as many lines as expected.
    fn lines(&self, recipe: &str, count: usize) -> Vec<String> {
        let mut printed = String::new();
        wait_until(recipe, || {
            printed = typed(self.folder.path(), recipe, &[]);
            printed.lines().count() >= count
        });
        printed.lines().map(str::to_owned).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ended = Command::new("kill")
            .args(["-KILL", &self.server_pid.to_string()])
            .status();
    }
}

/// What a line typed into a shell prints.
fn typed(folder: &Path, recipe: &str, exported: &[(&str, &str)]) -> String {
    let program_folder = TTMEM.folder();
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new("sh")
        .args(["-c", recipe])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", program_folder.display()))
        .env_remove("TTMEM_SOCKET")
        .env_remove("TTMEM_SOCKET_MODE")
        .env_remove("TTMEM_BOARD")
        .env_remove("TT_ALLOC_TRACKING_ENABLED")
        .envs(exported.iter().copied())
        .output()
        .expect("there is a shell");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn kernel_loads_are_found_with_grep_while_the_server_runs() {
    let shell = Shell::serve(&[]);
    let mut client = OldClient::connect(&shell.socket(), Generation::G4);
    client.send(&request(RequestKind::KernelLoad, 0, 917_504, FABRIC, 0x77));
    assert_eq!(
        shell.lines("grep KERNEL_LOAD out.log", 1),
        ["✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB)"]
    );
    // Line by line, not when some buffer is full or the server ends.
    client.send(&request(RequestKind::KernelLoad, 1, 94_208, 2, 0x78));
    assert_eq!(
        shell.lines("grep KERNEL_LOAD out.log", 2)[1],
        "✓ [KERNEL_LOAD] Dispatch kernel on Device 1: +0.0898438 MB (Total: 0.0898438 MB)"
    );
    assert!(shell.is_running());
}

#[test]
fn circular_buffers_are_found_with_grep_whatever_size_their_free_carries() {
    let shell = Shell::serve(&[]);
    let mut client = OldClient::connect(&shell.socket(), Generation::G3);
    let quarter = 262_144;
    client.send_all(&[
        request(RequestKind::CbAlloc, 0, 22_543_750, 0, 0x1_0000),
        request(RequestKind::CbAlloc, 0, quarter, 0, 0x2_0000),
    ]);
    assert_eq!(
        shell.lines("grep CB_ALLOC out.log", 2)[1],
        "✓ [CB_ALLOC] Device 0: +0.25 MB (Total: 21.7494 MB)"
    );
    client.send(&request(RequestKind::CbFree, 0, 0, 0, 0x2_0000));
    assert_eq!(
        shell.lines("grep CB_FREE out.log", 1),
        ["✗ [CB_FREE] Device 0: -0.25 MB (Total: 21.4994 MB)"]
    );
    client.send_all(&[
        request(RequestKind::CbAlloc, 0, quarter, 0, 0x2_0000),
        request(RequestKind::CbFree, 0, quarter, 0, 0x2_0000),
    ]);
    let frees = shell.lines("grep CB_FREE out.log", 2);
    assert_eq!(frees[1], frees[0]);
    assert!(shell.is_running());
}

#[test]
fn the_clients_switch_does_not_concern_the_server() {
    for value in ["0", "1", ""] {
        let shell = Shell::serve(&[("TT_ALLOC_TRACKING_ENABLED", value)]);
        let mut client = OldClient::connect(&shell.socket(), Generation::G2);
        client.send(&request(RequestKind::Alloc, 0, 4096, 1, 0x40));
        let pid = std::process::id();
        let line = format!("✓ [PID {pid}] Allocated 4096 bytes of L1 on device 0 (buffer_id=0x40)");
        assert_eq!(shell.lines("grep Allocated out.log", 1), [line]);
    }
}

#[test]
fn a_server_in_the_background_of_a_script_ends_with_kill_int_and_leaves_nothing() {
    let shell = Shell::serve(&[]);
    // Scripts start background commands with INT ignored; the server takes it all the same.
    typed(
        shell.folder.path(),
        &format!("kill -INT {}", shell.server_pid),
        &[],
    );
    wait_until("the server ends", || !shell.is_running());
    assert_eq!(typed(shell.folder.path(), "ls", &[]), "out.log\n");
    assert_eq!(
        shell.lines("tail -n 1 out.log", 1),
        ["🛑 Allocation Server stopped"]
    );
}
