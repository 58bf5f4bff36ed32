//! Control file: address and token of the running gateway, for readers of its data folder. Written at the start,
//! removed at the end, also if the start fails.

use std::{
    fs, io,
    io::Write as _,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    config::{PublicUrl, files},
    support::{Digest, Secret},
};

/// Address and token of the running gateway, for commands on this machine.
#[derive(Debug, Clone)]
pub struct ControlFile {
    /// The address as a URL, without a trailing slash.
    pub url: String,
    /// The `Host` header that it accepts: the host of its public URL (OA-138).
    pub host: String,
    /// Path of the local socket; `None` without TLS.
    pub socket: Option<PathBuf>,
    /// Bearer token for `/api/status`, new at each start.
    pub token: Secret,
}

impl ControlFile {
    /// For a gateway that listens on `bound`. If that is every address, commands use loopback.
    pub fn new(bound: SocketAddr, public_url: &PublicUrl, token: Secret) -> Self {
        let mut address = bound;
        if bound.ip().is_unspecified() {
            address.set_ip(if bound.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        let host = public_url.as_str().split_once("://").map_or("", |(_, host)| host).to_owned();
        Self { url: format!("http://{address}"), host, socket: None, token }
    }

    /// For a gateway with TLS, which has a local socket.
    #[must_use]
    pub fn with_socket(self, socket: PathBuf) -> Self {
        Self { url: self.url.replacen("http:", "https:", 1), socket: Some(socket), ..self }
    }

    /// Writes the file into the data folder, atomically, readable only by this user.
    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        let path = files::control(data_dir);
        let fresh = path.with_extension("json.new");
        let _ = fs::remove_file(&fresh);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut text = json!({ "url": self.url, "host": self.host, "token": self.token.expose() });
        if let Some(socket) = &self.socket {
            text["socket"] = json!(socket);
        }
        let text = text.to_string();
        options.open(&fresh)?.write_all(text.as_bytes())?;
        fs::rename(&fresh, &path)
    }

    /// Reads the file; `None` if there is none, or it cannot be parsed.
    pub fn read(data_dir: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read_to_string(files::control(data_dir)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let member = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        Ok(member(&value, "url").zip(member(&value, "host")).zip(member(&value, "token")).map(
            |((url, host), token)| {
                let socket = member(&value, "socket").map(PathBuf::from);
                Self { url, host, socket, token: Secret::new(token) }
            },
        ))
    }

    /// Removes the file, unless another gateway has written its own in the meantime.
    fn remove(&self, data_dir: &Path) {
        let own = |there: &Self| there.token.expose() == self.token.expose();
        if Self::read(data_dir).ok().flatten().as_ref().is_some_and(own) {
            let _ = fs::remove_file(files::control(data_dir));
        }
    }
}

/// The control file of this gateway. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct WrittenControlFile {
    file: ControlFile,
    data_dir: PathBuf,
}

// === impl WrittenControlFile ===

impl WrittenControlFile {
    /// Writes the file into the data folder.
    pub(super) fn write(file: ControlFile, data_dir: &Path) -> io::Result<Self> {
        file.write(data_dir)?;
        Ok(Self { file, data_dir: data_dir.to_owned() })
    }

    /// Digest of its token, to check requests.
    pub(super) fn token(&self) -> Digest {
        self.file.token.digest()
    }
}

impl Drop for WrittenControlFile {
    fn drop(&mut self) {
        self.file.remove(&self.data_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_as_it_is_written_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let url = PublicUrl::parse("https://mcp.example.com").unwrap();
        assert!(ControlFile::read(folder.path()).unwrap().is_none());
        let control = ControlFile::new("0.0.0.0:8080".parse().unwrap(), &url, Secret::new("t0ken"));
        control.write(folder.path()).unwrap();
        control.write(folder.path()).unwrap();
        let read = ControlFile::read(folder.path()).unwrap().unwrap();
        assert_eq!((read.url.as_str(), read.host.as_str()), ("http://127.0.0.1:8080", "mcp.example.com"));
        assert_eq!(read.token.expose(), "t0ken");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(files::control(folder.path())).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn it_ends_with_its_gateway_but_not_with_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let url = PublicUrl::parse("https://mcp.example.com").unwrap();
        let written = |token| {
            let file = ControlFile::new("127.0.0.1:8080".parse().unwrap(), &url, Secret::new(token));
            WrittenControlFile::write(file, folder.path()).unwrap()
        };
        let (earlier, later) = (written("t0ken"), written("another"));
        drop(earlier);
        assert!(ControlFile::read(folder.path()).unwrap().is_some());
        drop(later);
        assert!(ControlFile::read(folder.path()).unwrap().is_none());
    }
}
