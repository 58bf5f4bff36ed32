//! The way to a database, which can be cut off. Knows nothing of what passes.

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// The way to the database, which can be cut off: what is sent then neither arrives nor fails.
pub(crate) struct Link {
    open: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Link {
    /// A link to the server of this database, and the URL of the database by way of it.
    pub(crate) async fn to(url: &str) -> (Self, String) {
        let server = url.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let linked = url.replacen(&server, &listener.local_addr().unwrap().to_string(), 1);
        let (open, state) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (server, state) = (server.clone(), state.clone());
                connections.spawn(carry(client, server, state));
            }
        });
        (Self { open, _tasks: tasks }, linked)
    }

    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn restore(&self) {
        self.open.send_replace(true);
    }
}

/// Carries bytes while the link is open; a connection that was cut stays so.
async fn carry(mut client: TcpStream, server: String, mut state: watch::Receiver<bool>) {
    state.wait_for(|open| *open).await.unwrap();
    let mut server = TcpStream::connect(server).await.unwrap();
    let cut = async { state.wait_for(|open| !open).await.map(drop).unwrap() };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => return,
        () = cut => {}
    }
    std::future::pending::<()>().await;
}
