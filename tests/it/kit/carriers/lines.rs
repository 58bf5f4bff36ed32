//! Lines on a socket, each a message.

use std::sync::Arc;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::{TcpListener, UnixListener},
};

use super::{Actor, Tasks, converse, deliver};
use crate::kit::outlet::Outlet;

pub(super) async fn serve(listener: UnixListener, actor: Arc<dyn Actor>, tasks: Tasks) {
    while let Ok((stream, _)) = listener.accept().await {
        let (input, output) = stream.into_split();
        tasks.spawn(connection(input, output, Arc::clone(&actor), tasks.clone()));
    }
}

pub(super) async fn serve_tcp(listener: TcpListener, actor: Arc<dyn Actor>, tasks: Tasks) {
    while let Ok((stream, _)) = listener.accept().await {
        let (input, output) = stream.into_split();
        tasks.spawn(connection(input, output, Arc::clone(&actor), tasks.clone()));
    }
}

async fn connection(
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    actor: Arc<dyn Actor>,
    tasks: Tasks,
) {
    let (outlet, mut pieces) = Outlet::new();
    let session = actor.open(outlet.clone());
    let hear = async {
        let mut lines = BufReader::new(input).split(b'\n');
        while let Ok(Some(line)) = lines.next_segment().await {
            deliver(&session, &line, (&outlet, &tasks)).await;
        }
    };
    let say = async {
        while let Some(piece) = pieces.recv().await {
            let (bytes, ends) = piece.into_bytes();
            let end: &[u8] = if ends { b"\n" } else { b"" };
            if output.write_all(&bytes).await.and(output.write_all(end).await).is_err() {
                return;
            }
        }
    };
    converse(&session, hear, say).await;
}
