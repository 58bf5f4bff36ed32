//! Lines on a socket, each a message.

use std::sync::Arc;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
};

use super::{Actor, Tasks, converse, deliver};
use crate::kit::outlet::Outlet;

pub(super) async fn serve(listener: UnixListener, actor: Arc<dyn Actor>, tasks: Tasks) {
    while let Ok((stream, _)) = listener.accept().await {
        tasks.spawn(connection(stream, Arc::clone(&actor), tasks.clone()));
    }
}

async fn connection(stream: UnixStream, actor: Arc<dyn Actor>, tasks: Tasks) {
    let (outlet, mut pieces) = Outlet::new();
    let session = actor.open(outlet.clone());
    let (input, mut output) = stream.into_split();
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
