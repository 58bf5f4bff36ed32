//! A person in a browser with a cookie: logs in with a key, visits pages, presses buttons, and connects accounts and
//! apps.

use reqwest::{Response, StatusCode, header, redirect::Policy};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use url::{Position, Url, form_urlencoded};

use crate::support::oauth::{CALLBACK, CHALLENGE, VERIFIER};

/// A person at a gateway.
pub(crate) struct Person {
    pub(crate) gateway: String,
    pub(crate) key: String,
    http: reqwest::Client,
    cookie: Option<String>,
}

/// A page in the browser.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) status: StatusCode,
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

/// A person's grant to an app, on the app's side.
pub(crate) struct ConnectedApp {
    pub(crate) name: String,
    pub(crate) client: String,
    pub(crate) access: String,
    pub(crate) refresh: String,
    pub(crate) scope: String,
}

// === impl Person ===

impl Person {
    /// A person with this key who is not logged in yet.
    pub(crate) fn new(gateway: &str, key: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        Self { gateway: gateway.to_owned(), key: key.to_owned(), http, cookie: None }
    }

    /// The same person at a restarted gateway.
    pub(crate) fn at(self, gateway: &str) -> Self {
        Self { gateway: gateway.to_owned(), ..self }
    }

    /// The same browser in another tab.
    pub(crate) fn twin(&self) -> Self {
        let (gateway, key) = (self.gateway.clone(), self.key.clone());
        Self { gateway, key, http: self.http.clone(), cookie: self.cookie.clone() }
    }

    /// Requests a page, and closes the connection without waiting for the answer.
    pub(crate) async fn leave(&self, address: &str) {
        let url = Url::parse(&self.absolute(address)).unwrap();
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let path = &url[Position::BeforePath..];
        let cookie = self.cookie.as_deref().unwrap_or_default();
        let mut connection = TcpStream::connect(host).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
    }

    pub(crate) async fn log_in(&mut self) {
        let page = self.get("/login").await;
        let key = self.key.clone();
        let seen = self.submit(&page, "/login", &[("key", &key)]).await;
        assert_eq!(seen.status, StatusCode::SEE_OTHER, "{}", seen.body);
    }

    /// Requests a page: of the gateway, or another one without the cookie.
    pub(crate) async fn get(&mut self, address: &str) -> Shown {
        let url = self.absolute(address);
        let mut request = self.http.get(&url);
        if let Some(cookie) = self.cookie.as_ref().filter(|_| url.starts_with(&self.gateway)) {
            request = request.header(header::COOKIE, cookie);
        }
        self.show(request.send().await.unwrap()).await
    }

    /// Submits the form of a page, with this button.
    pub(crate) async fn submit(&mut self, page: &Shown, action: &str, fields: &[(&str, &str)]) -> Shown {
        let hidden = ["token", "address", "connect", "transaction"].map(|name| (name, page.hidden(name)));
        let is_given = |name: &str| fields.iter().any(|(field, _)| *field == name);
        let carried = hidden.iter().filter(|(name, _)| !is_given(name));
        let carried = carried.filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        let servers = server_fields(&page.body);
        let servers = servers.iter().map(|(name, value)| (*name, value.as_str()));
        let servers = servers.filter(|_| !is_given("use"));
        let fields: Vec<(&str, &str)> = carried.chain(servers).chain(fields.iter().copied()).collect();
        self.post(action, &fields).await
    }

    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self.http.post(self.absolute(path)).body(form);
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        self.show(request.send().await.unwrap()).await
    }

    /// Submits a secret on the page of a server or on the account page.
    pub(crate) async fn submit_account(&mut self, page: &Shown, fields: &[(&str, &str)]) -> Shown {
        self.submit(page, "/account/secret", fields).await
    }

    /// Goes from the connect page at this address to the end; returns the last page.
    pub(crate) async fn connect(&mut self, address: &str) -> Shown {
        let callback = self.approve(address).await;
        let end = self.get(&callback).await;
        assert_eq!(end.status, StatusCode::SEE_OTHER, "{}", end.body);
        self.get(&end.location.unwrap()).await
    }

    /// Consents on the connect page and at the authorization server; returns the address of the callback.
    pub(crate) async fn approve(&mut self, address: &str) -> String {
        let page = self.get(address).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.body);
        let away = self.submit(&page, "/connect/github", &[("decision", "connect")]).await;
        assert_eq!(away.status, StatusCode::SEE_OTHER, "{}", away.body);
        self.get(&away.location.unwrap()).await.location.unwrap()
    }

    /// Connects a new app to the endpoint at this path.
    pub(crate) async fn connect_app(&mut self, name: &str, path: &str) -> ConnectedApp {
        let client = self.register_app(name).await;
        self.let_in(name, client, path).await
    }

    /// Registers an app; returns its id.
    pub(crate) async fn register_app(&self, name: &str) -> String {
        let metadata = json!({ "client_name": name, "redirect_uris": [CALLBACK] });
        let request = self.http.post(self.absolute("/oauth/register")).header("content-type", "application/json");
        let registered = request.body(metadata.to_string()).send().await.unwrap().text().await.unwrap();
        let registered: Value = serde_json::from_str(&registered).unwrap();
        registered["client_id"].as_str().unwrap().to_owned()
    }

    /// Consents to a registered app, which then gets its tokens.
    pub(crate) async fn let_in(&mut self, name: &str, client: String, path: &str) -> ConnectedApp {
        let page = self.consent_page(&client, path).await;
        self.give(name, client, &page, &[]).await
    }

    /// Follows an app's request for the endpoint at this path to the consent page.
    pub(crate) async fn consent_page(&mut self, client: &str, path: &str) -> Shown {
        let resource = self.absolute(path);
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("response_type", "code"),
                ("client_id", client),
                ("redirect_uri", CALLBACK),
                ("code_challenge", CHALLENGE),
                ("code_challenge_method", "S256"),
                ("resource", &resource),
            ])
            .finish();
        let mut page = self.get(&format!("/oauth/authorize?{query}")).await;
        while let Some(next) = page.location {
            page = self.get(&next).await;
        }
        page
    }

    /// Approves with these fields about servers, or as the page is at first; the app then gets its tokens.
    pub(crate) async fn give(
        &mut self,
        name: &str,
        client: String,
        page: &Shown,
        servers: &[(&str, &str)],
    ) -> ConnectedApp {
        let answer = self.submit(page, "/oauth/authorize", &[&[("decision", "approve")], servers].concat()).await;
        let back = Url::parse(&answer.location.unwrap_or_else(|| panic!("{}", answer.body))).unwrap();
        let code = back.query_pairs().find(|(key, _)| key == "code").unwrap_or_else(|| panic!("{back}")).1.into_owned();
        let fields = [
            ("grant_type", "authorization_code"),
            ("client_id", &*client),
            ("code", &*code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        let tokens = self.post("/oauth/token", &fields).await.body;
        let tokens: Value = serde_json::from_str(&tokens).unwrap();
        let text = |member: &str| tokens[member].as_str().unwrap_or_else(|| panic!("{tokens}")).to_owned();
        let (access, refresh, scope) = (text("access_token"), text("refresh_token"), text("scope"));
        ConnectedApp { name: name.to_owned(), access, refresh, scope, client }
    }

    fn absolute(&self, address: &str) -> String {
        if address.starts_with("http") { address.to_owned() } else { format!("{}{address}", self.gateway) }
    }

    async fn show(&mut self, response: Response) -> Shown {
        if let Some(set) = response.headers().get(header::SET_COOKIE) {
            self.cookie = Some(set.to_str().unwrap().split(';').next().unwrap().to_owned());
        }
        let location = response.headers().get(header::LOCATION).map(|to| to.to_str().unwrap().to_owned());
        Shown { status: response.status(), location, body: response.text().await.unwrap() }
    }
}

/// The fields of a consent page about servers, as they are at first.
pub(crate) fn server_fields(page: &str) -> Vec<(&'static str, String)> {
    let selects = page.split("<select name=\"use\">").skip(1).map(|rest| rest.split("</select>").next().unwrap());
    let value = |option: &str| option.split_once("value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let chosen = selects.map(|select| {
        let options: Vec<&str> = select.split("<option ").skip(1).collect();
        value(options.iter().find(|option| option.contains(" selected>")).unwrap_or(&options[0]))
    });
    chosen.map(|value| ("use", value)).collect()
}

// === impl Shown ===

impl Shown {
    /// The value of the first hidden field of this name.
    pub(crate) fn hidden(&self, name: &str) -> Option<String> {
        let (_, rest) = self.body.split_once(&format!("name=\"{name}\" value=\""))?;
        Some(rest.split_once('"')?.0.replace("&#38;", "&").replace("&amp;", "&"))
    }

    /// The form with this text in it.
    pub(crate) fn form_with(&self, text: &str) -> Self {
        let (before, _) = self.body.split_once(text).unwrap_or_else(|| panic!("{}", self.body));
        let form = before.rsplit_once("<form").unwrap().1.to_owned();
        Self { status: self.status, location: None, body: form }
    }
}
