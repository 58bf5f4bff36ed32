//! Messages as lines on a socket.

use std::sync::Arc;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::{TcpListener, UnixListener},
};

use super::{Actor, Tasks, converse, deliver};
use crate::kit::outlet::Outlet;

/// The other side of a socket.
#[derive(Debug, Clone, Copy)]
pub(super) enum Peers {
    /// Server programs: the first line of each describes its process.
    Programs,
    Clients,
}

pub(super) async fn serve(listener: UnixListener, peers: Peers, actor: Arc<dyn Actor>, tasks: Tasks) {
    while let Ok((stream, _)) = listener.accept().await {
        let (input, output) = stream.into_split();
        tasks.spawn(connection((input, output), peers, Arc::clone(&actor), tasks.clone()));
    }
}

pub(super) async fn serve_tcp(listener: TcpListener, actor: Arc<dyn Actor>, tasks: Tasks) {
    while let Ok((stream, _)) = listener.accept().await {
        let (input, output) = stream.into_split();
        tasks.spawn(connection((input, output), Peers::Clients, Arc::clone(&actor), tasks.clone()));
    }
}

async fn connection(
    (input, mut output): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    peers: Peers,
    actor: Arc<dyn Actor>,
    tasks: Tasks,
) {
    let (outlet, mut pieces) = Outlet::new();
    let mut input = BufReader::new(input);
    let session = match peers {
        Peers::Programs => {
            let mut line = String::new();
            // a program that is killed at once sends nothing
            let Ok(1..) = input.read_line(&mut line).await else { return };
            let Ok(process) = serde_json::from_str(&line) else { return };
            actor.open_program(process, outlet.clone())
        }
        Peers::Clients => actor.open(outlet.clone()),
    };
    let hear = async {
        let mut lines = input.split(b'\n');
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
