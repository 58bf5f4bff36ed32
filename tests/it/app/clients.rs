//! The well-known clients that do not run here: the requests of each, in its order and with its parameters, through a whole
//! gateway, with a person who logs in and approves. What a client sends is the table of `lockkeeper doctor`.

use std::sync::Arc;

use lockkeeper::{
    doctor::{
        CLIENTS, ClientProfile, Doctor, Examination, OpenLogin, RegistrationPolicy, Severity, TokenEndpointRequest,
    },
    fetch::OpenClient,
    support::OsRandom,
};
use reqwest::{Client, Response, StatusCode, redirect::Policy};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use super::Gateway;
use crate::{kit::person::server_fields, support::data_folder::DataFolder};

/// A gateway, and a person with a key and a browser.
struct World {
    gateway: Gateway,
    browser: Client,
    _folder: DataFolder,
}

/// The tokens of a response.
struct Tokens {
    access: String,
    refresh: String,
}

/// What a public address alone would change: the gateway of these tests is on this machine.
const ADDRESS: [&str; 2] = ["it is not https", "the host is not public"];

// === impl World ===

impl World {
    async fn new() -> Self {
        let folder = DataFolder::new();
        // no document of a client can be read here, so those who have one register (`oauth::client_documents` has the others)
        let config = "[auth]\nclient_documents = \"off\"\n[servers.demo]\nbuiltin = \"demo\"\n";
        std::fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
        let gateway = Gateway::start(folder.path()).await;
        let browser = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        Self { gateway, browser, _folder: folder }
    }

    fn server(&self) -> Url {
        Url::parse(&format!("{}/mcp", self.gateway.url)).unwrap()
    }

    /// The examination for a client, which may only lack a public address.
    async fn examine(&self, id: &str) -> Examination {
        let http = OpenClient::direct().unwrap();
        let doctor = Doctor::new(self.server(), RegistrationPolicy::Once, http, Arc::new(OsRandom));
        let examination = Box::pin(doctor.examine(profile(id))).await;
        let mut blocks = examination.findings.iter().filter(|finding| finding.severity == Severity::Blocks);
        let other = blocks.find(|finding| !ADDRESS.iter().any(|text| finding.problem.starts_with(text)));
        assert_eq!(other, None, "{id}");
        examination
    }

    /// The login of a client, up to its page.
    async fn login(&self, id: &str) -> OpenLogin {
        self.examine(id).await.login.unwrap()
    }

    /// Logs in, approves, and returns the URL that the browser is sent to.
    async fn approve(&self, url: &Url) -> Url {
        let page = self.browser.get(url.clone()).send().await.unwrap();
        let key = self.gateway.first_key.as_ref().unwrap().expose().to_owned();
        let answer = self.press(page, &[("decision", "log-in"), ("key", &key)]).await;
        let (place, cookie) = (header(&answer, "location"), header(&answer, "set-cookie"));
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let consent = Url::parse(&self.gateway.url).unwrap().join(&place).unwrap();
        let page = self.browser.get(consent).header("cookie", &cookie).send().await.unwrap();
        let answer = self.press_with(page, &[("decision", "approve")], &cookie).await;
        if answer.status() == StatusCode::OK {
            // an app with a scheme of its own is opened by a page
            return Url::parse(header(&answer, "refresh").strip_prefix("0; url=").unwrap()).unwrap();
        }
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        Url::parse(&header(&answer, "location")).unwrap()
    }

    async fn press(&self, page: Response, fields: &[(&str, &str)]) -> Response {
        let cookie = header(&page, "set-cookie").split(';').next().unwrap().to_owned();
        self.press_with(page, fields, &cookie).await
    }

    /// Sends the form of a page.
    async fn press_with(&self, page: Response, fields: &[(&str, &str)], cookie: &str) -> Response {
        assert_eq!(page.status(), StatusCode::OK);
        let text = page.text().await.unwrap();
        let hidden = |name: &str| {
            let start = format!("name=\"{name}\" value=\"");
            text.split_once(&start).unwrap().1.split('"').next().unwrap().to_owned()
        };
        let (token, transaction) = (hidden("token"), hidden("transaction"));
        let servers = server_fields(&text);
        let servers = servers.iter().map(|(name, value)| (*name, value.as_str()));
        let own = [("token", &*token), ("transaction", &*transaction)];
        let fields: Vec<(&str, &str)> = own.into_iter().chain(servers).chain(fields.iter().copied()).collect();
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.browser.post(format!("{}/oauth/authorize", self.gateway.url)).header("cookie", cookie);
        let request = request.header("origin", &self.gateway.url).header("sec-fetch-site", "same-origin");
        request.header("content-type", "application/x-www-form-urlencoded").body(form).send().await.unwrap()
    }

    async fn token(&self, request: TokenEndpointRequest) -> (StatusCode, Value) {
        let mut sent = self.browser.post(request.url).header("content-type", "application/x-www-form-urlencoded");
        if let Some(authorization) = &request.authorization {
            sent = sent.header("authorization", authorization.expose());
        }
        let answer = sent.body(request.form.expose().to_owned()).send().await.unwrap();
        (answer.status(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }

    /// The code in the answer of a login; the answer is what the client accepts.
    async fn code(&self, login: &OpenLogin) -> String {
        let answer = self.approve(&login.url).await;
        assert!(answer.as_str().starts_with(&login.redirect_uri), "{answer}");
        let all = |name: &str| -> Vec<String> {
            answer.query_pairs().filter(|(found, _)| found == name).map(|(_, value)| value.into_owned()).collect()
        };
        assert_eq!(all("state"), [login.state.as_str()]);
        assert_eq!(all("iss"), [self.gateway.url.as_str()]);
        assert_eq!(all("error"), Vec::<String>::new());
        let [code] = all("code").try_into().unwrap();
        code
    }

    /// The whole login.
    async fn tokens(&self, login: &OpenLogin) -> Tokens {
        let code = self.code(login).await;
        let (status, answer) = self.token(login.redeem(&code)).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        Tokens::read(&answer)
    }

    async fn refreshed(&self, login: &OpenLogin, refresh: &str) -> Tokens {
        let (status, answer) = self.token(login.refresh(refresh)).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        Tokens::read(&answer)
    }

    /// The names of the tools, listed with a token.
    async fn tools(&self, path: &str, access: &str) -> Vec<String> {
        let initialize = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "a test", "version": "1" },
        });
        let (status, session, _) = self.post(path, access, None, ("initialize", initialize)).await;
        assert_eq!(status, StatusCode::OK);
        let (status, _, text) = self.post(path, access, session.as_deref(), ("tools/list", json!({}))).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        let answer: Value = serde_json::from_str(data).unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn post(
        &self,
        path: &str,
        access: &str,
        session: Option<&str>,
        (method, params): (&str, Value),
    ) -> (StatusCode, Option<String>, String) {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut request = self.browser.post(format!("{}{path}", self.gateway.url)).bearer_auth(access);
        request = request.header("content-type", "application/json").header("mcp-protocol-version", "2025-11-25");
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let answer = request.body(body).send().await.unwrap();
        let session = answer.headers().get("mcp-session-id").map(|value| value.to_str().unwrap().to_owned());
        (answer.status(), session, answer.text().await.unwrap())
    }

    /// Login, call, refresh, call: what every client does.
    async fn whole_flow(&self, id: &str) -> (OpenLogin, Tokens) {
        let login = self.login(id).await;
        let tokens = self.tokens(&login).await;
        assert!(!self.tools("/mcp", &tokens.access).await.is_empty(), "{id}");
        let next = self.refreshed(&login, &tokens.refresh).await;
        assert!(!self.tools("/mcp", &next.access).await.is_empty(), "{id}");
        (login, next)
    }
}

// === impl Tokens ===

impl Tokens {
    /// Reads a response, which has everything that strict clients require.
    fn read(answer: &Value) -> Self {
        let members = answer.as_object().unwrap();
        assert!(members.values().all(|value| !value.is_null()), "{answer}");
        assert_eq!(answer["token_type"], "Bearer");
        assert!(answer["expires_in"].is_u64() && answer["scope"].is_string(), "{answer}");
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        Self { access: text("access_token"), refresh: text("refresh_token") }
    }
}

fn profile(id: &str) -> &'static ClientProfile {
    CLIENTS.iter().find(|client| client.id == id).unwrap()
}

fn header(answer: &Response, name: &str) -> String {
    answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// The parameters of an authorization request, with one replaced; an empty value removes it.
fn with(url: &Url, name: &str, value: &str) -> Url {
    let kept: Vec<(String, String)> = url.query_pairs().into_owned().filter(|(found, _)| found != name).collect();
    let mut changed = url.clone();
    changed.query_pairs_mut().clear().extend_pairs(kept);
    if !value.is_empty() {
        changed.query_pairs_mut().append_pair(name, value);
    }
    changed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_claude_refreshes_right_after_its_login_and_strips_the_slash_of_a_url() {
    let world = World::new().await;
    let (login, tokens) = world.whole_flow("claude").await;
    assert_eq!(login.redirect_uri, "https://claude.ai/api/mcp/auth_callback");
    // OA-17: people give the URL with a slash, and Claude calls it without, or the reverse
    assert!(!world.tools("/mcp/", &tokens.access).await.is_empty());
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_claude_code_shares_a_refresh_token_and_may_leave_the_resource_out() {
    let world = World::new().await;
    let mut login = world.login("claude-code").await;
    let origin = format!("{}/", world.gateway.url);
    for resource in ["", &origin] {
        login.url = with(&login.url, "resource", resource);
        let tokens = world.tokens(&login).await;
        assert!(!world.tools("/mcp", &tokens.access).await.is_empty(), "resource `{resource}`");
        let refresh = || world.refreshed(&login, &tokens.refresh);
        let (one, two, three) = tokio::join!(refresh(), refresh(), refresh());
        assert_eq!((&one.refresh, &two.refresh), (&two.refresh, &three.refresh), "the sessions share one file");
    }
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_chatgpt_repeats_the_resource_in_every_request() {
    let world = World::new().await;
    let (login, tokens) = world.whole_flow("chatgpt").await;
    let echoed = login.url.query_pairs().find(|(name, _)| name == "resource").unwrap().1.into_owned();
    assert_eq!(echoed, world.server().as_str());
    assert!(login.refresh(&tokens.refresh).form.expose().contains("resource="));
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_cursor_registers_three_redirect_uris_and_is_reached_by_its_own_scheme() {
    let world = World::new().await;
    assert_eq!(profile("cursor").registration.redirect_uris.len(), 3);
    let (login, _) = world.whole_flow("cursor").await;
    assert!(login.redirect_uri.starts_with("cursor://"));
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_vs_code_uses_any_port_and_gets_its_state_back_exactly() {
    let world = World::new().await;
    let mut login = world.login("vscode").await;
    login.state = "a+b%2Fc=&d e=".to_owned();
    login.url = with(&login.url, "state", &login.state);
    let tokens = world.tokens(&login).await;
    assert!(!world.tools("/mcp", &tokens.access).await.is_empty());
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_copilot_uses_a_port_that_it_did_not_register() {
    let world = World::new().await;
    let (login, _) = world.whole_flow("copilot").await;
    let registered = profile("copilot").registration.redirect_uris;
    assert!(!registered.contains(&&*login.redirect_uri), "{}", login.redirect_uri);
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_gemini_cli_registers_an_empty_scope_and_compares_the_resource_as_text() {
    let world = World::new().await;
    let (login, tokens) = world.whole_flow("gemini").await;
    // it deletes its login on any other error
    let (status, answer) = world.token(login.refresh("unknown")).await;
    assert_eq!((status, answer["error"].as_str()), (StatusCode::BAD_REQUEST, Some("invalid_grant")));
    world.refreshed(&login, &tokens.refresh).await;
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_goose_always_gets_a_refresh_token() {
    let world = World::new().await;
    let login = world.login("goose").await;
    assert!(!login.url.query_pairs().any(|(name, value)| name == "scope" && value.contains("offline_access")));
    // `Tokens` requires one
    let tokens = world.tokens(&login).await;
    world.refreshed(&login, &tokens.refresh).await;
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_codex_is_told_that_its_older_versions_lose_the_issuer() {
    let world = World::new().await;
    let examination = world.examine("codex").await;
    let problems: Vec<&str> = examination.findings.iter().map(|finding| finding.problem.as_str()).collect();
    assert!(matches!(problems[..], [problem] if problem.contains("announces `iss`")), "{problems:?}");
    let login = examination.login.unwrap();
    let tokens = world.tokens(&login).await;
    assert!(!world.tools("/mcp", &tokens.access).await.is_empty());
    world.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_opencode_registers_in_each_run_and_stays_one_client() {
    let world = World::new().await;
    let id = |login: &OpenLogin| login.url.query_pairs().find(|(name, _)| name == "client_id").unwrap().1.into_owned();
    let (first, tokens) = world.whole_flow("opencode").await;
    let (second, _) = world.whole_flow("opencode").await;
    assert_eq!(id(&first), id(&second));
    // the second login ends nothing of the first
    world.refreshed(&first, &tokens.refresh).await;
    world.gateway.stop().await;
}

/// The libraries run in `tests/interop` too; here for what each sends and requires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_147_programs_on_the_sdks_and_tools_come_through_the_whole_flow() {
    let world = World::new().await;
    for id in ["typescript-1", "typescript-2", "python-1", "python-2", "mcp-remote", "inspector", "rmcp"] {
        world.whole_flow(id).await;
    }
    world.gateway.stop().await;
}
