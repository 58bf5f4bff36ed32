//! WebSocket: each text is a message; a message without an end is sent in fragments.

use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderValue;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
        protocol::frame::{
            Frame,
            coding::{Data, OpCode},
        },
    },
};

use super::{Actor, Tasks, converse, deliver};
use crate::kit::outlet::{Outlet, Piece};

pub(super) async fn serve(listener: TcpListener, actor: Arc<dyn Actor>, tasks: Tasks) {
    while let Ok((stream, _)) = listener.accept().await {
        tasks.spawn(connection(stream, Arc::clone(&actor), tasks.clone()));
    }
}

fn accepted(actor: &Arc<dyn Actor>, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    if let Err(status) = actor.admit(&request.clone().into_parts().0) {
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = status;
        return Err(refusal);
    }
    response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
    Ok(response)
}

async fn connection(stream: TcpStream, actor: Arc<dyn Actor>, tasks: Tasks) {
    let judged = |request: &Request, response: Response| accepted(&actor, request, response);
    let Ok(socket) = accept_hdr_async(stream, judged).await else { return };
    let (outlet, mut pieces) = Outlet::new();
    let session = actor.open(outlet.clone());
    let (mut output, mut input) = socket.split();
    let hear = async {
        while let Some(Ok(message)) = input.next().await {
            if let Message::Text(text) = message {
                deliver(&session, text.as_bytes(), (&outlet, &tasks)).await;
            }
        }
    };
    let say = async {
        let mut has_begun = false;
        while let Some(piece) = pieces.recv().await {
            let message = if let Piece::Frame(message) = piece {
                message
            } else {
                let (bytes, ends) = piece.into_bytes();
                let kind = if has_begun { Data::Continue } else { Data::Text };
                has_begun = !ends;
                Message::Frame(Frame::message(bytes, OpCode::Data(kind), ends))
            };
            if output.send(message).await.is_err() {
                return;
            }
        }
    };
    converse(&session, hear, say).await;
}
