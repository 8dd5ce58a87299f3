//! What a process of this program looked like from inside, for whoever wants to know.
//!
//! The tests of the attach library ask whether a library that is preloaded into compilers
//! does anything there. It must neither start a thread nor open a socket.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process;

use anyhow::Context as _;

/// The variable with the folder that gets a file of each process.
const FOLDER_VARIABLE: &str = "TTMEM_STANDIN_WITNESSES";

/// The library that is looked for.
const LIBRARY: &str = "libttmem_attach.so";

/// Writes down what this process has, if that is asked for.
pub(crate) fn testify() -> anyhow::Result<()> {
    let Some(folder) = env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else {
        return Ok(());
    };
    let path = folder.join(process::id().to_string());
    let text = testimony().context("this process cannot be looked at")?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// `preloaded` or `plain`, then the numbers of threads and of sockets.
fn testimony() -> std::io::Result<String> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let library = if maps.contains(LIBRARY) {
        "preloaded"
    } else {
        "plain"
    };
    let threads = fs::read_dir("/proc/self/task")?.count();
    let descriptors = fs::read_dir("/proc/self/fd")?;
    let sockets = descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count();
    Ok(format!("{library} {threads} {sockets}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sockets_and_threads_are_counted() {
        let numbers = || {
            let text = testimony().expect("/proc is there");
            let mut words = text.split_whitespace();
            assert_eq!(words.next(), Some("plain"), "{text}");
            let numbers: Vec<usize> = words.map(|word| word.parse().expect("a number")).collect();
            <[usize; 2]>::try_from(numbers).expect("two numbers")
        };
        let [_threads, sockets] = numbers();
        let _pair = UnixStream::pair().expect("a pair of sockets");
        assert_eq!(numbers()[1], sockets + 2);
        let (end, wait) = std::sync::mpsc::sync_channel::<()>(0);
        let thread = std::thread::spawn(move || wait.recv().is_err());
        // Besides this one; tests beside it may have some, too.
        assert!(numbers()[0] > 1);
        drop(end);
        assert!(thread.join().expect("it ends"));
    }
}
