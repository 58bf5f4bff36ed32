//! The options of one file: its top level, and the tables below it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use super::{
    auth, backend,
    clients::ClientsConfig,
    database::DatabasePlace,
    dialect::Dialect,
    groups,
    http::HttpConfig,
    limits,
    log::LogConfig,
    login,
    problem::ConfigProblem,
    programs::{ProgramsConfig, SecretFile},
    public_url::PublicUrl,
    replica::ReplicaConfig,
    section::Section,
    stdio::StdioConfig,
    tls::TlsOptions,
};
use crate::model::{AuthPolicy, BackendId, BackendSpec, Groups, LimitsConfig, LoginProvider, config_key::key_rows};

key_rows! {
    /// The keys next to tables.
    pub(super) const KEYS {
        /// Address to listen on; a port by itself listens on this machine only. Port 0 lets the system choose. A socket
        /// that [systemd passes](deployment.md#systemd) takes precedence.
        listen: Text("address and port, or a port"), Value("\"127.0.0.1:8080\"");
        /// The URL of the gateway for clients: https, or http of a loopback host; without path, query, fragment and
        /// trailing slash. Required if `listen` is not a loopback address.
        ///
        /// Issuer, endpoints and cookies derive only from it. Without it: `http://` and the address.
        public_url: Text("URL"), None("\"https://mcp.example.com\"");
        /// The folder of the database and keys. Without it: the platform's data folder, such as
        /// `~/.local/share/lockkeeper`.
        data_dir: Text("path"), None("\"/var/lib/lockkeeper\"");
        /// Place of the data: `postgres://USER@HOST/DATABASE` ([PostgreSQL](operations.md#postgresql)) or
        /// `sqlite:PATH`. Without it: a file in the data folder.
        database: Text("text"), None("\"postgres://lockkeeper:PASSWORD@db.example/lockkeeper?sslmode=verify-full\"");
        /// A file with the [master key](operations.md#master-key), provided for example as a secret of Docker or
        /// Kubernetes: 32 bytes in base64url. The gateway only reads it. Without it: `master.key` in the data folder,
        /// which the gateway creates.
        master_key_file: Text("path"), None("\"/run/secrets/master_key\"");
    }
}

key_rows! {
    /// The tables of a file.
    pub(super) const TABLES {
        /// TLS without a proxy: [`[tls]`](#tls)
        tls: Table("tls"), None("");
        /// Runs this gateway as one of several on its database: [`[replica]`](#replica)
        replica: Table("replica"), None("");
        /// Limits and timeouts: [`[limits]`](#limits)
        limits: Table("limits"), None("");
        /// The authorization server: [`[auth]`](#auth)
        auth: Table("auth"), None("");
        /// Access over HTTP: [`[http]`](#http)
        http: Table("http"), None("");
        /// Clients of `lockkeeper stdio`: [`[stdio]`](#stdio)
        stdio: Table("stdio"), None("");
        /// The log: [`[log]`](#log)
        log: Table("log"), None("");
        /// The programs of all servers: [`[programs]`](#programs)
        programs: Table("programs"), None("");
        /// Single clients, by the name they introduce themselves with: [`[clients.<name>]`](#clientsname)
        clients: Tables("client"), None("");
        /// The servers behind the gateway, by name: [`[servers.<name>]`](#serversname)
        servers: Tables("server"), None("");
        /// Servers with an endpoint of their own, by its name: [`[groups.<name>]`](#groupsname)
        groups: Tables("group"), None("");
        /// OpenID providers where people log in, by name: [`[login.<name>]`](#loginname)
        login: Tables("login"), None("");
    }
}

/// Options of a file. An option that the command line or environment may override is `None` if absent.
#[derive(Default)]
pub(super) struct FileOptions {
    pub(super) listen: Option<SocketAddr>,
    pub(super) public_url: Option<PublicUrl>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) database: Option<DatabasePlace>,
    pub(super) tls: Option<TlsOptions>,
    pub(super) master_key_file: Option<PathBuf>,
    pub(super) replica: Option<ReplicaConfig>,
    pub(super) limits: LimitsConfig,
    pub(super) auth: AuthPolicy,
    pub(super) login: Vec<LoginProvider>,
    pub(super) http: HttpConfig,
    pub(super) stdio: StdioConfig,
    pub(super) clients: ClientsConfig,
    pub(super) log: LogConfig,
    pub(super) programs: ProgramsConfig,
    /// The secret files that it names.
    pub(super) secret_files: Vec<SecretFile>,
    pub(super) backends: Vec<BackendSpec>,
    pub(super) renamed: Vec<(String, BackendId)>,
    pub(super) without_effect: Vec<ConfigProblem>,
    pub(super) former_names: Vec<ConfigProblem>,
    pub(super) groups: Groups,
}

pub(super) fn read_toml(mut root: Section<'_>, base: &Path) -> FileOptions {
    let mut sections = (root.table("limits"), root.table("auth"), root.table("http"), root.table("log"));
    let (mut stdio, mut programs) = (root.table("stdio"), root.table("programs"));
    let tls = root.has("tls").then(|| {
        let mut section = root.table("tls");
        let tls = TlsOptions::read(&mut section, base);
        section.finish();
        tls
    });
    let replica = root.has("replica").then(|| {
        let mut section = root.table("replica");
        let replica = ReplicaConfig::read(&mut section);
        section.finish();
        replica
    });
    let replica = replica.flatten();
    let backends = root.table("servers");
    let servers: Vec<BackendId> = backends.names().filter_map(|name| BackendId::normalise(name).ok()).collect();
    let groups = groups::read_all(root.table("groups"), &servers);
    let names: Vec<BackendId> = servers.iter().cloned().chain(groups.iter().map(|group| group.id.clone())).collect();
    let file = FileOptions {
        listen: root.parsed_or_number("listen", parse_listen),
        public_url: root.parsed("public_url", PublicUrl::parse),
        data_dir: path_in(&mut root, "data_dir", base),
        database: database_in(&mut root, base),
        tls,
        master_key_file: path_in(&mut root, "master_key_file", base),
        replica,
        limits: limits::read(&mut sections.0),
        auth: auth::read(&mut sections.1),
        login: login::read_all(root.table("login"), &names),
        http: HttpConfig::read(&mut sections.2),
        stdio: StdioConfig::read(&mut stdio),
        clients: ClientsConfig::read(root.table("clients")),
        log: LogConfig::read(&mut sections.3),
        programs: ProgramsConfig::read(&mut programs),
        secret_files: Vec::new(),
        renamed: renamed(&backends),
        without_effect: Vec::new(),
        former_names: Vec::new(),
        backends: backend::read_all(backends, Dialect::Own, base),
        groups,
    };
    sections.0.finish();
    sections.1.finish();
    sections.2.finish();
    sections.3.finish();
    stdio.finish();
    programs.finish();
    root.finish();
    file
}

/// Reads the servers of a file of another program. Its other members are ignored.
pub(super) fn read_shared(mut root: Section<'_>, table: &'static str, base: &Path) -> FileOptions {
    let (claude, vs_code) = (root.has("mcpServers"), root.has("servers"));
    if claude && vs_code || !root.has(table) {
        let what = if claude { "the file has both `mcpServers` and `servers`" } else { "the file has no servers" };
        root.fault(what, Some("a JSON file needs one object `mcpServers` (in VS Code `servers`)"));
    }
    let section = root.table(table);
    let renamed = renamed(&section);
    FileOptions { renamed, backends: backend::read_all(section, Dialect::Shared, base), ..FileOptions::default() }
}

/// Reads `database`, with a relative path starting at `base`.
pub(super) fn database_in(root: &mut Section<'_>, base: &Path) -> Option<DatabasePlace> {
    root.parsed("database", DatabasePlace::parse).map(|place| place.from_folder(base))
}

/// Reads a path; a relative one starts at `base`.
pub(super) fn path_in(root: &mut Section<'_>, key: &'static str, base: &Path) -> Option<PathBuf> {
    root.text(key).map(|text| base.join(text))
}

/// The servers whose names must be changed.
fn renamed(section: &Section<'_>) -> Vec<(String, BackendId)> {
    let named = section.names().filter_map(|name| Some((name.to_owned(), BackendId::normalise(name).ok()?)));
    named.filter(|(name, id)| name != id.as_str()).collect()
}

/// Parses an address and a port, or a port of this machine.
pub(super) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let fault = "this must be a port, or an address and a port, such as `8080`, `[::]:8080` or `0.0.0.0:8080`";
    // a port by itself listens on this machine only
    let port = text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>();
    port.map(|port| (Ipv4Addr::LOCALHOST, port).into()).or_else(|_| text.parse()).map_err(|_| fault.to_owned())
}
