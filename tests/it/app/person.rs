//! A person in a browser who connects apps, and the tokens that these get.

use std::{path::Path, process::Command};

use reqwest::{Client, Response, StatusCode, redirect::Policy};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

/// The redirect URI of the apps.
const CALLBACK: &str = "http://127.0.0.1:7777/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// A person who is logged in.
pub(super) struct Person {
    gateway: String,
    http: Client,
    cookie: String,
}

/// A grant of the person to an app, as the app has it.
pub(super) struct App {
    pub(super) name: String,
    pub(super) client: String,
    pub(super) access: String,
    pub(super) refresh: String,
}

// === impl Person ===

impl Person {
    pub(super) async fn log_in(gateway: &str, key: &str) -> Self {
        let http = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        let mut person = Self { gateway: gateway.to_owned(), http, cookie: String::new() };
        let page = person.get("/login").await;
        let token = hidden(&page, "token");
        let answer = person.post("/login", &[("token", &token), ("key", key)]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        person
    }

    /// A page of the gateway.
    pub(super) async fn get(&mut self, address: &str) -> String {
        let mut place = self.absolute(address);
        loop {
            let answer = self.http.get(&place).header("cookie", &self.cookie).send().await.unwrap();
            self.keep_cookie(&answer);
            match answer.headers().get("location") {
                Some(next) => place = self.absolute(next.to_str().unwrap()),
                None => return answer.text().await.unwrap(),
            }
        }
    }

    /// Sends a form.
    pub(super) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Response {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.http.post(self.absolute(path)).header("cookie", &self.cookie);
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
        let answer = request.send().await.unwrap();
        self.keep_cookie(&answer);
        answer
    }

    /// Connects a new app to the endpoint at this path.
    pub(super) async fn connect(&mut self, name: &str, path: &str) -> App {
        let metadata = json!({ "client_name": name, "redirect_uris": [CALLBACK] });
        let request = self.http.post(self.absolute("/oauth/register")).header("content-type", "application/json");
        let client = read(request.body(metadata.to_string()).send().await.unwrap()).await["client_id"].clone();
        let client = client.as_str().unwrap().to_owned();
        let resource = self.absolute(path);
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("response_type", "code"),
                ("client_id", &client),
                ("redirect_uri", CALLBACK),
                ("code_challenge", CHALLENGE),
                ("code_challenge_method", "S256"),
                ("resource", &resource),
            ])
            .finish();
        let page = self.get(&format!("/oauth/authorize?{query}")).await;
        let (token, transaction) = (hidden(&page, "token"), hidden(&page, "transaction"));
        let fields = [("token", &*token), ("transaction", &*transaction), ("decision", "approve")];
        let answer = self.post("/oauth/authorize", &fields).await;
        let back = Url::parse(answer.headers()["location"].to_str().unwrap()).unwrap();
        let code = back.query_pairs().find(|(key, _)| key == "code").unwrap().1.into_owned();
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", &*client),
            ("code", &*code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        let tokens = read(self.post("/oauth/token", &fields).await).await;
        let text = |member: &str| tokens[member].as_str().unwrap_or_else(|| panic!("{tokens}")).to_owned();
        App { name: name.to_owned(), access: text("access_token"), refresh: text("refresh_token"), client }
    }

    fn absolute(&self, address: &str) -> String {
        if address.starts_with("http") { address.to_owned() } else { format!("{}{address}", self.gateway) }
    }

    fn keep_cookie(&mut self, answer: &Response) {
        if let Some(set) = answer.headers().get("set-cookie") {
            set.to_str().unwrap().split(';').next().unwrap().clone_into(&mut self.cookie);
        }
    }
}

async fn read(answer: Response) -> Value {
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// The value of a hidden field, the first of this name.
pub(super) fn hidden(page: &str, name: &str) -> String {
    let (_, rest) =
        page.split_once(&format!("name=\"{name}\" value=\"")).unwrap_or_else(|| panic!("no {name}: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

/// Runs a command of the operator; returns what it prints.
pub(super) fn run(data: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let output = command.args(arguments).arg("--data-dir").arg(data).output().unwrap();
    assert!(output.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
