//! Features that a server uses and its client lacks: counted, and logged once for each server. One that could have another era.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockkeeper::{
    mcp::{ClientInfo, Context, Revision},
    model::{BackendId, BackendSpec, EraChoice},
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;

use super::{
    eras::spec,
    scripted_servers::{Scripts, client, everyday, failure, greeting_in, hold_time, pass, started, text, tool},
};
use crate::{
    kit::{
        carriers::{Carrier, Hosted},
        scripted::Script,
    },
    support::log::Log,
};

const CARRIERS: [Carrier; 5] = [Carrier::Stdio, Carrier::Sse, Carrier::WebSocket, Carrier::Unix, Carrier::Http];
const ASKED: [(&str, &str); 3] =
    [("elicitation/create", "elicitation"), ("sampling/createMessage", "sampling"), ("roots/list", "roots")];

fn in_version(revision: Revision, context: Context) -> Context {
    let client = ClientInfo { revision, ..ClientInfo::clone(&context.client) };
    Context { client: Arc::new(client), ..context }
}

/// How often each feature was not carried from a server of this name, by its name and the client's version.
fn counted(metrics: &PrometheusHandle, server: &str) -> BTreeMap<(String, String), u64> {
    let label = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let rendered = metrics.render();
    let lines = rendered.lines().filter(|line| line.starts_with("lockkeeper_untranslatable_total"));
    let lines = lines.filter(|line| label(line, "server") == server);
    lines
        .map(|line| ((label(line, "feature"), label(line, "to")), line.rsplit(' ').next().unwrap().parse().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_feature_that_a_client_lacks_is_counted_and_logged_once() {
    for carrier in CARRIERS {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let log = Log::open();
        let hosted = Hosted::start(carrier, Arc::new(everyday(Script::everyday())));
        let docs = BackendSpec::new(BackendId::parse("docs").unwrap(), hosted.transport());
        let (_supervisor, server) = started(BackendSpec { era: EraChoice::Legacy, ..docs }).await;
        for session in ["one", "two"] {
            for (method, _) in ASKED {
                let client = in_version(Revision::V2025_03_26, client(session, "{}"));
                let ask = json!({ "name": "ask", "arguments": { "method": method } });
                let told = text(tool(&server, client, &ask)).await;
                assert!(told.contains("-3260"), "{carrier:?}: {told}");
            }
        }
        let lines = log.lines("not carried");
        assert_eq!(lines.len(), ASKED.len(), "{carrier:?}: {lines:#?}");
        let counts = counted(&recorder.handle(), "docs");
        for (_, feature) in ASKED {
            let named = |line: &&String| line.contains("WARN") && line.contains("docs") && line.contains(feature);
            assert_eq!(lines.iter().filter(named).count(), 1, "{carrier:?}: {feature} in {lines:#?}");
            assert_eq!(counts[&(feature.to_owned(), "2025-03-26".to_owned())], 2, "{carrier:?}: {counts:?}");
        }
    }
}

#[tokio::test]
async fn a_page_that_a_call_needs_is_a_feature_too() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let pages =
        json!({ "elicitations": [{ "mode": "url", "elicitationId": "e", "url": "https://x/", "message": "Go" }] });
    let needs = json!([["give", { "error": { "code": -32042, "message": "log in", "data": pages } }]]);
    let script = Script::everyday().hidden("protected", needs);
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.serve("docs", everyday(script))).await;
    let call = json!({ "name": "protected" });
    let sees = |capabilities| failure(tool(&server, client("one", capabilities), &call));
    sees("{}").await;
    let lacking = counted(&recorder.handle(), "docs");
    assert_eq!(lacking.keys().map(|(feature, _)| feature.as_str()).collect::<Vec<_>>(), ["elicitation.url"]);
    let able = failure(tool(&server, client("two", r#"{"elicitation":{"url":{}}}"#), &call));
    able.await;
    assert_eq!(counted(&recorder.handle(), "docs"), lacking, "who can be led there lacks nothing");
}

/// What the status says of a server of this mode, once it was asked.
async fn hint(mode: &str, change: impl FnOnce(BackendSpec) -> BackendSpec) -> (Option<&'static str>, String) {
    let scripts = Scripts::new();
    let (supervisor, server) = started(change(spec(&scripts, mode))).await;
    assert_eq!(supervisor.status()[0].other_era(), None, "{mode}");
    supervisor.ask_for_other_eras().await;
    supervisor.ask_for_other_eras().await;
    let status = supervisor.status().remove(0);
    assert!(text(tool(&server, client("one", "{}"), &json!({ "name": "x" }))).await.contains(mode), "{mode}");
    (status.other_era(), scripts.log("era"))
}

#[tokio::test]
async fn a_server_that_speaks_both_eras_and_is_used_with_sessions_is_shown_so() {
    for mode in ["both", "locked"] {
        let (told, log) = hint(mode, |spec| spec).await;
        assert!(told.is_some_and(|told| told.contains("`era = \"modern\"`")), "{mode}: {told:?}");
        assert_eq!(log.matches("server/discover").count(), 1, "{mode}: it is asked once");
    }
    for mode in ["older", "newer", "code-32601", "code-32600", "supports=2025-11-25"] {
        assert_eq!(hint(mode, |spec| spec).await.0, None, "{mode}");
    }
    let scripts = Scripts::new();
    let (supervisor, _server) = started(spec(&scripts, "silent")).await;
    let held = hold_time();
    let ask = supervisor.ask_for_other_eras();
    tokio::join!(ask, async {
        scripts.logged("era", "server/discover").await;
        pass(Duration::from_secs(2)).await;
    });
    drop(held);
    assert_eq!(supervisor.status()[0].other_era(), None, "nobody waits longer for that");
    let (told, log) = hint("both", |spec| BackendSpec { era: EraChoice::Legacy, ..spec }).await;
    assert_eq!((told, log.contains("server/discover")), (None, false), "the configuration says so");
}

#[tokio::test]
async fn an_older_server_is_not_asked_for_what_it_may_end_on() {
    let scripts = Scripts::new();
    let script = Script::everyday().on("server/discover", json!([["die"]]));
    let script = script.greeting(&greeting_in("2025-06-18"));
    let (supervisor, server) = started(scripts.serve("docs", everyday(script))).await;
    supervisor.ask_for_other_eras().await;
    assert_eq!(supervisor.status()[0].other_era(), None);
    assert!(!scripts.log("docs").contains("server/discover"));
    text(tool(&server, client("one", "{}"), &json!({ "name": "echo", "arguments": { "text": "x" } }))).await;
}
