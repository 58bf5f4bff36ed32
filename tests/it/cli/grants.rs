//! The commands for grants.

use lockkeeper::{
    oauth::{MasterKeySource, OAuthSettings},
    storage::Storage,
    support::{Clock as _, SystemClock},
};
use serde_json::Value;

use super::{lockkeeper, shown};
use crate::support::oauth::{Authority, CALLBACK};

#[tokio::test]
async fn oa_134_all_grants_to_a_client_are_revoked_together() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("lockkeeper.sqlite3")).await.unwrap();
    let master_key = MasterKeySource::File(folder.path().join("master.key"));
    let authority = Authority::on(storage, OAuthSettings { master_key, ..Authority::settings() }, 1).await;
    authority.clock.advance(SystemClock.now().since(authority.clock.now()));
    let run = |arguments: &[&str]| {
        let output = lockkeeper(folder.path(), arguments, &[("LOCKKEEPER_DATA_DIR", folder.path().to_str().unwrap())]);
        assert_eq!(output.status.code(), Some(0), "{arguments:?} {}", shown(folder.path(), &output));
        output
    };
    let clients = || {
        let listed: Value = serde_json::from_slice(&run(&["grants", "list", "--json"]).stdout).unwrap();
        listed["grants"].as_array().unwrap().iter().map(|grant| grant["client"].clone()).collect::<Vec<_>>()
    };
    // the same client each time, as its registration is the same
    let (client, _) = authority.tokens("/mcp").await;
    authority.tokens("/mcp/git").await;
    let metadata = serde_json::json!({ "redirect_uris": [CALLBACK], "client_name": "Another" });
    let other = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let code = authority.code(&Authority::query(&other, &[])).await;
    authority.redeem(&other, &code).await;
    assert_eq!(clients().iter().filter(|one| **one == client).count(), 2);

    run(&["grants", "revoke", "--client", &client, "--user", "nobody"]);
    assert_eq!(clients().len(), 3);
    run(&["grants", "revoke", "--client", &client]);
    assert_eq!(clients(), [other]);
}
