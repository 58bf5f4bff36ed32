//! Every template, rendered with text such as a hostile client sends.

use super::{
    super::{account_page::*, consent_page::*},
    *,
};
use crate::{
    model::{Access, Groups, Rights, Scopes},
    oauth::{ClientOrigin, RedirectTarget},
    support::SeededRandom,
    web::texts,
};

const FULL: Access = Access::unless_read_only(false);
const HOSTILE: &str = "<script>alert(1)</script>\"'&";

#[test]
fn every_landmark_of_a_page_has_a_name_of_its_own() {
    for (name, page) in every_page() {
        let labels: Vec<&str> =
            page.split("aria-labelledby=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        for label in &labels {
            assert_eq!(labels.iter().filter(|other| *other == label).count(), 1, "{name}: {label}");
            assert_eq!(page.matches(&format!(" id=\"{label}\"")).count(), 1, "{name}: {label}");
        }
        assert!(!page.contains('`') && !page.contains("os error"), "{name} has signs of a terminal");
    }
}

#[test]
fn every_page_renders_and_escapes_untrusted_text() {
    for (name, page) in every_page() {
        assert!(page.starts_with("<!doctype html>"), "{name}");
        assert!(page.contains("<html lang=\"en\">") && page.contains("<h1>"), "{name}");
        assert!(!page.contains("<script>"), "{name} holds a script");
        assert!(!page.contains(" style=") && !page.contains("<style"), "{name} holds an inline style");
    }
}

fn every_page() -> Vec<(&'static str, String)> {
    let request = || Some(LoginRequest { transaction: "t1", client: HOSTILE });
    vec![
        ("start", start(None)),
        ("start-known", start(Some(backends()))),
        ("login", login(None, None)),
        ("login-again", login(Some("This key does not open anything here."), request())),
        ("consent-web", consent("Claude", &RedirectTarget::Web("claude.ai".to_owned()))),
        ("consent-loopback", consent(HOSTILE, &RedirectTarget::Loopback("127.0.0.1:33418".to_owned()))),
        ("consent-app", consent("Cursor", &RedirectTarget::App("cursor".to_owned()))),
        ("consent-device", consent_device("An editor")),
        ("device", device("", None)),
        ("device-wrong", device(HOSTILE, Some("No device is waiting with this code."))),
        ("device-decided", decided()),
        ("handover", handover()),
        ("denied", denied()),
        ("request-decided", request_decided(RequestDecision::Approved)),
        ("request-denied", request_decided(RequestDecision::Denied)),
        ("request-refused", request_decided(RequestDecision::Refused)),
        ("opened", opened()),
        ("account", account(vec![grant("Cursor"), grant(HOSTILE)], backends())),
        ("account-empty", account(Vec::new(), backend_list(Vec::new()))),
        ("invitation", invitation(None)),
        ("invitation-logged-in", invitation(Some(PresentPerson { name: HOSTILE, key: HOSTILE }))),
        ("invited", invited(Some("lkk_key"))),
        ("invited-before", invited(None)),
        ("connect", connect()),
        ("secret", secret()),
        ("connect-done", connect_done()),
        ("connect-denied", connect_denied()),
        ("problem", problem()),
    ]
}

fn connect() -> String {
    let scopes = ["repo".to_owned(), HOSTILE.to_owned()];
    ConnectPage {
        layout: layout(),
        token: "token".to_owned(),
        address: "github?t=abc",
        backend: "github",
        server: "mcp.example.com",
        authorization_server: "login.example.com",
        resource: None,
        scopes: &scopes,
        user: "ada",
    }
    .render()
    .unwrap()
}

fn secret() -> String {
    let (layout, token) = (layout(), "token".to_owned());
    SecretPage { layout, token, address: "github?t=abc", backend: "github", name: "GITHUB_TOKEN", user: HOSTILE }
        .render()
        .unwrap()
}

fn secrets() -> Vec<SecretItem> {
    let item = |name: &str, servers: &str, entered: Option<&str>| SecretItem {
        name: name.to_owned(),
        servers: servers.to_owned(),
        entered: entered.map(str::to_owned),
    };
    vec![
        item("GITHUB_TOKEN", "github, search", Some("2 days ago")),
        item("API_KEY", "weather", None),
        item("OLD", "", Some("a year ago")),
    ]
}

fn connect_done() -> String {
    ConnectDonePage { layout: layout(), backend: "github" }.render().unwrap()
}

fn connect_denied() -> String {
    ConnectDeniedPage { layout: layout(), backend: "github" }.render().unwrap()
}

fn accounts() -> Vec<AccountItem> {
    let item = |backend: &str, connected: Option<&str>, scope: &str| AccountItem {
        backend: backend.to_owned(),
        connected: connected.map(str::to_owned),
        issuer: "login.example.com".to_owned(),
        scope: scope.to_owned(),
    };
    vec![item("github", Some("2 days ago"), HOSTILE), item("notion", None, "")]
}

fn start(backends: Option<BackendList>) -> String {
    let (cursor, vs_code) = ("cursor://x".to_owned(), "vscode:x".to_owned());
    let (root, path) = ("https://mcp.example.com", String::new());
    StartPage { layout: layout(), root, path, cursor, vs_code, backends, version: "0.1.0" }.render().unwrap()
}

fn alert_of(text: &'static str) -> Alert {
    Alert { text, refusal: RefusalCode::mint(&SeededRandom::new(1)) }
}

fn login(alert: Option<&'static str>, request: Option<LoginRequest<'_>>) -> String {
    let providers = vec![ProviderButton { name: "corp".to_owned(), label: HOSTILE.to_owned() }];
    let (layout, alert) = (layout(), alert.map(alert_of));
    LoginPage { layout, token: "token".to_owned(), alert, request, connect: None, device: None, providers }
        .render()
        .unwrap()
}

fn device(code: &str, alert: Option<&'static str>) -> String {
    let alert = alert.map(alert_of);
    DevicePage { layout: layout(), token: "token".to_owned(), code, alert, user: HOSTILE }.render().unwrap()
}

fn decided() -> String {
    DeviceDecidedPage { layout: layout(), client: HOSTILE, outcome: DeviceOutcome::Denied, when: "just now".to_owned() }
        .render()
        .unwrap()
}

fn consent_device(client: &str) -> String {
    let subject = ConsentSubject::Device { code: "WDJB-MJHT".to_owned() };
    consent_of(client, subject, &ClientOrigin::Operator)
}

fn consent(client: &str, target: &RedirectTarget) -> String {
    let subject = ConsentSubject::App { transaction: "t1", destination: texts::destination(target) };
    consent_of(client, subject, &ClientOrigin::Registered)
}

fn consent_of(client: &str, subject: ConsentSubject<'_>, origin: &ClientOrigin) -> String {
    let server = |name: &str, most, chosen| OfferedServer {
        name: name.to_owned(),
        tools: "11 tools, 4 may change data".to_owned(),
        read_only: "Read-only (7 tools)".to_owned(),
        most,
        chosen,
        lacks_login: chosen.is_none(),
    };
    let page = ConsentPage {
        layout: layout(),
        token: "token".to_owned(),
        subject,
        origin: origin.into(),
        client,
        choice: ServerSelection {
            items: vec![
                server("files", FULL, Some(FULL)),
                server(HOSTILE, FULL, None),
                server("search", Access::ReadOnly, Some(Access::ReadOnly)),
            ],
            later: Some("If you leave all as they are"),
            permissions: permissions(),
            alert: Some("No server is chosen."),
        },
        resource: "https://mcp.example.com/mcp",
        lifetime: "180 days".to_owned(),
        user: "owner",
    };
    page.render().unwrap()
}

fn handover() -> String {
    let page = ReturnPage {
        layout: layout(),
        reason: "The app asked for something that it cannot have.",
        host: "app.example.com",
        location: "https://app.example.com/cb?error=invalid_scope&x=\"><script>",
        refusal: alert_of("").refusal,
    };
    page.render().unwrap()
}

fn denied() -> String {
    let client = "Cursor <script>";
    DeniedPage { layout: layout(), client, host: None, location: "cursor://cb?error=access_denied&x=\"><script>" }
        .render()
        .unwrap()
}

fn request_decided(decision: RequestDecision) -> String {
    let (when, home) = ("1 minute ago".to_owned(), "cursor://x\"><script>");
    DecidedPage { layout: layout(), client: HOSTILE, decision, when, home }.render().unwrap()
}

fn opened() -> String {
    OpenedPage { layout: layout(), scheme: "cursor:", location: "cursor://cb?code=1&x=\"><script>" }.render().unwrap()
}

fn account(grants: Vec<GrantItem>, backends: BackendList) -> String {
    let client = ClientItem {
        name: "claude-code 2.1.251".to_owned(),
        endpoint: "/mcp".to_owned(),
        protocol_version: "2025-06-18".to_owned(),
        used: "just now".to_owned(),
    };
    let page = AccountPage {
        layout: layout(),
        token: "token".to_owned(),
        user: HOSTILE,
        key: Some(HOSTILE),
        provider: Some(HOSTILE),
        notice: Some("The app is disconnected."),
        rights: RightsItem {
            permissions: texts::rights(&rights(), &Groups::default()),
            since: "5 days ago".to_owned(),
            given_by: Some(format!("an invitation of {HOSTILE}")),
            changed: Some(format!("just now by the operator {HOSTILE}")),
            ends: Some("in 90 days".to_owned()),
            networks: Some("192.0.2.0/24".to_owned()),
        },
        accounts: accounts(),
        secrets: secrets(),
        apps: if grants.is_empty() {
            Vec::new()
        } else {
            grants
                .into_iter()
                .map(|grant| AppItem::Connected(Box::new(grant)))
                .chain([AppItem::Client(client)])
                .collect()
        },
        backends,
    };
    page.render().unwrap()
}

fn rights() -> Rights {
    Rights { admin: true, ..Rights::all_backends() }
}

fn invitation(present: Option<PresentPerson<'_>>) -> String {
    let page = InvitePage {
        layout: layout(),
        token: "token".to_owned(),
        link: HOSTILE,
        inviter: HOSTILE,
        user: HOSTILE,
        is_further: present.is_some(),
        permissions: texts::rights(&rights(), &Groups::default()),
        key_life: present.is_some().then(|| "90 days".to_owned()),
        valid: "3 days".to_owned(),
        present,
    };
    page.render().unwrap()
}

fn invited(key: Option<&str>) -> String {
    InvitedPage { layout: layout(), user: HOSTILE, key }.render().unwrap()
}

fn problem() -> String {
    let page = ProblemPage {
        layout: layout(),
        title: "This login has lapsed",
        text: HOSTILE,
        advice: vec!["Start again.".to_owned()],
        error: "invalid_request",
        refusal: "BCDFGHJK".to_owned(),
        request: Some("0123456789abcdef".to_owned()),
    };
    page.render().unwrap()
}

fn layout() -> Layout {
    Layout {
        base: String::new(),
        name: "Lockkeeper".to_owned(),
        host: "mcp.example.com".to_owned(),
        style: "/assets/lockkeeper.css",
        script: "/assets/pressed.js",
        mark: "/assets/mark.svg",
    }
}

fn permissions() -> Vec<Permission> {
    texts::permissions(&Scopes::parse("mcp:use mcp:git:read mcp:admin").unwrap(), &Groups::default())
}

fn backends() -> BackendList {
    let backend = |(state, id): (&'static str, &str), detail: &str, output: &[&str]| BackendItem {
        id: id.to_owned(),
        state,
        lacks_login: state == "ready",
        detail: detail.to_owned(),
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    backend_list(vec![
        backend(
            ("failed", "search"),
            "next try in 8 s; the process exited (exit status: 1)",
            &["stdout | Welcome to my server", "stderr | Error: SEARCH_KEY is missing"],
        ),
        backend(("restarting", "notes"), "the connection was lost", &[]),
        backend(("starting", "git"), "for 12 s", &["stderr | Downloading <b>3</b> packages"]),
        backend(("ready", "files"), "11 tools, 1 resource", &[]),
    ])
}

fn backend_list(items: Vec<BackendItem>) -> BackendList {
    let group = GroupItem {
        id: "work".to_owned(),
        url: "https://mcp.example.com/mcp/work".to_owned(),
        servers: vec![HOSTILE.to_owned(), "files".to_owned()],
    };
    BackendList {
        configuration: Vec::new(),
        summary: "1 ready, 2 starting, 1 failing".to_owned(),
        items,
        groups: vec![group],
        groups_note: "Some of these servers, at addresses of their own.",
    }
}

fn grant(client: &str) -> GrantItem {
    GrantItem {
        ids: "g1".to_owned(),
        distinction: None,
        client: client.to_owned(),
        destination: texts::destination(&RedirectTarget::App("cursor".to_owned())),
        permissions: permissions(),
        servers: vec![AppServer { name: HOSTILE.to_owned(), access: Access::ReadOnly, lacks_login: true }],
        summary: HOSTILE.to_owned(),
        ends: "29 May 2027".to_owned(),
        clients: vec![ClientItem {
            name: HOSTILE.to_owned(),
            endpoint: "/mcp".to_owned(),
            protocol_version: "2025-06-18".to_owned(),
            used: "just now".to_owned(),
        }],
        endpoint: "/mcp".to_owned(),
        key: Some(HOSTILE.to_owned()),
        created: "3 days ago".to_owned(),
        used: "5 minutes ago".to_owned(),
    }
}
