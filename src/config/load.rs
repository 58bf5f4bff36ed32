//! Loads the checked [`Config`] from command line, environment and file, in this order of precedence, with the defaults
//! last.

use std::{
    cell::RefCell,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use super::{
    backend,
    client_file::ClientFile,
    command_line::{CommandLineOptions, SingleServer},
    configuration::{Config, ConfigSource, DEFAULT_LISTEN},
    database::{DatabasePlace, MasterKeyPlace},
    environment::Environment,
    expand::ReferenceSources,
    file_format::FileFormat,
    file_options::{self, FileOptions, parse_listen},
    files, former_names,
    http::HttpConfig,
    inputs::{self, OpenInput},
    log::{self, LogConfig},
    problem::{ConfigPlace, ConfigProblem, ConfigProblems},
    programs,
    public_url::PublicUrl,
    replica::ReplicaConfig,
    section::SectionReader,
    text_file::text_of,
    tls::{self, TLS_LISTEN, TlsOptions},
    tree::Document,
    unnamed_files::folder_in_place,
};
use crate::model::{BackendSpec, MAX_NESTING, NESTING, Naming, TlsSpec, TrustedProxies, nesting};

/// Maximum size of a configuration file, in bytes.
const LONGEST: u64 = 4 << 20;

/// Places of the gateway's data.
#[derive(Debug, Clone)]
pub struct DataPlaces {
    pub folder: PathBuf,
    pub database: DatabasePlace,
    /// The key that encrypts secrets in it.
    pub master_key: MasterKeyPlace,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: TrustedProxies,
}

impl Config {
    /// The places of its data.
    pub fn places(&self) -> DataPlaces {
        DataPlaces {
            folder: self.data_dir.clone(),
            database: self.database.clone(),
            master_key: self.master_key.clone(),
            trusted_proxies: self.http.trusted_proxies.clone(),
        }
    }
}

/// Options of a file that name places of data, and the ones that concern the keys there.
#[derive(Default)]
struct PlaceOptions {
    data_dir: Option<PathBuf>,
    database: Option<DatabasePlace>,
    master_key_file: Option<PathBuf>,
    trusted_proxies: TrustedProxies,
}

/// State of a load: the sources, and the errors so far.
struct Loader<'a> {
    given: &'a CommandLineOptions,
    environment: &'a Environment,
    folder: &'a Path,
    problems: Vec<ConfigProblem>,
}

/// The notice that the service manager's socket has another address than the configured one.
fn overruled(said: SocketAddr, listen: SocketAddr) -> ConfigProblem {
    let what = format!("{said} has no effect, since systemd passes a socket that listens on {listen}");
    let advice = format!("set `listen = \"{listen}\"`, or change `ListenStream` of the socket unit");
    ConfigProblem::new(ConfigPlace::Option("listen"), what).advise(advice)
}

/// Loads the configuration, with `folder` as the working directory. Reports all errors together.
pub fn load(given: &CommandLineOptions, environment: &Environment, folder: &Path) -> Result<Config, ConfigProblems> {
    let mut loader = Loader { given, environment, folder, problems: Vec::new() };
    loader.refuse_itself();
    let source = loader.source();
    let file = loader.read(&source);
    let (backends, naming) = loader.backends(&source, file.backends);
    let listen = loader.said("--listen", given.listen.clone(), "LOCKKEEPER_LISTEN", parse_listen);
    let said = listen.or(file.listen);
    let names = loader.names(file.tls.as_ref());
    let listen = given.inherited.or(said).unwrap_or_else(|| loader.default_listen(names.is_some()));
    let tls = names.and_then(|names| loader.tls(file.tls.unwrap_or_default(), names, listen));
    let mut without_effect = file.without_effect;
    without_effect.extend(said.filter(|said| *said != listen).map(|said| overruled(said, listen)));
    let public_url = loader.said("--public-url", given.public_url.clone(), "LOCKKEEPER_PUBLIC_URL", PublicUrl::parse);
    let public_url = public_url.or(file.public_url);
    let public_url = loader.url_of(tls.as_ref(), public_url);
    if public_url.is_none() && !listen.ip().is_loopback() && loader.problems.is_empty() {
        let what = format!("this is required, because {listen} is reachable from other machines");
        let advice = "set the URL that clients use, such as `https://mcp.example.com`, as `public_url` in the file, \
                      `--public-url` or LOCKKEEPER_PUBLIC_URL; or listen on 127.0.0.1";
        loader.problems.push(ConfigProblem::new(ConfigPlace::Option("public_url"), what).advise(advice));
    }
    let filter = loader.said("--log", given.log.clone(), "LOCKKEEPER_LOG", log::filter);
    let data_dir = loader.data_dir(file.data_dir);
    let database = loader.database(file.database, &data_dir);
    let master_key = loader.master_key(file.master_key_file, &data_dir);
    let trusted_proxies = loader.trusted_proxies(file.http.trusted_proxies);
    loader.check_replica(file.replica.as_ref(), &database);
    if !loader.problems.is_empty() {
        return Err(ConfigProblems(loader.problems));
    }
    let log =
        LogConfig { filter: filter.unwrap_or(file.log.filter), format: given.log_format.unwrap_or(file.log.format) };
    let (limits, auth, stdio, clients) = (file.limits, file.auth, file.stdio, file.clients);
    let http = HttpConfig { trusted_proxies, ..file.http };
    let (environment, groups, login) = (environment.clone(), file.groups, file.login);
    let config = Config {
        listen,
        public_url,
        data_dir,
        database,
        tls,
        master_key,
        replica: file.replica,
        limits,
        auth,
        login,
        http,
        stdio,
        clients,
        log,
        backends,
        groups,
        naming,
        environment,
        source,
        renamed: file.renamed,
        without_effect,
        former_names: file.former_names,
    };
    Ok(programs::governed(config, &file.programs, &file.secret_files, folder))
}

/// Finds the data, for commands that need nothing else; ignores other errors of the file.
pub fn data_places(
    given: &CommandLineOptions,
    environment: &Environment,
    folder: &Path,
) -> Result<DataPlaces, ConfigProblems> {
    let mut loader = Loader { given, environment, folder, problems: Vec::new() };
    let file = match loader.source() {
        ConfigSource::Named(path) | ConfigSource::Adjacent(path) | ConfigSource::Usual(path) => loader.places_in(&path),
        ConfigSource::CommandLine | ConfigSource::Demo => PlaceOptions::default(),
    };
    let folder = loader.data_dir(file.data_dir);
    let database = loader.database(file.database, &folder);
    let master_key = loader.master_key(file.master_key_file, &folder);
    let trusted_proxies = loader.trusted_proxies(file.trusted_proxies);
    let places = DataPlaces { folder, database, master_key, trusted_proxies };
    if loader.problems.is_empty() { Ok(places) } else { Err(ConfigProblems(loader.problems)) }
}

/// Finds only the data folder. The file is not read if the folder is named elsewhere.
pub fn data_folder(
    given: &CommandLineOptions,
    environment: &Environment,
    folder: &Path,
) -> Result<PathBuf, ConfigProblems> {
    if given.data_dir.is_none() && environment.said("LOCKKEEPER_DATA_DIR").is_none() {
        return data_places(given, environment, folder).map(|places| places.folder);
    }
    Ok(Loader { given, environment, folder, problems: Vec::new() }.data_dir(None))
}

/// True if a file with this name and this text lists the servers of another program.
pub fn is_of_another_program(path: &Path, text: &str) -> bool {
    let format = FileFormat::of(path, text);
    format != FileFormat::Toml || format.parse("", text).is_ok_and(|document| ClientFile::is_one(&document))
}

/// The values that the servers of the file need and that were not given.
pub fn open_inputs(given: &CommandLineOptions, environment: &Environment, folder: &Path) -> Vec<OpenInput> {
    let mut loader = Loader { given, environment, folder, problems: Vec::new() };
    let source = loader.source();
    let Some(path) = source.file().filter(|_| source != ConfigSource::Demo) else { return Vec::new() };
    let Some((_, document)) = loader.document(path).filter(|(format, _)| *format != FileFormat::Toml) else {
        return Vec::new();
    };
    let referred = inputs::referred(&ClientFile::new(document, folder).document);
    referred.into_iter().filter(|input| !given.inputs.contains_key(&input.id)).collect()
}

/// The configuration that would be loaded.
pub fn source(given: &CommandLineOptions, environment: &Environment, folder: &Path) -> ConfigSource {
    Loader { given, environment, folder, problems: Vec::new() }.source()
}

// === impl Loader ===

impl Loader<'_> {
    /// A named file has precedence; a server from the command line comes before files that are not named.
    fn source(&self) -> ConfigSource {
        let named = self.given.config.clone().or_else(|| self.environment.said("LOCKKEEPER_CONFIG").map(PathBuf::from));
        match (named, &self.given.single) {
            (Some(path), _) => ConfigSource::Named(path),
            (None, Some(_)) => ConfigSource::CommandLine,
            (None, None) => self.given.unnamed.source(self.environment, self.folder),
        }
    }

    fn read(&mut self, source: &ConfigSource) -> FileOptions {
        let Some(path) = source.file().filter(|_| *source != ConfigSource::Demo) else { return FileOptions::default() };
        let Some((format, document)) = self.document(path) else { return FileOptions::default() };
        let base = self.base(path);
        let (mut former_names, mut problems) = (Vec::new(), Vec::new());
        let (document, client_table, other_projects) = if format == FileFormat::Toml && !ClientFile::is_one(&document) {
            let file = former_names::modernize(document);
            (former_names, problems) = (file.notices, file.problems);
            (file.document, None, Vec::new())
        } else {
            let file = ClientFile::new(document, self.folder);
            (file.document, Some(file.table), file.other_projects)
        };
        let sources = ReferenceSources { environment: self.environment, folder: &base, inputs: &self.given.inputs };
        let reader = SectionReader {
            document: &document,
            sources,
            problems: RefCell::new(problems),
            without_effect: RefCell::default(),
        };
        let mut file = match client_table {
            Some(table) => file_options::read_shared(reader.root(), table, &base),
            None => file_options::read_toml(reader.root(), &base),
        };
        file.without_effect = reader.without_effect.take();
        file.secret_files = programs::secret_files(&document, sources);
        file.former_names = former_names;
        self.problems.append(&mut reader.into_problems());
        // a lockkeeper.toml may have only settings: `lockkeeper add` writes servers into it
        if client_table.is_some() && file.backends.is_empty() && self.problems.is_empty() {
            self.problems.push(no_servers(path, &other_projects));
        }
        file
    }

    /// Parses the file; reports the error and returns `None` if it cannot be read.
    fn document(&mut self, path: &Path) -> Option<(FileFormat, Document)> {
        let file = path.display().to_string();
        let whole = self.folder.join(path);
        let unreadable = |why: &dyn std::fmt::Display| {
            ConfigProblem::new(ConfigPlace::WholeFile(file.clone()), format!("the file cannot be read: {why}"))
        };
        let text = match fs::metadata(&whole) {
            _ if let Some(draft) = &self.given.draft => Ok(draft.clone()),
            Ok(metadata) if metadata.is_dir() => Err(folder_in_place(&file)),
            Ok(metadata) if metadata.len() > LONGEST => Err(unreadable(&"it is longer than 4 MiB")),
            _ => text_of(&whole).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => unreadable(&error),
                _ => unreadable(&error).advise("check its name and its permissions"),
            }),
        };
        let document = match text {
            Err(problem) => Err(ConfigProblems(vec![problem])),
            Ok(text) => {
                let format = FileFormat::of(path, &text);
                format.parse(&file, &text).map(|document| (format, document))
            }
        };
        document.map_err(|mut problems| self.problems.append(&mut problems.0)).ok()
    }

    fn backends(&mut self, source: &ConfigSource, in_file: Vec<BackendSpec>) -> (Vec<BackendSpec>, Naming) {
        let single = match &self.given.single {
            None if *source == ConfigSource::Demo => return (vec![backend::demo()], Naming::Prefixed),
            None => return (in_file, Naming::Prefixed),
            Some(SingleServer::Command(words)) => {
                words.split_first().map(|(command, args)| backend::from_command(command, args))
            }
            Some(SingleServer::Url(url)) => {
                backend::from_url(url, self.folder).map_err(|problem| self.problems.push(problem)).ok()
            }
        };
        if !in_file.is_empty() {
            let what = "both the command line and the file have servers";
            let advice = "remove one of them";
            self.problems.push(ConfigProblem::new(ConfigPlace::Argument("--config"), what).advise(advice));
        }
        (single.into_iter().collect(), Naming::Plain)
    }

    /// Refuses to run below too many gateways.
    fn refuse_itself(&mut self) {
        let above = nesting(self.environment.get(NESTING));
        if above > MAX_NESTING {
            let what =
                format!("{above} gateways above this one started each other: does its configuration start itself?");
            let advice = "give a gateway that is a server of another one a file of its own: `--config FILE`";
            self.problems.push(ConfigProblem::new(ConfigPlace::Variable(NESTING), what).advise(advice));
        }
    }

    /// Value of a command-line option, else of its variable.
    fn said<T>(
        &mut self,
        argument: &'static str,
        given: Option<String>,
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (place, text) = match (given, self.environment.get(variable)) {
            (Some(text), _) => (ConfigPlace::Argument(argument), text),
            (None, Some(text)) if !text.is_empty() => (ConfigPlace::Variable(variable), text.to_owned()),
            (None, _) => return None,
        };
        parse(&text).map_err(|what| self.problems.push(ConfigProblem::new(place, what))).ok()
    }

    /// The names of the gateway: the given ones, else the file's; `None` without TLS.
    fn names(&mut self, in_file: Option<&TlsOptions>) -> Option<Vec<String>> {
        let given = (!self.given.domains.is_empty()).then(|| self.given.domains.join(","));
        let said = self.said("--domain", given, "LOCKKEEPER_DOMAIN", tls::domains);
        said.or_else(|| in_file.map(|options| options.names.clone()))
    }

    fn tls(&mut self, options: TlsOptions, names: Vec<String>, listen: SocketAddr) -> Option<TlsSpec> {
        let fault = |what| self.problems.push(ConfigProblem::new(ConfigPlace::Option("[tls]"), what));
        options.for_names(names, listen).map_err(fault).ok()
    }

    /// The public URL: the given one, else the first name's.
    fn url_of(&mut self, tls: Option<&TlsSpec>, said: Option<PublicUrl>) -> Option<PublicUrl> {
        let Some(tls) = tls else { return said };
        if said.as_ref().is_some_and(|url| !url.as_str().starts_with("https://")) {
            let problem =
                ConfigProblem::new(ConfigPlace::Option("public_url"), "this must be https, since `[tls]` is set");
            self.problems.push(problem.advise("write the same URL with https, or remove `public_url`"));
        }
        said.or_else(|| PublicUrl::parse(&format!("https://{}", tls.names.first()?)).ok())
    }

    fn data_dir(&mut self, in_file: Option<PathBuf>) -> PathBuf {
        let said = self.given.data_dir.clone();
        let said = said.or_else(|| self.environment.said("LOCKKEEPER_DATA_DIR").map(PathBuf::from)).or(in_file);
        let said = said.or_else(platform_data_dir);
        let folder = said.unwrap_or_else(|| {
            let what = "there is no home folder for data";
            let place = ConfigPlace::Option("data_dir");
            self.problems.push(ConfigProblem::new(place, what).advise("set `--data-dir DIR` or LOCKKEEPER_DATA_DIR"));
            PathBuf::new()
        });
        // Without `.` components, which would only be confusing in messages.
        self.folder.join(folder).components().collect()
    }

    /// Value of a variable without a command-line option; `None` if it is not set or empty.
    fn variable<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let text = self.environment.get(name).filter(|text| !text.is_empty())?;
        parse(text).map_err(|what| self.problems.push(ConfigProblem::new(ConfigPlace::Variable(name), what))).ok()
    }

    fn database(&mut self, in_file: Option<DatabasePlace>, data_dir: &Path) -> DatabasePlace {
        let said = self.variable("LOCKKEEPER_DATABASE", DatabasePlace::parse).or(in_file);
        said.map_or_else(|| DatabasePlace::in_folder(data_dir), |place| place.from_folder(self.folder))
    }

    fn master_key(&mut self, in_file: Option<PathBuf>, data_dir: &Path) -> MasterKeyPlace {
        let said = self.variable("LOCKKEEPER_MASTER_KEY_FILE", |text| Ok(PathBuf::from(text))).or(in_file);
        said.map_or_else(
            || MasterKeyPlace::InFolder(files::master_key(data_dir)),
            |path| MasterKeyPlace::Named(self.folder.join(path)),
        )
    }

    fn trusted_proxies(&mut self, in_file: TrustedProxies) -> TrustedProxies {
        self.variable("LOCKKEEPER_TRUSTED_PROXIES", TrustedProxies::parse).unwrap_or(in_file)
    }

    /// The port where a platform reaches the gateway (`PORT`). Other programs read that variable too, so it counts only
    /// together with one of the gateway's own.
    fn platform_port(&mut self) -> Option<SocketAddr> {
        self.environment.get("LOCKKEEPER_PUBLIC_URL").filter(|url| !url.is_empty())?;
        let parse = |text: &str| match text.parse::<u16>() {
            Ok(port) if port > 0 => Ok((Ipv4Addr::UNSPECIFIED, port).into()),
            _ => Err("this must be a port; to ignore it, set LOCKKEEPER_LISTEN or `listen`".to_owned()),
        };
        self.variable("PORT", parse)
    }

    fn default_listen(&mut self, has_tls: bool) -> SocketAddr {
        if has_tls { TLS_LISTEN } else { self.platform_port().unwrap_or(DEFAULT_LISTEN) }
    }

    /// Replicas need a database that they can share.
    fn check_replica(&mut self, replica: Option<&ReplicaConfig>, database: &DatabasePlace) {
        if let (Some(_), DatabasePlace::File(_)) = (replica, database) {
            let what = "`[replica]` needs a PostgreSQL database that all replicas use";
            let advice =
                "set `database = \"postgres://USER@HOST/DATABASE\"` or LOCKKEEPER_DATABASE, or remove `[replica]`";
            self.problems.push(ConfigProblem::new(ConfigPlace::Option("database"), what).advise(advice));
        }
    }

    /// Reads only these options of the file, and reports an error in them.
    fn places_in(&mut self, path: &Path) -> PlaceOptions {
        let Some((_, document)) = self.document(path).filter(|(format, _)| *format == FileFormat::Toml) else {
            return PlaceOptions::default();
        };
        let base = self.base(path);
        let sources = ReferenceSources { environment: self.environment, folder: &base, inputs: &self.given.inputs };
        let reader = SectionReader {
            document: &document,
            sources,
            problems: RefCell::default(),
            without_effect: RefCell::default(),
        };
        let mut root = reader.root();
        let places = PlaceOptions {
            data_dir: file_options::path_in(&mut root, "data_dir", &base),
            database: file_options::database_in(&mut root, &base),
            master_key_file: file_options::path_in(&mut root, "master_key_file", &base),
            trusted_proxies: HttpConfig::proxies(&mut root.table("http")),
        };
        drop(root);
        self.problems.append(&mut reader.into_problems());
        places
    }

    /// Base of relative paths in a file: its own folder.
    fn base(&self, path: &Path) -> PathBuf {
        self.folder.join(path).parent().map_or_else(|| self.folder.to_owned(), Path::to_owned)
    }
}

/// The refusal of another program's file that lists nothing: it has no other purpose.
fn no_servers(path: &Path, other_projects: &[String]) -> ConfigProblem {
    let place = ConfigPlace::WholeFile(path.display().to_string());
    if other_projects.is_empty() {
        let advice = "add one there, or name another file with `--config FILE`";
        return ConfigProblem::new(place, "the file has no servers, or none that is enabled").advise(advice);
    }
    let what = "the file has servers only for certain folders, and none for this one";
    ConfigProblem::new(place, what).advise(format!("start in one of {}", other_projects.join(", ")))
}

/// The user's data folder of the platform, with `lockkeeper` appended.
fn platform_data_dir() -> Option<PathBuf> {
    use etcetera::BaseStrategy as _;
    Some(etcetera::choose_base_strategy().ok()?.data_dir().join("lockkeeper"))
}
