//! Connections that are kept between requests.

use super::*;

#[tokio::test]
async fn connections_are_kept() {
    let mut peer = Peer::start(Then::Answers(OK)).await;
    let client = client(&[]);
    for _ in 0..2 {
        assert_eq!(post(&client, &peer.url()).await.unwrap(), (StatusCode::OK, Version::HTTP_11));
    }
    assert_eq!([peer.head().0, peer.head().0], [0, 0]);
}

#[tokio::test]
async fn a_connection_is_kept_after_an_answer_that_nobody_reads_if_all_of_it_came() {
    for (answer, connections) in [(OK, [0, 0]), ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nok", [0, 1])] {
        let mut peer = Peer::start(Then::Answers(answer)).await;
        let client = client(&[]);
        for _ in 0..2 {
            drop(send(&client, &peer.url()).await.unwrap());
        }
        assert_eq!([peer.head().0, peer.head().0], connections, "{answer}");
    }
}

/// An answer with these headers.
macro_rules! answer {
    ($headers:literal) => {
        concat!("HTTP/1.1 200 OK\r\n", $headers, "content-length: 2\r\n\r\nok")
    };
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_on_a_connection_that_its_server_may_be_closing() {
    // tenths of a second before each request, and the number of its connection
    let untold = [(0, 0), (9, 0), (9, 0), (11, 1)];
    let cases = [
        (OK, untold),
        (answer!("connection: keep-alive\r\nkeep-alive: timeout=5\r\n"), [(0, 0), (29, 0), (29, 0), (31, 1)]),
        (answer!("connection: keep-alive\r\nkeep-alive: timeout=\"5\"\r\n"), [(0, 0), (29, 0), (29, 0), (31, 1)]),
        (answer!("connection: keep-alive\r\nkeep-alive: timeout=2\r\n"), [(0, 0), (0, 1), (0, 2), (0, 3)]),
        (answer!("keep-alive: timeout=0\r\n"), [(0, 0), (0, 1), (0, 2), (0, 3)]),
        (
            answer!("Connection: x, Keep-Alive\r\nKeep-Alive: max=100\r\nKeep-Alive: Timeout = 3600\r\n"),
            [(0, 0), (540, 0), (540, 0), (560, 1)],
        ),
        // does not apply to this connection
        (answer!("keep-alive: timeout=3600\r\n"), untold),
        (answer!("connection: keep-alive\r\nkeep-alive: timeout=-1\r\n"), untold),
    ];
    for (answer, requests) in cases {
        let mut peer = Peer::start(Then::Answers(answer)).await;
        let client = client(&[]);
        for (pause, number) in requests {
            tokio::time::sleep(Duration::from_millis(100 * pause)).await;
            post(&client, &peer.url()).await.unwrap();
            assert_eq!(peer.head().0, number, "{answer} after {pause} tenths of a second");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_used_again_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, url) = (client(&[]), format!("http://{}/", listener.local_addr().unwrap()));
    let (answered, mut stream) = tokio::join!(post(&client, &url), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_buf(&mut Vec::with_capacity(4096)).await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
        stream
    });
    answered.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut [0])).await;
    assert_eq!(read.expect("an end").unwrap(), 0, "no request");
}

#[tokio::test]
async fn a_connection_with_tls_is_kept_for_longer_if_its_end_is_announced() {
    let cases = [
        (Then::Tunnels(&[b"h2"]), [(0, true), (50, false), (50, false), (60, true)]),
        // the second request shows that the server is known for HTTP/1.1
        (Then::Tunnels(&[]), [(0, true), (0, true), (2, false), (4, true)]),
        (Then::TunnelsBriefly, [(0, true), (0, true), (0, true), (0, true)]),
    ];
    for (number, (then, requests)) in cases.into_iter().enumerate() {
        let mut proxy = Peer::start(then).await;
        let client = client(&[("https_proxy", proxy.url())]);
        for (pause, is_new) in requests {
            // paused only here: during an exchange, a paused clock would jump to the end of the idle time
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(pause)).await;
            tokio::time::resume();
            post(&client, "https://server.test/mcp").await.unwrap();
            assert_eq!(proxy.heads.try_recv().is_ok(), is_new, "case {number} after {pause} s");
        }
    }
}

#[tokio::test]
async fn each_thread_has_connections_of_its_own() {
    let mut peer = Peer::start(Then::Answers(OK)).await;
    let (client, url) = (client(&[]), peer.url());
    post(&client, &url).await.unwrap();
    let (other, its_url) = (client.clone(), url.clone());
    let elsewhere = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { post(&other, &its_url).await.map(|(status, _)| status) })
    };
    assert_eq!(tokio::task::spawn_blocking(elsewhere).await.unwrap().unwrap(), StatusCode::OK);
    post(&client, &url).await.unwrap();
    assert_eq!([peer.head().0, peer.head().0, peer.head().0], [0, 1, 0]);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_replaced() {
    let mut peer = Peer::start(Then::AnswersOnce(OK)).await;
    let client = client(&[]);
    for _ in 0..3 {
        assert_eq!(post(&client, &peer.url()).await.unwrap().0, StatusCode::OK);
    }
    assert_eq!([peer.head().0, peer.head().0, peer.head().0], [0, 1, 2]);
}
