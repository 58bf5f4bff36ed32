//! A socket in the data folder, for commands on this machine. If they used the HTTP endpoint over TLS, they would have
//! to trust a certificate made for another name.

use std::{
    fs, io,
    os::unix::{fs::DirBuilderExt as _, fs::PermissionsExt as _, net},
    path::{Path, PathBuf},
};

use tokio::net::UnixListener;

/// Maximum length of a path in a socket's address that works on every system, in bytes.
const LONGEST_PATH: usize = 100;

/// The socket. Dropping it removes its file.
#[derive(Debug)]
pub(super) struct LocalSocket {
    path: PathBuf,
}

impl LocalSocket {
    /// Listens at `path`, for this user only. Replaces the file of an earlier gateway.
    pub(super) fn listen(path: &Path) -> io::Result<(Self, UnixListener)> {
        // in a private folder, so that no other user can connect before the permissions are set
        let folder = path.with_extension("new");
        let _ = fs::remove_dir_all(&folder);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let fresh = folder.join("s");
        let listener = at_short_path(&fresh, |path| net::UnixListener::bind(path))?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
        fs::rename(&fresh, path)?;
        fs::remove_dir(&folder)?;
        listener.set_nonblocking(true)?;
        Ok((Self { path: path.to_owned() }, UnixListener::from_std(listener)?))
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the socket at `path`.
pub fn connect(path: &Path) -> io::Result<net::UnixStream> {
    at_short_path(path, |path| net::UnixStream::connect(path))
}

/// Calls `open` with a path short enough for a socket's address. For a long path, it goes through the folder's file
/// descriptor.
fn at_short_path<T>(path: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= LONGEST_PATH {
        return open(path);
    }
    #[cfg(target_os = "linux")]
    if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
        use std::os::fd::AsRawFd as _;
        let folder = fs::File::open(folder)?;
        return open(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name));
    }
    let what = format!("the path {} is too long for a socket: name a data folder with a shorter one", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[tokio::test]
    async fn it_is_this_users_alone_also_in_a_deep_folder_and_replaces_a_former_one() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a-folder-with-a-rather-long-name".repeat(5));
        fs::create_dir(&deep).unwrap();
        for folder in [folder.path(), &deep] {
            let path = folder.join("control.sock");
            fs::write(&path, "left behind").unwrap();
            let (socket, listener) = LocalSocket::listen(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let mut client = connect(&path).unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let mut server = server.into_std().unwrap();
            client.write_all(b"x").unwrap();
            let mut read = [0];
            server.set_nonblocking(false).unwrap();
            server.read_exact(&mut read).unwrap();
            drop(socket);
            assert!(!path.exists());
        }
    }
}
