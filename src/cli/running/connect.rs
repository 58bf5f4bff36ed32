//! `lockkeeper connect`: connects a local client on standard input and output to a remote MCP server, and logs in
//! through the browser. While it serves a client, only messages go to standard output.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};
use tokio::sync::mpsc;
use url::Url;

use super::{serve::install, stdio};
use crate::{
    cli::{
        arguments::{self, values},
        terminal::{
            failure::CommandFailure,
            page_viewer::{PageDisplay, PageToShow, PageViewer},
            pasted_address::PastedLines,
            process::ProcessContext,
        },
    },
    config::{
        CommandLineOptions, Config, SingleServer,
        expand::{ReferenceSources, expand},
        files, parse_issuer, text_of,
    },
    fetch::OpenClient,
    model::{
        AuthorizationSettings, Bearer, HttpSpec, NetworkSpec, PkceSupport, ResourceIndicator, TransportSpec,
        server_auth::check_authorize_param,
    },
    oauth_client::{
        ClientIdentity, LoginFile, LoginName, LoginTarget, LoginTransport, LoopbackUri, OAuthHttp, OpenBrowser,
        TokenProvider, is_loopback,
    },
    support::{Digest, OsRandom, Secret, SystemClock},
};

const EXAMPLES: &str = "\
Examples:
  lockkeeper connect https://mcp.example.com/mcp
  lockkeeper connect https://mcp.example.com/mcp --login    logs in now
  lockkeeper connect https://mcp.example.com/mcp --logout   forgets the login
  lockkeeper connect https://mcp.example.com/mcp \\
      --header 'Authorization: Bearer ${MCP_TOKEN}'

In a client's configuration, with a full path:
  { \"mcpServers\": { \"example\": {
      \"command\": \"/home/ada/.cargo/bin/lockkeeper\",
      \"args\": [\"connect\", \"https://mcp.example.com/mcp\"] } } }

When the server asks for a login, your browser opens. All processes share the
login of a server; it is kept in the data folder, in a file that only you can
read. Logs and the URL of the login go to standard error. On a machine without
a browser, run `--login` in a terminal: log in with a browser elsewhere, and
paste the address of its last page.

Exit codes: 0 the client has ended, 1 failed, 2 wrong usage.";

/// Maximum time until the server answers, including the time a person takes to log in.
const START_TIMEOUT: Duration = Duration::from_mins(11);

/// `connect`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct ConnectArgs {
    /// The server: a Streamable HTTP or HTTP+SSE endpoint
    #[arg(value_name = "URL", value_parser = server_url)]
    url: String,
    /// Logs in now, and serves no client
    #[arg(long, conflicts_with = "logout")]
    login: bool,
    /// Forgets the login
    #[arg(long)]
    logout: bool,
    /// Header of every request; `${NAME}` is the value of an environment variable
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Client id at the authorization server, or the URL of a client id metadata document; default: registers a client
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// File with the secret of the client id, for the authorization server of `--issuer`
    #[arg(long, value_name = "FILE", requires = "client_id")]
    client_secret_file: Option<PathBuf>,
    /// Issuer of the authorization server, the only one that gets the secret; default: the first that the server names
    #[arg(long, value_name = "URL", value_parser = parse_issuer)]
    issuer: Option<String>,
    /// Redirect URI on this machine, such as `http://localhost:3118/callback`: the one that is registered for the client id,
    /// or the one to register; default: any port
    #[arg(long, value_name = "URI", value_parser = redirect_uri)]
    redirect_uri: Option<LoopbackUri>,
    /// Resource that the tokens are for, or `false` to name none; default: that of the server's metadata
    #[arg(long, value_name = "URI", value_parser = resource)]
    resource: Option<ResourceIndicator>,
    /// Scopes to ask for; default: those that the server names
    #[arg(long, value_name = "SCOPES")]
    scope: Option<String>,
    /// The authorization server supports PKCE with S256, though its metadata does not say so (Entra ID, Amazon Cognito)
    #[arg(long)]
    assume_pkce: bool,
    /// Further parameter of the authorization request, such as `audience=api.example.com`
    #[arg(long = "authorize-param", value_name = "NAME=VALUE", value_parser = authorize_param)]
    authorize_params: Vec<(String, String)>,
    /// Name of the account, to keep logins of several at one server
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// File with certificates of authorities to trust in addition to the system's, in PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Shows the URL of the login without opening a browser
    #[arg(long)]
    no_browser: bool,
}

// === impl ConnectArgs ===

impl ConnectArgs {
    /// Serves the client until it closes standard input, or logs in or out.
    pub async fn run(self, process: &mut ProcessContext) -> Result<(), CommandFailure> {
        let mut config = self.config(process)?;
        let headers = self.headers(process)?;
        let folder = files::logins(&config.data_dir);
        let network = arguments::network_with_ca_file(self.ca_file.as_deref(), process)?;
        let server = server(&mut config)?;
        let name = LoginName { client_id: self.client_id.as_deref(), account: self.account.as_deref() };
        let file = LoginFile::new(&folder, server.url, name);
        if self.logout {
            return log_out(&file, server.url, process);
        }
        files::create(&folder)
            .map_err(|error| CommandFailure::failed(format!("{} cannot be used", folder.display())).why(error))?;
        let (browser, mut pages) = self.browser();
        let issuer = self.issuer.as_deref();
        let transport = LoginTransport { server: server.url, issuer, headers: &headers, network: Some(&network) };
        let target = self.target(transport, file, process)?;
        let mut provider = TokenProvider::new(target, browser, Arc::new(SystemClock), Arc::new(OsRandom));
        if provider.is_of_other_headers() {
            process.output.remark(&format!(
                "The login at {} was made with other values of --header. If they are of another account, give it a name: \
                 --account NAME",
                server.url
            ));
        }
        if self.login {
            let url = server.url.clone();
            let login = async { provider.log_in_now().await };
            // no client uses standard input, so a person can paste an address
            let outcome = pages.with_pasted(PastedLines::of_terminal()).shown_while(login, &mut process.output).await;
            outcome.map_err(|error| CommandFailure::failed(format!("not logged in at {url}")).why(error))?;
            process.output.print(&format!("Logged in at {url}"));
            return Ok(());
        }
        let (bearer, requests) = Bearer::new();
        // others must not read the token, so it goes only over TLS or stays on this machine
        let is_private = server.url.scheme() == "https" || is_loopback(server.url);
        let has_own = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        *server.bearer = (is_private && !has_own).then(|| bearer.clone());
        *server.headers = headers;
        if self.ca_file.is_some() {
            *server.network = Some(Arc::new(network));
        }
        let telemetry = install(&config.log, process)?;
        let serving = async {
            tokio::select! {
                ended = stdio::serve(&config, Some(files::local_records(&config.data_dir)), telemetry) => ended,
                () = async { provider.run(requests).await; std::future::pending().await } => Ok(()),
            }
        };
        pages.shown_while(serving, &mut process.output).await
    }

    fn config(&self, process: &ProcessContext) -> Result<Config, CommandFailure> {
        if process.options.config.is_some() {
            return Err(
                CommandFailure::usage("`connect` takes no configuration").advise("serve it: `lockkeeper stdio`")
            );
        }
        let given = CommandLineOptions { single: Some(SingleServer::Url(self.url.clone())), ..process.options.given() };
        // the argument names the server; a configuration for gateways does not matter
        let environment = process.environment.clone().without("LOCKKEEPER_CONFIG");
        arguments::load_with(&given, &environment, process)
    }

    fn headers(&self, process: &ProcessContext) -> Result<BTreeMap<String, Secret>, CommandFailure> {
        let header = |text: &String| {
            let wrong = |why: String| CommandFailure::usage("a `--header` is wrong").why(why);
            let (name, value) = values::header(text).map_err(wrong)?;
            let name = HeaderName::try_from(&name).map_err(|_| wrong("its name is not a header name".to_owned()))?;
            let sources = ReferenceSources {
                environment: &process.environment,
                folder: &process.folder,
                inputs: &process.options.inputs,
            };
            let value = expand(value.trim(), sources).map_err(|errors| wrong(errors[0].to_string()))?;
            HeaderValue::try_from(&value).map_err(|_| wrong(format!("the value of `{name}` is not a header value")))?;
            Ok((name.to_string(), Secret::new(value)))
        };
        self.headers.iter().map(header).collect()
    }

    fn target(
        &self,
        transport: LoginTransport<'_>,
        file: LoginFile,
        process: &ProcessContext,
    ) -> Result<LoginTarget, CommandFailure> {
        let secret = match &self.client_secret_file {
            Some(path) => Some(
                text_of(&process.folder.join(path))
                    .map_err(|error| CommandFailure::failed(format!("{} cannot be read", path.display())).why(error))?,
            ),
            None => None,
        };
        let settings = AuthorizationSettings {
            issuer: self.issuer.clone(),
            resource: self.resource.clone().unwrap_or_default(),
            pkce: if self.assume_pkce { PkceSupport::Assumed } else { PkceSupport::Announced },
            authorize_params: self.authorize_params.clone(),
        };
        let identity = match &self.client_id {
            Some(id) => {
                ClientIdentity::given(id, secret.map(|secret| Secret::new(secret.trim())), &settings).map_err(|_| {
                    CommandFailure::usage("`--client-secret-file` needs `--issuer`")
                        .why("the secret goes only to the authorization server that you name")
                        .advise("add `--issuer https://…`, with the issuer at which the client is registered")
                })?
            }
            None => ClientIdentity::Registered,
        };
        let impossible = |why: &dyn std::fmt::Display| CommandFailure::failed("no login is possible").why(why);
        let http = OpenClient::new(&NetworkSpec::default(), &process.environment.to_strings())
            .map_err(|error| impossible(&error))?;
        let LoginTransport { server, headers, .. } = transport;
        let http = OAuthHttp::open(http).of_server(transport).map_err(|error| impossible(&error))?;
        Ok(LoginTarget {
            client_name: client_name(),
            server: server.clone(),
            http,
            file,
            identity,
            settings,
            scope: self.scope.clone(),
            redirect_uri: self.redirect_uri.clone(),
            headers: digest(headers),
        })
    }

    fn browser(&self) -> (OpenBrowser, PageViewer) {
        let (shown, pages) = mpsc::unbounded_channel();
        let open = OpenBrowser::new(move |url, attempt| drop(shown.send(PageToShow { url: url.clone(), attempt })));
        let display = if self.no_browser { PageDisplay::UrlAlone } else { PageDisplay::Browser };
        (open, PageViewer::new(pages, display))
    }
}

/// The parts of the server's settings that this command reads or sets.
struct RemoteServer<'a> {
    url: &'a Url,
    headers: &'a mut BTreeMap<String, Secret>,
    bearer: &'a mut Option<Bearer>,
    network: &'a mut Option<Arc<NetworkSpec>>,
}

fn server(config: &mut Config) -> Result<RemoteServer<'_>, CommandFailure> {
    let wrong = || CommandFailure::usage("the URL must be that of an HTTP server").advise("use an http or https URL");
    let spec = config.backends.first_mut().ok_or_else(wrong)?;
    spec.start_timeout = START_TIMEOUT;
    match &mut spec.transport {
        TransportSpec::Http(http) => {
            let HttpSpec { url, headers, bearer, network, .. } = http;
            Ok(RemoteServer { url, headers, bearer, network })
        }
        _ => Err(wrong()),
    }
}

/// A digest by which changed headers are noticed; `None` if there are no headers.
fn digest(headers: &BTreeMap<String, Secret>) -> Option<String> {
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {}", value.expose())).collect();
    (!lines.is_empty()).then(|| Digest::sha256(lines.join("\n")).to_base64url())
}

fn log_out(file: &LoginFile, server: &Url, process: &mut ProcessContext) -> Result<(), CommandFailure> {
    let cannot = |error| CommandFailure::failed(format!("{} cannot be removed", file.path().display())).why(error);
    let text = if file.remove().map_err(cannot)? { "Logged out of" } else { "There is no login at" };
    process.output.print(&format!("{text} {server}"));
    Ok(())
}

fn server_url(text: &str) -> Result<String, String> {
    let is_http = Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if is_http { Ok(text.to_owned()) } else { Err("it must be a URL such as https://mcp.example.com/mcp".to_owned()) }
}

fn resource(text: &str) -> Result<ResourceIndicator, String> {
    if text == "false" { Ok(ResourceIndicator::Omitted) } else { ResourceIndicator::named(text) }
}

fn authorize_param(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "it must be `NAME=VALUE`".to_owned())?;
    check_authorize_param(name, value)?;
    Ok((name.to_owned(), value.to_owned()))
}

fn redirect_uri(text: &str) -> Result<LoopbackUri, String> {
    LoopbackUri::parse(text).ok_or_else(|| "it must be an http URI on this machine, without query".to_owned())
}

/// The name of this client at authorization servers, with the machine's name, so that a person can tell several apart.
fn client_name() -> String {
    let machine = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    match machine.trim() {
        "" => "lockkeeper connect".to_owned(),
        machine => format!("lockkeeper connect on {machine}"),
    }
}
