//! Finding the server, and waiting for it when it is busy.

use crate::cli::HttpOptions;
use nix::unistd::{Uid, geteuid};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ttmem_reader::{ApiClient, ApiRequestError, Token};
use ttmem_server::socket::{LEGACY_SOCKET_PATH, SERVICE_SOCKET_PATH, default_socket_path};

/// How often a busy server is asked again: its readers are served in less than that many seconds.
const ATTEMPTS: u32 = 5;

/// What a busy server asks its readers to wait.
const PAUSE: Duration = Duration::from_secs(1);

/// Nobody listens where a server should.
#[derive(Debug, thiserror::Error)]
#[error("no server listens on {}; start one with `ttmem serve`{}", joined(tried), elsewhere(others.as_deref()))]
pub(crate) struct NoServer {
    pub(crate) tried: Vec<PathBuf>,
    /// Where somebody may listen who is asked only by name.
    pub(crate) others: Option<PathBuf>,
}

fn elsewhere(others: Option<&Path>) -> String {
    others.map_or_else(String::new, |path| {
        let path = path.display();
        format!("; {path} may be anybody's, name it with --socket to ask it")
    })
}

fn joined(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(" or ")
}

/// Where this user's server listens when nothing else is said.
pub(crate) fn default_path() -> PathBuf {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR");
    default_socket_path(runtime_dir.as_deref(), geteuid().as_raw())
}

/// A client of the server that the user means: the one with a URL, the one on a socket, or that of
/// the first default socket on which one listens.
/// A server with a URL is not asked yet.
pub(crate) fn client(socket: Option<PathBuf>, http: &HttpOptions) -> anyhow::Result<ApiClient> {
    let Some(url) = &http.http else {
        return Ok(ApiClient::new(self::socket(socket)?));
    };
    let client = ApiClient::at(url.clone());
    Ok(match &http.http_token_file {
        Some(file) => client.with_token(Token::read(file)?),
        None => client,
    })
}

/// The socket of a server: the one that is named, or the first default one on which one listens.
pub(crate) fn socket(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    Ok(server(named, |client| client)?.1)
}

/// The same with a client of it; `within` says how long it may be waited for.
pub(crate) fn server(
    named: Option<PathBuf>,
    within: impl Fn(ApiClient) -> ApiClient,
) -> anyhow::Result<(ApiClient, PathBuf)> {
    let client = |path: &Path| within(ApiClient::new(path));
    let socket = match named {
        Some(socket) => first_running(vec![socket], |_named| true, client)?,
        None => first_running(default_sockets(default_path()), is_trusted, client)?,
    };
    Ok((client(&socket), socket))
}

/// Whether only this user or root can listen on a default socket, by its folder. Below /tmp anybody could have made that
/// first, and in /tmp itself, where the old protocol's clients look, anybody can listen: who does is neither
/// believed nor waited for.
fn is_trusted(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    if !folder.starts_with("/tmp") {
        return true;
    }
    let Ok(found) = std::fs::symlink_metadata(folder) else {
        // Nobody listens in a folder that is not there.
        return true;
    };
    let is_ours = found.uid() == 0 || found.uid() == geteuid().as_raw();
    is_ours && found.is_dir() && found.mode() & 0o022 == 0
}

/// Whose server listens on a socket; one that takes no connection now is not waited for.
pub(crate) fn listener_uid(path: &Path) -> std::io::Result<Uid> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(Uid::from_raw(socket_peercred(&socket)?.uid.as_raw()))
}

/// Where a server may listen when none was named: this user's, the system's service, and the old protocol's.
fn default_sockets(own: PathBuf) -> Vec<PathBuf> {
    let mut sockets = vec![own];
    for path in [SERVICE_SOCKET_PATH, LEGACY_SOCKET_PATH].map(PathBuf::from) {
        if !sockets.contains(&path) {
            sockets.push(path);
        }
    }
    sockets
}

/// The first of some sockets on which anybody listens.
pub(super) fn first_running(
    candidates: Vec<PathBuf>,
    is_trusted: impl Fn(&Path) -> bool,
    client: impl Fn(&Path) -> ApiClient,
) -> anyhow::Result<PathBuf> {
    let (tried, others): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|path| is_trusted(path));
    for path in &tried {
        match client(path).healthy() {
            Err(ApiRequestError::NotRunning { .. }) => {}
            // Busy is running.
            Ok(()) | Err(ApiRequestError::Status { .. }) => return Ok(path.clone()),
            Err(error) => return Err(explained(error)),
        }
    }
    let others = others.into_iter().find(|path| path.exists());
    Err(NoServer { tried, others }.into())
}

/// A server that is not for everybody says so only by the mode of its socket.
fn explained(error: ApiRequestError) -> anyhow::Error {
    let is_denied = matches!(
        &error,
        ApiRequestError::Connect { source, .. } if source.kind() == ErrorKind::PermissionDenied
    );
    let error = anyhow::Error::new(error);
    if is_denied {
        error.context(
            "join the group of its socket, or start it with --socket-group or --socket-mode",
        )
    } else {
        error
    }
}

/// Asks again while the server has no room for another reader.
pub(crate) fn patiently<T>(
    ask: impl Fn() -> Result<T, ApiRequestError>,
) -> Result<T, ApiRequestError> {
    for _attempt in 1..ATTEMPTS {
        match ask() {
            Err(ApiRequestError::Status {
                code: 503,
                problem: Some(problem),
                ..
            }) if problem.error == "busy" => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
    ask()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_asked_after_the_users_own_server() {
        let asked = |own: &str| -> Vec<String> {
            let sockets = default_sockets(PathBuf::from(own));
            sockets
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        let own = "/run/user/7/ttmem.sock";
        assert_eq!(asked(own), [own, SERVICE_SOCKET_PATH, LEGACY_SOCKET_PATH]);
        let roots = asked(SERVICE_SOCKET_PATH);
        assert_eq!(roots, [SERVICE_SOCKET_PATH, LEGACY_SOCKET_PATH]);
    }

    #[test]
    fn below_tmp_only_a_folder_of_this_users_is_trusted() {
        let trusts = |folder: &Path| is_trusted(&folder.join("ttmem.sock"));
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let set = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(folder.path(), mode).unwrap();
        };
        set(0o700);
        assert!(trusts(folder.path()));
        set(0o722);
        assert!(!trusts(folder.path()));
        set(0o700);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/run", &link).unwrap();
        assert!(!trusts(&link));
        assert!(!is_trusted(Path::new(LEGACY_SOCKET_PATH)));
        assert!(trusts(&folder.path().join("missing")));
        assert!(trusts(Path::new("/run/user/7")));
        if geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
            assert!(!trusts(folder.path()));
        }
    }

    #[test]
    fn a_server_that_is_not_for_this_user_is_explained() {
        let denied = ApiRequestError::Connect {
            server: ttmem_reader::Address::Unix(PathBuf::from(SERVICE_SOCKET_PATH)),
            source: ErrorKind::PermissionDenied.into(),
        };
        let denied = explained(denied);
        assert!(denied.to_string().contains("--socket-group"), "{denied}");
        assert_eq!(crate::exit::code_of(&denied), 3);
    }
}
