//! Server Cards and their catalog.

use std::fs;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Gateway, client};
use crate::support::data_folder::DataFolder;

/// The schema of the extension.
const SCHEMA: &str = include_str!("../../schema/server-card/schema.json");

async fn started(conceal: &str) -> (DataFolder, Gateway) {
    let folder = DataFolder::new();
    let servers =
        "[servers.git]\nbuiltin = \"demo\"\n[servers.notes]\nbuiltin = \"demo\"\n[groups.work]\nservers = [\"git\"]\n";
    let config = format!("[auth]\nconceal_servers = {conceal}\n{servers}");
    fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
    let gateway = Gateway::start(folder.path()).await;
    (folder, gateway)
}

/// A card that fits the schema.
async fn card(gateway: &Gateway, url: &str) -> Value {
    let response = client().get(url).header("origin", "https://app.example").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{url}");
    for (name, value) in [
        ("content-type", "application/mcp-server-card+json"),
        ("access-control-allow-origin", "*"),
        ("cache-control", "public, max-age=3600"),
    ] {
        assert_eq!(response.headers()[name], value);
    }
    let card: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    schema["$ref"] = json!("#/$defs/ServerCard");
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(
        validator.is_valid(&card),
        "{:?}",
        validator.iter_errors(&card).map(|error| error.to_string()).collect::<Vec<_>>()
    );
    assert!(!card.to_string().contains("demo") && url.starts_with(&gateway.url));
    card
}

async fn catalog(gateway: &Gateway) -> Vec<(String, String)> {
    let [first, second] = ["/.well-known/ai-catalog.json", "/.well-known/mcp/catalog.json"];
    let response = gateway.get(first, None).await;
    assert_eq!(response.headers()["content-type"], "application/ai-catalog+json");
    let text = response.text().await.unwrap();
    assert_eq!(text, gateway.get(second, None).await.text().await.unwrap());
    let catalog: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(catalog["specVersion"], "1.0");
    let entries = catalog["entries"].as_array().unwrap().iter();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    entries.map(|entry| (text(entry, "identifier"), text(entry, "url"))).collect()
}

#[tokio::test]
async fn a_stranger_learns_of_the_gateway_alone() {
    let (_folder, gateway) = started("true").await;
    let [(identifier, url)] = &catalog(&gateway).await[..] else { panic!("one entry") };
    assert_eq!(identifier, "urn:air:127.0.0.1:mcp:lockkeeper");
    let card = card(&gateway, url).await;
    assert_eq!(card["name"], "127.0.0.1/lockkeeper");
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    assert_eq!(card["version"], version, "without the patch version");
    assert_eq!(card["remotes"][0]["url"], format!("{}/mcp", gateway.url));
    assert_eq!(card["remotes"][0]["supportedProtocolVersions"].as_array().unwrap().len(), 5);
    assert_eq!(
        card["remotes"][1],
        json!({
        "type": "sse", "url": format!("{}/sse", gateway.url), "supportedProtocolVersions": ["2024-11-05"] })
    );
    for path in ["/mcp/git/server-card", "/mcp/nothing/server-card"] {
        assert_eq!(gateway.get(path, None).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(gateway.get("/mcp/git", None).await.status(), StatusCode::UNAUTHORIZED);
    gateway.stop().await;
}

#[tokio::test]
async fn servers_and_groups_have_cards_if_the_operator_names_them() {
    let (_folder, gateway) = started("false").await;
    let entries = catalog(&gateway).await;
    let names: Vec<&str> = entries.iter().map(|(name, _)| name.rsplit(':').next().unwrap()).collect();
    assert_eq!(names, ["lockkeeper", "git", "notes", "work"]);
    for (identifier, url) in &entries {
        let name = identifier.rsplit(':').next().unwrap();
        assert_eq!(card(&gateway, url).await["name"], format!("127.0.0.1/{name}"));
    }
    assert_eq!(gateway.get("/mcp/nothing/server-card", None).await.status(), StatusCode::NOT_FOUND);
    // known content is not sent again
    let url = format!("{}/mcp/git/server-card", gateway.url);
    let tag = client().get(&url).send().await.unwrap().headers()["etag"].clone();
    let again = client().get(&url).header("if-none-match", tag).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    gateway.stop().await;
}
