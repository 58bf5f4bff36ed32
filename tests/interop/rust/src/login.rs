//! rmcp through the life of a login: the challenge, discovery, registration, the person, calls, a refresh, a revocation, and the
//! new login that follows. Tells of each check in a line. With `clientDocument` in the context it does not register: that URL
//! is its id.

mod outcome;

use std::{
    env, fs,
    io::Write as _,
    process::{Command, ExitCode},
};

use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{CallToolRequestParams, ProtocolVersion},
    service::{ClientInitializeError, RunningService, ServiceError},
    transport::{
        AuthClient, AuthorizationManager, AuthorizationRequest, DynamicTransportError, StreamableHttpClientTransport,
        auth::OAuthState,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde_json::{Value, json};

use self::outcome::{Outcome, contains, equal, typed, within, words};

const CALLBACK: &str = "http://127.0.0.1:7781/callback";

/// A program with its user.
struct Program {
    context: Value,
    client: AuthClient<reqwest::Client>,
    logins: usize,
}

type Connection = RunningService<RoleClient, ()>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // the SDK asks for a provider even where nothing is encrypted
    let _ = rustls::crypto::ring::default_provider().install_default();
    let context: Value = serde_json::from_str(&env::var("INTEROP").expect("INTEROP")).expect("the context");
    match life(context).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("not ok - rmcp: the checks so far are followed by others\n# {error}");
            ExitCode::FAILURE
        }
    }
}

/// A whole life: each check needs those before it.
async fn life(context: Value) -> Outcome {
    let mut program = Program::new(context).await?;
    let challenge = program.refused().await?;
    contains(&challenge, "resource_metadata=")?;
    program.log_in(&challenge).await?;
    let connection = program.connect().await.map_err(|error| format!("after the login: {error}"))?;
    program.calls(&connection, "logged in").await?;
    let is_known = if program.document().is_some() { "is known by its document" } else { "registers" };
    told(&format!("rmcp is refused, discovers, {is_known}, logs in and calls"));

    let before = program.token().await?;
    within(program.client.auth_manager.lock().await.refresh_token()).await??;
    equal(program.token().await? == before, false)?;
    program.calls(&connection, "refreshed").await?;
    told("rmcp refreshes, and goes on calling");

    program.revoke().await?;
    let Err(refusal) = within(program.call(&connection, "revoked")).await? else {
        return Err("a revoked grant goes on".into());
    };
    let challenge = challenge_of(&refusal).ok_or_else(|| format!("no challenge: {refusal}"))?;
    contains(&challenge, "error=\"invalid_token\"")?;
    told("rmcp is told of a revoked grant by 401 with a challenge");

    program.log_in(&challenge).await?;
    program.calls(&connection, "logged in again").await?;
    equal(program.logins, 2)?;
    told("rmcp logs in again, and its connection goes on");
    connection.cancel().await?;
    Ok(())
}

// === impl Program ===

impl Program {
    async fn new(context: Value) -> Outcome<Self> {
        let manager = AuthorizationManager::new(endpoint(&context)).await?;
        Ok(Self { client: AuthClient::new(reqwest::Client::new(), manager), context, logins: 0 })
    }

    async fn connect(&self) -> Result<Connection, ClientInitializeError> {
        let config = StreamableHttpClientTransportConfig::with_uri(endpoint(&self.context));
        let transport = StreamableHttpClientTransport::with_client(self.client.clone(), config);
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        ().serve_with_lifecycle(transport, ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }).await
    }

    /// The challenge for a program without a token.
    async fn refused(&self) -> Outcome<String> {
        match within(self.connect()).await? {
            Err(ClientInitializeError::TransportError { error, .. }) => {
                Ok(challenge_in(&error).ok_or_else(|| format!("no challenge: {error}"))?)
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err("it connects without a token".into()),
        }
    }

    /// Logs in with a walk through the pages, and hands the tokens to the client.
    async fn log_in(&mut self, challenge: &str) -> Outcome {
        let mut login = OAuthState::new(endpoint(&self.context), None).await?;
        let mut request =
            AuthorizationRequest::new(CALLBACK).with_client_name("Interop Rust").with_challenge(challenge);
        if let Some(document) = self.document() {
            request = request.with_client_metadata_url(document);
        }
        within(login.start_authorization(request)).await??;
        let end = self.walk(&login.get_authorization_url().await?)?;
        within(login.handle_callback_url(&end)).await??;
        let manager = login.into_authorization_manager().ok_or("the login has no end")?;
        *self.client.auth_manager.lock().await = manager;
        self.logins += 1;
        self.record().await
    }

    fn document(&self) -> Option<&str> {
        self.context["clientDocument"].as_str()
    }

    /// The redirect at the end of an authorization URL.
    fn walk(&self, url: &str) -> Outcome<String> {
        let mut command = Command::new(words(&self.context["python"]));
        command.arg(words(&self.context["walk"])).arg(url).env("INTEROP_KEY", words(&self.context["key"]));
        let done = command.output()?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into());
        }
        Ok(String::from_utf8(done.stdout)?.trim().to_owned())
    }

    async fn token(&self) -> Outcome<String> {
        Ok(self.client.get_access_token().await?)
    }

    /// The client's id and tokens, as the SDK keeps them.
    async fn credentials(&self) -> Outcome<(String, Value)> {
        let (client, tokens) = self.client.auth_manager.lock().await.get_credentials().await?;
        Ok((client, json!(tokens)))
    }

    /// Notes the tokens, for the search at the end of the suite.
    async fn record(&self) -> Outcome {
        let (_, tokens) = self.credentials().await?;
        if let Some(file) = env::var_os("INTEROP_SECRETS") {
            let mut file = fs::OpenOptions::new().append(true).create(true).open(file)?;
            writeln!(file, "{}\n{}", words(&tokens["access_token"]), words(&tokens["refresh_token"]))?;
        }
        Ok(())
    }

    /// Ends the grant (RFC 7009), for which the SDK has no function.
    async fn revoke(&self) -> Outcome {
        let (client, tokens) = self.credentials().await?;
        let form = format!("client_id={client}&token={}", words(&tokens["refresh_token"]));
        let request = self.client.http_client.post(format!("{}/oauth/revoke", words(&self.context["url"])));
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
        equal(within(request.send()).await??.status().as_u16(), 200)
    }

    async fn call(&self, connection: &Connection, message: &str) -> Result<String, ServiceError> {
        let params: CallToolRequestParams =
            typed(json!({ "name": "everything__echo", "arguments": { "message": message } }));
        let result = connection.call_tool(params).await?;
        Ok(words(&json!(result)["content"][0]["text"]))
    }

    async fn calls(&self, connection: &Connection, message: &str) -> Outcome {
        self.record().await?;
        equal(within(self.call(connection, message)).await??, format!("Echo: {message}"))
    }
}

fn endpoint(context: &Value) -> String {
    format!("{}/mcp", words(&context["url"]))
}

fn challenge_of(error: &ServiceError) -> Option<String> {
    let ServiceError::TransportSend(error) = error else { return None };
    challenge_in(error)
}

fn challenge_in(error: &DynamicTransportError) -> Option<String> {
    let error = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>()?;
    error.auth_challenge().map(str::to_owned)
}

fn told(sentence: &str) {
    println!("ok - {sentence}");
}
