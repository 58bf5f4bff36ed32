//! From what was said (command line, environment, file) to the checked [`Config`]. The order in which they count: the
//! command line, `LOCKKEEPER_*` variables, the file, the defaults. Knows nothing of running parts.

use std::{
    cell::RefCell,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::{
    auth,
    backend::{self, Dialect},
    clients::Clients,
    configuration::{Config, DEFAULT_LISTEN, Source},
    environment::Environment,
    from_json, from_toml,
    http::Http,
    limits::Limits,
    log::{self, Log, LogFormat},
    problem::{Place, Problem, Problems},
    public_url::PublicUrl,
    section::{Reader, Section},
    tree::Document,
};
use crate::model::{AuthPolicy, BackendSpec, Naming};

/// The file that is read where none is named.
const ADJACENT: &str = "lockkeeper.toml";

/// The longest configuration file, in bytes.
const LONGEST: u64 = 4 << 20;

/// What the command line says. Each field is `None` where it says nothing.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<String>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--public-url`.
    pub public_url: Option<String>,
    /// `--log`.
    pub log: Option<String>,
    /// `--log-format`.
    pub log_format: Option<LogFormat>,
    /// One backend alone.
    pub single: Option<Single>,
}

/// One backend alone, from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Single {
    /// What stands after `--`; not empty.
    Command(Vec<String>),
    /// `--url`.
    Url(String),
}

/// What a file says. Every option that other places may say too is `None` where it says nothing.
#[derive(Default)]
struct FromFile {
    listen: Option<SocketAddr>,
    public_url: Option<PublicUrl>,
    data_dir: Option<PathBuf>,
    limits: Limits,
    auth: AuthPolicy,
    http: Http,
    clients: Clients,
    log: Log,
    backends: Vec<BackendSpec>,
}

/// Where faults are gathered, and what stands in for the real environment.
struct Loader<'a> {
    given: &'a Given,
    environment: &'a Environment,
    folder: &'a Path,
    problems: Vec<Problem>,
}

/// Reads everything, with `folder` as the working directory. All faults are reported together.
pub fn load(given: &Given, environment: &Environment, folder: &Path) -> Result<Config, Problems> {
    let mut loader = Loader { given, environment, folder, problems: Vec::new() };
    let source = loader.source();
    let file = loader.read(&source);
    let (backends, naming) = loader.backends(file.backends);
    let listen = loader.said("--listen", given.listen.clone(), "LOCKKEEPER_LISTEN", parse_listen);
    let listen = listen.or(file.listen).unwrap_or(DEFAULT_LISTEN);
    let public_url = loader.said("--public-url", given.public_url.clone(), "LOCKKEEPER_PUBLIC_URL", PublicUrl::parse);
    let public_url = public_url.or(file.public_url);
    if public_url.is_none() && !listen.ip().is_loopback() && loader.problems.is_empty() {
        let what = format!("this must be said, because {listen} can be reached from other machines");
        let advice = "give the URL that clients use, such as `https://mcp.example.com`, as `public_url` in the file, \
                      `--public-url` or LOCKKEEPER_PUBLIC_URL; or listen on 127.0.0.1";
        loader.problems.push(Problem::new(Place::Missing("public_url"), what).advise(advice));
    }
    let filter = loader.said("--log", given.log.clone(), "LOCKKEEPER_LOG", log::filter);
    let data_dir = loader.data_dir(file.data_dir);
    if !loader.problems.is_empty() {
        return Err(Problems(loader.problems));
    }
    let log = Log { filter: filter.unwrap_or(file.log.filter), format: given.log_format.unwrap_or(file.log.format) };
    let (limits, auth, http, clients) = (file.limits, file.auth, file.http, file.clients);
    let environment = environment.clone();
    Ok(Config { listen, public_url, data_dir, limits, auth, http, clients, log, backends, naming, environment, source })
}

/// The data folder alone, for commands that need nothing else: other faults of the file do not stand in their way.
pub fn data_dir(given: &Given, environment: &Environment, folder: &Path) -> Result<PathBuf, Problems> {
    let mut loader = Loader { given, environment, folder, problems: Vec::new() };
    let in_file = match (&given.data_dir, environment.get("LOCKKEEPER_DATA_DIR"), loader.source()) {
        (None, None, Source::Named(path) | Source::Adjacent(path)) => loader.data_dir_of(&path),
        _ => None,
    };
    let data_dir = loader.data_dir(in_file);
    if loader.problems.is_empty() { Ok(data_dir) } else { Err(Problems(loader.problems)) }
}

// === impl Loader ===

impl Loader<'_> {
    /// A named file goes before everything; one backend from the command line before the file in the working directory.
    fn source(&self) -> Source {
        let named = self.given.config.clone().or_else(|| self.environment.get("LOCKKEEPER_CONFIG").map(PathBuf::from));
        match (named, &self.given.single) {
            (Some(path), _) => Source::Named(path),
            (None, Some(_)) => Source::CommandLine,
            (None, None) if self.folder.join(ADJACENT).is_file() => Source::Adjacent(PathBuf::from(ADJACENT)),
            (None, None) => Source::Demo,
        }
    }

    fn read(&mut self, source: &Source) -> FromFile {
        let (Source::Named(path) | Source::Adjacent(path)) = source else { return FromFile::default() };
        let Some(document) = self.document(path) else { return FromFile::default() };
        let base = self.base(path);
        let reader = Reader { document: &document, environment: self.environment, problems: RefCell::default() };
        let file = if is_json(path) { read_json(reader.root(), &base) } else { read_toml(reader.root(), &base) };
        self.problems.append(&mut reader.into_problems());
        file
    }

    /// The parsed file; `None` where it cannot be read, and then the reason is noted.
    fn document(&mut self, path: &Path) -> Option<Document> {
        let file = path.display().to_string();
        let whole = self.folder.join(path);
        let text = match fs::metadata(&whole) {
            Ok(metadata) if metadata.len() > LONGEST => Err("it is longer than 4 MiB".to_owned()),
            _ => fs::read_to_string(&whole).map_err(|error| error.to_string()),
        };
        let document = match text {
            Err(why) => {
                let what = format!("the file cannot be read: {why}");
                Err(Problems(vec![Problem::new(Place::WholeFile(file), what).advise("look at its name and its mode")]))
            }
            Ok(text) if is_json(path) => from_json::parse(&file, text.trim_start_matches('\u{feff}')),
            Ok(text) => from_toml::parse(&file, &text),
        };
        document.map_err(|mut problems| self.problems.append(&mut problems.0)).ok()
    }

    fn backends(&mut self, in_file: Vec<BackendSpec>) -> (Vec<BackendSpec>, Naming) {
        let single = match &self.given.single {
            None if in_file.is_empty() => return (vec![backend::demo()], Naming::Prefixed),
            None => return (in_file, Naming::Prefixed),
            Some(Single::Command(words)) => {
                words.split_first().map(|(command, args)| backend::from_command(command, args))
            }
            Some(Single::Url(url)) => backend::from_url(url).map_err(|problem| self.problems.push(problem)).ok(),
        };
        if !in_file.is_empty() {
            let what = "a backend is given on the command line, and the file has backends too";
            let advice = "leave one of them out";
            self.problems.push(Problem::new(Place::Argument("--config"), what).advise(advice));
        }
        (single.into_iter().collect(), Naming::Plain)
    }

    /// What the command line says, else what the variable says.
    fn said<T>(
        &mut self,
        argument: &'static str,
        given: Option<String>,
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (place, text) = match (given, self.environment.get(variable)) {
            (Some(text), _) => (Place::Argument(argument), text),
            (None, Some(text)) if !text.is_empty() => (Place::Variable(variable), text.to_owned()),
            (None, _) => return None,
        };
        parse(&text).map_err(|what| self.problems.push(Problem::new(place, what))).ok()
    }

    fn data_dir(&mut self, in_file: Option<PathBuf>) -> PathBuf {
        let said = self.given.data_dir.clone();
        let said = said.or_else(|| self.environment.get("LOCKKEEPER_DATA_DIR").map(PathBuf::from)).or(in_file);
        let said = said.or_else(platform_data_dir);
        let folder = said.unwrap_or_else(|| {
            let what = "there is no home folder to keep data in";
            let place = Place::Missing("data_dir");
            self.problems.push(Problem::new(place, what).advise("say where: `--data-dir DIR` or LOCKKEEPER_DATA_DIR"));
            PathBuf::new()
        });
        // Without the `.` components, which only confuse in messages.
        self.folder.join(folder).components().collect()
    }

    /// `data_dir` of the file alone; a fault in it is noted.
    fn data_dir_of(&mut self, path: &Path) -> Option<PathBuf> {
        if is_json(path) {
            return None;
        }
        let document = self.document(path)?;
        let reader = Reader { document: &document, environment: self.environment, problems: RefCell::default() };
        let data_dir = reader.root().text("data_dir").map(|text| self.base(path).join(text));
        self.problems.append(&mut reader.into_problems());
        data_dir
    }

    /// Where the relative paths in a file count from: its own folder.
    fn base(&self, path: &Path) -> PathBuf {
        self.folder.join(path).parent().map_or_else(|| self.folder.to_owned(), Path::to_owned)
    }
}

/// Reads a `lockkeeper.toml`.
fn read_toml(mut root: Section<'_>, base: &Path) -> FromFile {
    let mut sections = (root.table("limits"), root.table("auth"), root.table("http"), root.table("log"));
    let file = FromFile {
        listen: root.parsed("listen", parse_listen),
        public_url: root.parsed("public_url", PublicUrl::parse),
        data_dir: root.text("data_dir").map(|text| base.join(text)),
        limits: Limits::read(&mut sections.0),
        auth: auth::read(&mut sections.1),
        http: Http::read(&mut sections.2),
        clients: Clients::read(root.table("clients")),
        log: Log::read(&mut sections.3),
        backends: backend::read_all(root.table("backends"), Dialect::Own, base),
    };
    sections.0.finish();
    sections.1.finish();
    sections.2.finish();
    sections.3.finish();
    root.finish();
    file
}

/// Reads a file in the `mcpServers` form (Claude Desktop, Claude Code, Cursor) or the `servers` form (VS Code). What else
/// stands at the top belongs to the program whose file it is.
fn read_json(mut root: Section<'_>, base: &Path) -> FromFile {
    let (claude, vs_code) = (root.has("mcpServers"), root.has("servers"));
    if claude == vs_code {
        let what = if claude { "`mcpServers` and `servers` are both there" } else { "there are no servers in it" };
        root.fault(what, Some("a JSON file holds one table `mcpServers` (or, as VS Code writes it, `servers`)"));
    }
    root.refuse(
        "inputs",
        "values that a person is asked for cannot be had by a gateway",
        "put them into environment variables and write `${NAME}` where `${input:…}` stands",
    );
    let section = root.table(if vs_code { "servers" } else { "mcpServers" });
    FromFile { backends: backend::read_all(section, Dialect::Shared, base), ..FromFile::default() }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json") || extension == "jsonc")
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let fault = "this must be an address and a port, such as `127.0.0.1:8080`, `[::]:8080` or `0.0.0.0:8080`";
    let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    named.as_deref().unwrap_or(text).parse().map_err(|_| fault.to_owned())
}

/// The folder for data of the platform's user, and `lockkeeper` in it.
fn platform_data_dir() -> Option<PathBuf> {
    use etcetera::BaseStrategy as _;
    Some(etcetera::choose_base_strategy().ok()?.data_dir().join("lockkeeper"))
}
