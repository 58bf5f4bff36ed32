//! Calls of users who have connected the server, and of those who have not.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::world::{World, page_in, protected_server};
use crate::kit::authority::{Endpoint, answers};

/// What clients that show pages declare.
fn shows_pages() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_001_each_user_calls_with_tokens_of_their_own_and_sees_lists_of_their_own() {
    let world = World::new().await;
    let (ada, bob) = (world.connected("ada").await, world.connected("bob").await);
    let (mut of_ada, mut of_bob) = (ada.client("2025-11-25", json!({})), bob.client("2026-07-28", json!({})));
    assert_eq!(of_ada.call("github__whoami").await, "ada");
    assert_eq!(of_bob.call("github__whoami").await, "bob");
    let listed = of_bob.ask("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["description"], "Says bob", "{listed}");
    assert_eq!(of_ada.call("github__whoami").await, "ada");
    let eve = world.person("eve");
    assert_eq!(eve.client("2025-06-18", json!({})).tools().await, ["github__connect_account"]);
    assert_eq!(world.authority.take_log(), ["call ada", "call bob", "call ada"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_007_a_client_of_2025_11_25_gets_the_page_as_an_error_and_calls_again() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    let call = json!({ "name": "github__connect_account" });
    let error = ada.client("2025-11-25", shows_pages()).ask("tools/call", call).await["error"].clone();
    assert_eq!(error["code"], -32042, "{error}");
    let elicitation = &error["data"]["elicitations"][0];
    assert_eq!(elicitation["mode"], "url", "{error}");
    assert!(elicitation["elicitationId"].is_string() && elicitation["message"].is_string(), "{error}");
    let url = elicitation["url"].as_str().unwrap();
    assert!(url.starts_with(&format!("{}/connect/github?t=", world.gateway.url)) && !url.contains("ada"), "{url}");

    world.authority.account("ada");
    ada.log_in().await;
    let done = ada.connect(&page_in(url)).await;
    assert!(done.body.contains("is connected"), "{}", done.body);
    let mut client = ada.client("2025-11-25", shows_pages());
    assert!(client.call("github__connect_account").await.contains("is connected"));
    assert_eq!(client.tools().await, ["github__whoami"]);
    assert_eq!(client.call("github__whoami").await, "ada");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_007_a_tool_that_a_client_remembers_leads_to_the_page_where_there_are_rules_for_tools() {
    let world = World::in_mode("oauth", "tools.deny = [\"danger\"]").await;
    let mut ada = world.person("ada");
    let call = |name: &str| json!({ "name": name, "arguments": {} });
    let mut client = ada.client("2025-11-25", shows_pages());
    let error = client.ask("tools/call", call("github__whoami")).await["error"].clone();
    assert_eq!(error["code"], -32042, "{error}");
    let refused = client.ask("tools/call", call("github__danger")).await;
    assert_eq!(refused["error"]["message"], "Unknown tool: github__danger");
    let url = error["data"]["elicitations"][0]["url"].as_str().unwrap().to_owned();
    world.authority.account("ada");
    ada.log_in().await;
    ada.connect(&page_in(&url)).await;
    let mut client = ada.client("2025-11-25", shows_pages());
    assert!(client.call("github__connect_account").await.contains("is connected"), "the tool that others call again");
    assert_eq!(client.call("github__whoami").await, "ada");
    let refused = client.ask("tools/call", call("github__Danger")).await;
    assert_eq!(refused["error"]["message"], "Unknown tool: github__Danger");
    assert!(!world.authority.take_log().iter().any(|line| line.contains("anger")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_007_a_client_of_2026_07_28_is_asked_for_input_and_repeats_its_call() {
    let world = World::new().await;
    let mut ada = world.person("ada");
    let call = || json!({ "name": "github__whoami", "arguments": {} });
    let asked = ada.client("2026-07-28", shows_pages()).ask("tools/call", call()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let request = &asked["inputRequests"]["r1"];
    assert_eq!((&request["method"], &request["params"]["mode"]), (&json!("elicitation/create"), &json!("url")));
    let url = request["params"]["url"].as_str().unwrap().to_owned();

    world.authority.account("ada");
    ada.log_in().await;
    ada.connect(&page_in(&url)).await;
    let mut again = call();
    again["inputResponses"] = json!({ "r1": { "action": "accept" } });
    if asked["requestState"].is_string() {
        again["requestState"] = asked["requestState"].clone();
    }
    let result = ada.client("2026-07-28", shows_pages()).ask("tools/call", again).await;
    assert_eq!(result["content"][0]["text"], "ada", "{result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_007_other_clients_get_the_address_in_words() {
    let world = World::new().await;
    let ada = world.person("ada");
    for (version, capabilities) in [
        ("2025-06-18", json!({ "elicitation": {} })),
        ("2025-11-25", json!({})),
        ("2025-11-25", json!({ "elicitation": { "form": {} } })),
        ("2026-07-28", json!({})),
    ] {
        let params = json!({ "name": "github__whoami", "arguments": {} });
        let result = ada.client(version, capabilities).ask("tools/call", params).await;
        assert_eq!(result["isError"], true, "{version} {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&format!("Open {}/connect/github?t=", world.gateway.url)), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_007_lists_before_the_login_have_what_their_version_requires() {
    let world = World::new().await;
    let ada = world.person("ada");
    let mut modern = ada.client_at("/mcp/github", "2026-07-28", shows_pages());
    let listed = modern.ask("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["name"], "connect_account", "{listed}");
    let envelope = [&listed["resultType"], &listed["ttlMs"], &listed["cacheScope"]];
    assert_eq!(envelope, [&json!("complete"), &json!(0), &json!("private")]);
    let mut classic = ada.client_at("/mcp/github", "2025-11-25", shows_pages());
    let listed = classic.ask("tools/list", json!({})).await;
    assert_eq!(listed.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"], "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_007_a_list_right_after_the_login_is_never_the_empty_one_of_the_gateway() {
    let world = World::new().await;
    let mut ada = world.connected("ada").await;
    world.authority.forget();
    let params = json!({ "name": "whoami", "arguments": {} });
    let asked = ada.client_at("/mcp/github", "2026-07-28", shows_pages()).ask("tools/call", params).await;
    let url = asked["inputRequests"]["r1"]["params"]["url"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    world.authority.account("ada");
    ada.connect(&page_in(&url)).await;
    let mut client = ada.client_at("/mcp/github", "2026-07-28", shows_pages());
    let listed = loop {
        // the change reaches the list in the background
        let listed = client.ask("tools/list", json!({})).await;
        if listed["tools"].is_array() {
            break listed;
        }
    };
    assert_ne!(listed["tools"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_009_a_rejected_token_is_refreshed_once_and_the_call_succeeds() {
    let world = World::new().await;
    let ada = world.connected("ada").await;
    let mut client = ada.client("2025-11-25", json!({}));
    assert_eq!(client.call("github__whoami").await, "ada");
    world.authority.expire();
    world.authority.take_log();
    let calls = (0..5).map(|_| async { ada.client("2025-11-25", json!({})).call("github__whoami").await });
    let texts = futures_util::future::join_all(calls).await;
    let log = world.authority.take_log();
    let refreshes = log.iter().filter(|line| *line == "token refresh_token resource=mcp").count();
    assert!(texts.iter().all(|text| text == "ada"), "{texts:?} {log:?}");
    assert_eq!(refreshes, 1, "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_117_a_refusal_of_the_server_is_a_tool_error_or_an_elicitation_and_never_401() {
    let world = World::new().await;
    let ada = world.connected("ada").await;
    let mut client = ada.client("2025-11-25", shows_pages());
    assert_eq!(client.call("github__whoami").await, "ada");
    world.authority.forget();
    let answer = client.ask("tools/call", json!({ "name": "github__whoami", "arguments": {} })).await;
    assert_eq!(answer["error"]["code"], -32042, "{answer}");
    assert_eq!(world.logins("ada").await, 1, "tokens stay until others take their place");
    world.authority.take_log();
    let words = ada.client("2025-06-18", json!({})).call("github__whoami").await;
    assert!(words.contains("/connect/github?t="), "{words}");
    assert_eq!(world.authority.take_log(), [""; 0], "a refresh token that was refused is not tried again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_009_a_failing_authorization_server_ends_no_tokens() {
    let world = World::new().await;
    let ada = world.connected("ada").await;
    let mut client = ada.client("2025-11-25", shows_pages());
    assert_eq!(client.call("github__whoami").await, "ada");
    world.authority.expire();
    world.authority.answers(Endpoint::Token, answers::status(StatusCode::SERVICE_UNAVAILABLE));
    let answer = client.ask("tools/call", json!({ "name": "github__whoami", "arguments": {} })).await;
    assert_ne!(answer["error"]["code"], -32042, "{answer}");
    assert_eq!(world.logins("ada").await, 1);
    world.authority.recovers(Endpoint::Token);
    assert_eq!(client.call("github__whoami").await, "ada");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_009_a_server_that_rejects_a_new_login_says_so_with_the_page_to_connect_another() {
    let world = World::new().await;
    let mut ada = world.connected("ada").await;
    let mut client = ada.client("2025-11-25", json!({}));
    assert_eq!(client.call("github__whoami").await, "ada");
    world.server.reject_all();
    world.authority.take_log();
    let words = client.call("github__whoami").await;
    assert!(words.contains("rejects the token of your new login"), "{words}");
    let refreshes = world.authority.take_log().iter().filter(|line| line.starts_with("token refresh_token")).count();
    assert_eq!(refreshes, 1, "it does not go round in circles");
    let url =
        words.split_whitespace().find(|word| word.contains("/connect/github?t=")).unwrap_or_else(|| panic!("{words}"));
    assert_eq!(world.logins("ada").await, 1, "the tokens stay");
    world.authority.recovers(Endpoint::Server);
    world.authority.account("eve");
    ada.connect(&page_in(url)).await;
    assert_eq!(ada.client("2025-11-25", json!({})).call("github__whoami").await, "eve");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_009_too_few_scopes_lead_to_a_login_that_asks_for_both() {
    let world = World::new().await;
    let mut ada = world.connected("ada").await;
    world.server.need("tools/call", "write");
    let params = json!({ "name": "github__whoami", "arguments": {} });
    let answer = ada.client("2025-11-25", shows_pages()).ask("tools/call", params).await;
    let url =
        answer["error"]["data"]["elicitations"][0]["url"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    assert_eq!(world.logins("ada").await, 1, "the tokens stay");
    let page = ada.get(&page_in(&url)).await;
    assert!(page.body.contains("<code>read</code>") && page.body.contains("<code>write</code>"), "{}", page.body);
    ada.connect(&page_in(&url)).await;
    let log = world.authority.take_log();
    assert!(log.contains(&"authorize scope=read write resource=mcp".to_owned()), "{log:?}");
    assert_eq!(ada.client("2025-11-25", shows_pages()).call("github__whoami").await, "ada");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_009_a_server_that_asks_for_more_before_it_lists_shows_the_tool_that_leads_to_the_page() {
    let world = World::new().await;
    let mut ada = world.connected("ada").await;
    world.server.need("tools/list", "write");
    let mut client = ada.client_at("/mcp/github", "2025-06-18", json!({}));
    assert_eq!(client.tools().await, ["connect_account"]);
    let words = client.call("connect_account").await;
    let url =
        words.split_whitespace().find(|word| word.contains("/connect/github?t=")).unwrap_or_else(|| panic!("{words}"));
    assert_eq!(world.logins("ada").await, 1, "the tokens stay");
    ada.connect(&page_in(url)).await;
    let mut client = ada.client_at("/mcp/github", "2025-06-18", json!({}));
    assert!(client.call("connect_account").await.contains("is connected"));
    // the change reaches the list in the background
    while client.tools().await != ["whoami"] {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_111_a_token_of_the_server_opens_nothing_at_the_gateway() {
    let world = World::new().await;
    let _ada = world.connected("ada").await;
    let token = world.authority.token_of("ada").unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.post(format!("{}/mcp", world.gateway.url)).bearer_auth(token).body("{}").send().await.unwrap();
    assert_eq!(answer.status(), 401);
    assert!(answer.headers()["www-authenticate"].to_str().unwrap().contains("error=\"invalid_token\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_011_with_client_credentials_the_gateway_has_one_token_for_all_users() {
    let options = "client_id = \"gateway\"\nclient_secret = \"secret-of-gateway\"\nissuer = \"ISSUER\"";
    let server = protected_server().await;
    server.authority.knows_client("gateway", "secret-of-gateway");
    let world = World::of(server, "client-credentials", options).await;
    let (ada, bob) = (world.person("ada"), world.person("bob"));
    assert_eq!(ada.client("2025-11-25", json!({})).call("github__whoami").await, "gateway");
    assert_eq!(bob.client("2026-07-28", json!({})).call("github__whoami").await, "gateway");
    let log = world.authority.take_log();
    let requests = log.iter().filter(|line| *line == "token client_credentials resource=mcp").count();
    assert_eq!(requests, 1, "{log:?}");
    assert_eq!((world.logins("ada").await, world.logins("bob").await), (0, 0));
}
