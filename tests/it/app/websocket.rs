//! The upgrade to WebSocket: credentials and origins, as for every other endpoint.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    client_async,
    tungstenite::{self, Message as Frame, client::IntoClientRequest as _},
};

use super::{Gateway, direct_key};
use crate::support::data_folder::DataFolder;

/// Opens a connection with these headers, and returns the status of a refusal, or the subprotocol and the answer to a
/// first request.
async fn open(gateway: &Gateway, path: &str, headers: &[(&'static str, &str)]) -> Result<(String, Value), u16> {
    let address = gateway.url.trim_start_matches("http://");
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    let (mut socket, response) = match client_async(request, TcpStream::connect(address).await.unwrap()).await {
        Ok(opened) => opened,
        Err(tungstenite::Error::Http(refused)) => return Err(refused.status().as_u16()),
        Err(error) => panic!("{path} {headers:?}: {error}"),
    };
    let params =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    socket.send(Frame::text(asked.to_string())).await.unwrap();
    let Frame::Text(answer) = socket.next().await.unwrap().unwrap() else { panic!("no text") };
    let chosen = response.headers()["sec-websocket-protocol"].to_str().unwrap().to_owned();
    Ok((chosen, serde_json::from_str(&answer).unwrap()))
}

#[tokio::test]
async fn the_upgrade_needs_a_credential_outside_of_the_url_and_a_known_origin() {
    let data = DataFolder::new();
    let gateway = Gateway::start(data.path()).await;
    let key = direct_key(data.path());
    let (bearer, page) = (format!("Bearer {key}"), format!("mcp, bearer.{key}"));
    let (mcp, authorization, origin) = ("sec-websocket-protocol", "authorization", "origin");
    let allowed = [
        ("/ws", vec![(mcp, "mcp"), (authorization, bearer.as_str())]),
        ("/ws/demo", vec![(mcp, "mcp"), (authorization, bearer.as_str())]),
        ("/ws", vec![(mcp, page.as_str())]),
        ("/ws/demo", vec![(mcp, page.as_str()), (origin, "http://localhost:6274")]),
    ];
    for (path, headers) in allowed {
        let (protocol, answer) = open(&gateway, path, &headers).await.unwrap();
        assert_eq!(protocol, "mcp", "the token is not repeated");
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{path}: {answer}");
    }
    let wrong = page.replace("bearer.lkk_", "bearer.lkk_x");
    let in_url = format!("/ws?api_key={key}");
    let refused = [
        ("/ws", vec![(mcp, "mcp")], 401),
        ("/ws", vec![(mcp, wrong.as_str())], 401),
        (in_url.as_str(), vec![(mcp, "mcp")], 401),
        ("/ws", vec![(mcp, page.as_str()), (authorization, "Bearer lkk_other")], 400),
        ("/ws", vec![(mcp, page.as_str()), (origin, "https://evil.example.com")], 403),
        ("/ws/nobody", vec![(mcp, page.as_str())], 404),
    ];
    for (path, headers, status) in refused {
        assert_eq!(open(&gateway, path, &headers).await.unwrap_err(), status, "{path} {headers:?}");
    }
    gateway.stop().await;
}
