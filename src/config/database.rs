//! The option `database`: where the data is kept.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use url::Url;

use super::files;
use crate::support::Secret;

/// Place of the data. Displays without the password.
#[derive(Debug, Clone)]
pub enum DatabasePlace {
    /// A file of SQLite.
    File(PathBuf),
    Server(DatabaseUrl),
}

/// URL of a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct DatabaseUrl {
    /// The URL, which may contain a password.
    url: Secret,
    /// Host, port and database.
    name: String,
}

/// Place of the key that encrypts secrets in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterKeyPlace {
    /// A file of the data folder, which the gateway creates.
    InFolder(PathBuf),
    /// A file named in the configuration and provided by the operator. The gateway only reads it.
    Named(PathBuf),
}

// === impl DatabasePlace ===

impl DatabasePlace {
    /// The place without a setting: a file in the data folder.
    pub fn in_folder(data_dir: &Path) -> Self {
        Self::File(files::database(data_dir))
    }

    /// Parses `postgres://…` or `sqlite:PATH`; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("sqlite:") {
            Some("") => Err("the path is missing: write `sqlite:PATH`".to_owned()),
            Some(path) => Ok(Self::File(PathBuf::from(path))),
            None => DatabaseUrl::parse(text).map(Self::Server),
        }
    }

    /// The same place, with a relative path starting at `folder`.
    #[must_use]
    pub fn from_folder(self, folder: &Path) -> Self {
        match self {
            Self::File(path) => Self::File(folder.join(path)),
            server @ Self::Server(_) => server,
        }
    }
}

impl PartialEq for DatabasePlace {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => one == other,
            (Self::Server(one), Self::Server(other)) => one.url.expose() == other.url.expose(),
            _ => false,
        }
    }
}

impl fmt::Display for DatabasePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(url) => f.write_str(&url.name),
        }
    }
}

// === impl DatabaseUrl ===

impl DatabaseUrl {
    fn parse(text: &str) -> Result<Self, String> {
        // never quoted, since it may contain a password
        let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err("this must be `postgres://USER@HOST/DATABASE` or `sqlite:PATH`".to_owned());
        }
        let database = url.path().trim_matches('/');
        if database.is_empty() {
            return Err("the name of the database is missing: write `postgres://USER@HOST/DATABASE`".to_owned());
        }
        let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost");
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self { name: format!("{host}{port}/{database}"), url: Secret::new(text) })
    }

    /// The URL itself. Call it only to connect.
    pub fn expose(&self) -> &str {
        self.url.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_without_its_password() {
        let place = DatabasePlace::parse("postgres://lk:s3cret@db.example:5433/gateway?sslmode=require").unwrap();
        assert_eq!(place.to_string(), "db.example:5433/gateway");
        assert!(!format!("{place:?}").contains("s3cret"));
        let file = DatabasePlace::parse("sqlite:data/x.sqlite3").unwrap().from_folder(Path::new("/srv"));
        assert_eq!(file.to_string(), "/srv/data/x.sqlite3");
    }

    #[test]
    fn what_is_no_database_is_refused_without_a_quotation() {
        for (wrong, told) in [
            ("mysql://lk:s3cret@db/x", "this must be `postgres://"),
            ("postgres://lk:s3cret@db", "the name of the database is missing"),
            ("s3cret", "this is not a URL"),
            ("sqlite:", "the path is missing"),
        ] {
            let error = DatabasePlace::parse(wrong).unwrap_err();
            assert!(error.starts_with(told) && !error.contains("s3cret"), "{error}");
        }
    }
}
