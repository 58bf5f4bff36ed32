//! The gateways of a world: one, or several on one PostgreSQL database behind nginx, which hands requests out in turn:
//! as one gateway to who uses them. Knows nothing of clients and of what servers are.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::future::join_all;
use lockkeeper::config::{CommandLineOptions, Config, Environment};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::{
    kit::gateway::{self, Gateway, configuration},
    support::postgres,
};

/// The configuration of nginx, without places and ports.
const NGINX: &str = include_str!("../../replicas/nginx.conf");

/// What runs in this process until it is stopped.
pub(super) struct Gateways {
    pub(super) url: String,
    running: Vec<Gateway>,
    nginx: Option<Nginx>,
}

/// Where gateways are to keep their data: a folder each, and perhaps a database for all.
#[derive(Debug, Clone)]
pub(super) struct Place {
    folder: PathBuf,
    database: Option<String>,
}

/// Hands requests out in turn until it is dropped.
struct Nginx(PathBuf);

/// The number of gateways that stand behind each address: `LOCKKEEPER_TEST_REPLICAS` on a PostgreSQL server, else one.
pub(super) fn replicas() -> usize {
    let wanted = Environment::system().get("LOCKKEEPER_TEST_REPLICAS").map(|count| count.parse().unwrap());
    let wanted = wanted.unwrap_or(1);
    assert!(wanted == 1 || postgres().is_some(), "replicas need `LOCKKEEPER_TEST_POSTGRES`");
    wanted
}

// === impl Place ===

impl Place {
    /// A place in this folder.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), database: None }
    }

    /// With a new database for all gateways, if there are to be several.
    pub(super) async fn shared(self) -> Self {
        static DATABASES: AtomicUsize = AtomicUsize::new(0);
        let Some(server) = postgres().filter(|_| replicas() > 1) else { return self };
        let name = format!("matrix_{}_{}", std::process::id(), DATABASES.fetch_add(1, Ordering::Relaxed));
        let mut connection = PgConnection::connect(&server).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await.unwrap();
        let (server, _) = server.rsplit_once('/').unwrap();
        Self { database: Some(format!("{server}/{name}")), ..self }
    }

    /// The data folder of a gateway.
    pub(super) fn data(&self, number: usize) -> PathBuf {
        self.folder.join(format!("data-{number}"))
    }

    /// The variables of a gateway and of a command for it.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let database = self.database.clone().map(|url| ("LOCKKEEPER_DATABASE", url));
        gateway::environment().into_iter().chain(database).collect()
    }

    /// The configuration of a gateway; `own` is added to the file.
    pub(super) fn config(&self, number: usize, listen: String, public_url: Option<String>, own: &str) -> Config {
        let text = fs::read_to_string(self.folder.join("lockkeeper.toml")).unwrap();
        let given = CommandLineOptions {
            listen: Some(listen),
            public_url,
            draft: Some(format!("{text}\n{own}")),
            ..CommandLineOptions::default()
        };
        configuration((&self.folder, &self.data(number)), &self.environment(), given)
    }
}

// === impl Gateways ===

impl Gateways {
    /// Starts them, each with the servers that `only` leaves in its configuration.
    pub(super) async fn start(place: &Place, only: impl Fn(&mut Config)) -> Self {
        let mut gateways = Self { url: String::new(), running: Vec::new(), nginx: None };
        if place.database.is_none() {
            let mut config = place.config(0, "127.0.0.1:0".to_owned(), None, "");
            only(&mut config);
            gateways.url = gateways.serve(config).await;
            return gateways;
        }
        let (door, ports) = (free_port(), (0..replicas()).map(|_| free_port()).collect::<Vec<_>>());
        for (number, port) in ports.iter().enumerate() {
            if number > 0 {
                fs::create_dir(place.data(number)).unwrap();
                fs::copy(place.data(0).join("master.key"), place.data(number).join("master.key")).unwrap();
            }
            let own = format!(
                "[replica]\nlisten = \"127.0.0.1:{}\"\n[http]\ntrusted_proxies = [\"127.0.0.1/32\"]\n",
                free_port()
            );
            let public_url = Some(format!("http://127.0.0.1:{door}"));
            let mut config = place.config(number, format!("127.0.0.1:{port}"), public_url, &own);
            only(&mut config);
            gateways.url = gateways.serve(config).await;
        }
        gateways.nginx = Some(Nginx::start(&place.folder, door, &ports));
        gateways
    }

    /// Serves until the end; returns the public URL.
    async fn serve(&mut self, config: Config) -> String {
        let gateway = Gateway::of(config).await;
        let url = gateway.url.clone();
        self.running.push(gateway);
        url
    }

    pub(super) async fn stop(self) {
        join_all(self.running.into_iter().map(Gateway::stop)).await;
        drop(self.nginx);
    }
}

// === impl Nginx ===

impl Nginx {
    /// Returns once it listens: the process that was started ends then, and another one goes on.
    fn start(folder: &Path, door: u16, ports: &[u16]) -> Self {
        let servers: Vec<String> =
            ports.iter().map(|port| format!("server 127.0.0.1:{port} max_fails=1 fail_timeout=1s;")).collect();
        let text = NGINX
            .replace("@folder@", folder.to_str().unwrap())
            .replace("@servers@", &servers.concat())
            .replace("@port@", &door.to_string())
            .replace("@count@", &ports.len().to_string());
        let file = folder.join("nginx.conf");
        fs::write(&file, text).unwrap();
        let nginx = Self(file);
        assert!(nginx.run(&[]), "nginx does not start");
        nginx
    }

    fn run(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&self.0).args(arguments).stdin(Stdio::null());
        command.status().unwrap().success()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.run(&["-s", "stop"]);
    }
}

/// A port that nothing listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
